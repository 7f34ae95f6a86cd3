from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError
from crowdwise.methods.classify.raykar import Raykar

# The item "d" has no votes; "b" is a tie between cat and dog.
SMALL = Annotations.from_arrays(
    item=["a", "a", "a", "b", "b", "c"],
    annotator=["x", "y", "z", "x", "y", "z"],
    label=["dog", "dog", "cat", "cat", "dog", "eel"],
    items=["a", "b", "c", "d"],
)
RNG = np.random.default_rng(0)
TRUTH = np.arange(60) % 3
FEATURES = RNG.normal(size=(60, 3)) + 3 * np.eye(3)[TRUTH]
VOTES = Annotations.from_arrays(
    item=np.repeat(np.arange(60), 3),
    annotator=np.tile(["x", "y", "z"], 60),
    label=np.where(RNG.random(180) < 0.8, np.repeat(TRUTH, 3), RNG.integers(0, 3, 180)),
)


def test_an_array_of_votes_is_the_label_of_most_of_them() -> None:
    assert np.asarray(SMALL[:3]).tolist() == ["dog", "cat", "eel"]
    assert np.array(SMALL[[2, 1]]).tolist() == ["eel", "cat"]
    with pytest.raises(InputError, match="1 of 4 items have neither votes nor a known label"):
        np.asarray(SMALL)


def test_known_labels_and_weights_count() -> None:
    assert np.asarray(SMALL.with_gold({"b": "dog", "d": "eel"})).tolist() == ["dog", "dog", "eel", "eel"]
    heavy = Annotations.from_arrays([0, 0, 0], ["x", "y", "z"], [1, 1, 2], [1.0, 1.0, 3.0])
    assert np.asarray(heavy).tolist() == [2]


def test_no_array_without_a_copy() -> None:
    with pytest.raises(ValueError, match="only as a new array"):
        np.array(SMALL[:3], copy=False)


def test_strata_are_those_of_the_majority() -> None:
    majority = np.asarray(VOTES)
    found = StratifiedKFold(3, shuffle=True, random_state=0).split(FEATURES, VOTES)
    expected = StratifiedKFold(3, shuffle=True, random_state=0).split(FEATURES, majority)
    for (train, test), (train_too, test_too) in zip(found, expected, strict=True):
        assert train.tolist() == train_too.tolist()
        assert test.tolist() == test_too.tolist()
    _, _, _, held = train_test_split(FEATURES, VOTES, stratify=VOTES, test_size=15, random_state=0)
    assert np.abs(np.bincount(np.asarray(held)) - np.bincount(majority) / 4).max() < 1


def test_scores_and_filters_take_the_majority() -> None:
    majority = np.asarray(VOTES)
    assert accuracy_score(VOTES, TRUTH) == (majority == TRUTH).mean()
    np.testing.assert_allclose(SelectKBest(k=2).fit(FEATURES, VOTES).scores_, SelectKBest(k=2).fit(FEATURES, majority).scores_)


@pytest.mark.parametrize(
    "trainer",
    [
        RandomForestClassifier(),
        LogisticRegression(),
        GaussianNB(),
        BaggingClassifier(Raykar()),
        VotingClassifier([("a", Raykar()), ("b", Raykar())], voting="soft"),
        StackingClassifier([("a", Raykar()), ("b", Raykar())]),
    ],
)
def test_who_would_train_on_the_majority_alone_is_refused_with_the_way_out(trainer: Any) -> None:
    name = type(trainer).__name__
    with pytest.raises(InputError, match=rf"{name} trains on one label per row.*CrowdEM\(estimator={name}\(...\)\)"):
        trainer.fit(FEATURES, VOTES)


def test_probabilities_by_cross_validation_are_refused_and_labels_are_not() -> None:
    model = Raykar()
    with pytest.raises(InputError, match='use method="predict"'):
        cross_val_predict(model, FEATURES, VOTES, method="predict_proba")
    assert (cross_val_predict(model, FEATURES, VOTES, cv=3) == TRUTH).mean() > 0.9


def test_a_calibrator_trains_on_votes_and_is_judged_by_labels() -> None:
    model = CalibratedClassifierCV(Raykar(), cv=3).fit(FEATURES, VOTES)
    members = [pair.estimator for pair in model.calibrated_classifiers_]
    assert [member.annotators_.tolist() for member in members] == [["x", "y", "z"]] * 3
    assert model.score(FEATURES, TRUTH) > 0.9


def test_fitted_models_are_calibrated_and_combined_by_labels() -> None:
    model = Raykar().fit(FEATURES, VOTES)
    with pytest.raises(InputError, match=r"FrozenEstimator\(model\) and labels"):
        CalibratedClassifierCV(FrozenEstimator(model)).fit(FEATURES, VOTES)
    labels = np.asarray(VOTES)
    several = VotingClassifier([("one", FrozenEstimator(model)), ("same", FrozenEstimator(model))], voting="soft")
    np.testing.assert_allclose(several.fit(FEATURES, labels).predict_proba(FEATURES), model.predict_proba(FEATURES))
    assert CalibratedClassifierCV(FrozenEstimator(model)).fit(FEATURES, labels).score(FEATURES, TRUTH) > 0.9
