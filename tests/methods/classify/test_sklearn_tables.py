"""The classifiers on tables: ordinary ones of scikit-learn when given one label per row, and its tools on votes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.methods.classify.crowds import clouds, diagonal_crowd, vote

from crowdwise.errors import ArgumentError, InputError
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


def rows_by_the_message(weight: np.ndarray, which: int) -> np.ndarray:
    """Refused weights of rows, and what one of the two ways that the message names makes of them."""
    with pytest.raises(ArgumentError, match="takes no sample_weight") as refused:
        Pipeline([("clf", Raykar())]).fit(FEATURES, VOTES, clf__sample_weight=weight)
    ways = re.findall(r"rows = (np\..+?)(?:, or|; then) ", str(refused.value))
    assert len(ways) == 2
    found = eval(ways[which], {"np": np, "X": FEATURES, "w": weight, "len": len})
    assert Raykar().fit(FEATURES[found], VOTES[found]).result_.votes.n_items == len(found)
    return np.bincount(found, minlength=len(weight))


def test_refused_weights_of_rows_come_with_code_that_repeats_or_draws_rows() -> None:
    weight = np.arange(90) % 3
    np.testing.assert_array_equal(rows_by_the_message(weight, 0), weight)
    drawn = rows_by_the_message(weight / 7, 1)
    assert drawn.sum() == 90
    assert drawn[weight == 0].sum() == 0
    # Of 90 draws, 30 and 60 are expected; five standard deviations are 22.
    assert abs(drawn[weight == 2].sum() - 60) < 22
