"""The classifiers on tables: ordinary ones of scikit-learn when given one label per row, and its tools on votes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.methods.classify.crowds import clouds, diagonal_crowd, vote

from crowdwise.errors import InputError
from crowdwise.methods.classify.crowd_em import CrowdEM
from crowdwise.methods.classify.raykar import Raykar
from crowdwise.methods.classify.two_stage import TwoStage
from crowdwise.methods.classify.yan import Yan


@pytest.mark.slow
@parametrize_with_checks([CrowdEM(), Raykar(), Raykar(classifier="gaussian"), Yan(), TwoStage()])
def test_scikit_learn_agrees_that_it_is_a_classifier(estimator: Any, check: Any) -> None:
    check(estimator)


FEATURES, TRUTH = clouds(0, 90, 3)
VOTES = vote(0, TRUTH, diagonal_crowd(4, 3, 0.8), per_item=3)
GOLD = VOTES.with_gold(dict(enumerate(TRUTH.tolist())))


def by_hand(scored: Any) -> list[float]:
    """Fits to three strata by majority and what `scored` says of the fit on the third left out."""
    folds = StratifiedKFold(3).split(FEATURES, np.asarray(VOTES))
    return [scored(Raykar().fit(FEATURES[train], VOTES[train]), test) for train, test in folds]


def test_a_number_of_folds_cuts_votes_by_majority_and_scores_held_out_votes() -> None:
    found = cross_val_score(Raykar(), FEATURES, VOTES, cv=3, error_score="raise")
    np.testing.assert_allclose(found, by_hand(lambda model, test: model.score(FEATURES[test], VOTES[test])))
    assert (found < 0).all()


def test_accuracy_is_that_of_the_majority_or_of_known_labels() -> None:
    found = cross_val_score(Raykar(), FEATURES, VOTES, cv=3, scoring="accuracy", error_score="raise")
    majority = np.asarray(VOTES)
    expected = by_hand(lambda model, test: (model.predict(FEATURES[test]) == majority[test]).mean())
    np.testing.assert_allclose(found, expected)
    search = GridSearchCV(Raykar(), {"smoothing": [1.0]}, cv=KFold(3), scoring="accuracy", error_score="raise")
    search.fit(FEATURES, GOLD)
    right = [
        (Raykar().fit(FEATURES[train], GOLD[train]).predict(FEATURES[test]) == TRUTH[test]).mean()
        for train, test in KFold(3).split(FEATURES)
    ]
    assert search.best_score_ == pytest.approx(np.mean(right))


def test_weights_of_rows_do_not_weigh_votes() -> None:
    with pytest.raises(InputError, match="votes have weights of their own"):
        Raykar().fit(FEATURES, VOTES).score(FEATURES, VOTES, sample_weight=np.ones(90))
