"""One-hot labels and probabilities as `y`: what classifiers learn from them, and in which classes they answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.methods.classify.crowds import clouds

import crowdwise
from crowdwise.errors import InputError

X, TRUTH = clouds(0, 150, 3)
ONE_HOT = np.eye(3)[TRUTH]
NEW, NEW_TRUTH = X[100:], TRUTH[100:]

MAKE: dict[str, Any] = {
    "raykar": crowdwise.Raykar,
    "two-stage": crowdwise.TwoStage,
    "ccem": lambda: crowdwise.CCEM(epochs=8, learning_rate=1e-2, random_state=0),
    "bayes-dgc": lambda: crowdwise.BayesDGC(epochs=8, learning_rate=1e-2, random_state=0),
}


@pytest.mark.parametrize("method", MAKE)
def test_one_hot_labels_give_the_bits_of_labels(method: str) -> None:
    plain = MAKE[method]().fit(X[:100], TRUTH[:100])
    for y in (ONE_HOT, torch.tensor(ONE_HOT).long(), pd.DataFrame(ONE_HOT.astype(bool))):
        fitted = MAKE[method]().fit(X[:100], y[:100])
        np.testing.assert_array_equal(fitted.predict_proba(NEW), plain.predict_proba(NEW))
        assert fitted.score(NEW, y[100:]) == plain.score(NEW, NEW_TRUTH)


@pytest.mark.parametrize("method", MAKE)
def test_how_sure_probabilities_are_is_learned(method: str) -> None:
    # Two clouds are certain; of the third, class 0 is hardly the likelier one.
    soft = np.array([[0.98, 0.02], [0.02, 0.98], [0.52, 0.48]])[TRUTH]
    hard = np.eye(2)[soft.argmax(axis=1)]
    unsure = NEW_TRUTH == 2
    learned, believed = (MAKE[method]().fit(X[:100], y[:100]).predict_proba(NEW)[:, 0] for y in (soft, hard))
    assert learned[NEW_TRUTH == 0].mean() > 0.8 > 0.2 > learned[NEW_TRUTH == 1].mean()
    assert believed[unsure].mean() > 0.8
    assert 0.2 < learned[unsure].mean() < believed[unsure].mean() - 0.1


def test_several_annotators_with_probabilities_are_known_one_by_one() -> None:
    rng = np.random.default_rng(1)
    good = 0.8 * ONE_HOT + 0.2 / 3
    guesses = 0.8 * np.eye(3)[rng.integers(3, size=150)] + 0.2 / 3
    y = np.stack([good, guesses, good], axis=1)
    y[:20, 2] = 0
    model = crowdwise.Raykar().fit(X[:100], y[:100])
    assert model.score(NEW, NEW_TRUTH) > 0.9
    right = np.diagonal(model.confusion_, axis1=1, axis2=2).mean(axis=1)
    assert right[1] < right[0] - 0.2
    assert model.result_.votes.answers_per_annotator.tolist() == [100, 100, 80]


def test_classes_are_the_columns_and_new_arrays_are_read_in_them() -> None:
    frame = pd.DataFrame(0.8 * ONE_HOT + 0.2 / 3, columns=["cat", "dog", "elk"])
    model = crowdwise.Raykar().fit(X[:100], frame[:100])
    assert model.classes_.tolist() == ["cat", "dog", "elk"]
    assert (model.predict(NEW) == model.classes_[NEW_TRUTH]).mean() > 0.9
    assert model.score(NEW, ONE_HOT[100:]) == (model.predict(NEW) == model.classes_[NEW_TRUTH]).mean()
    # One row, too, although a single one-hot row of whole numbers may be anything elsewhere.
    alone, both = model.predict_proba(NEW[:1]), model.predict_proba(NEW[:1], ONE_HOT[100:101].astype(int))
    assert both[0, NEW_TRUTH[0]] > alone[0, NEW_TRUTH[0]]


def test_a_class_without_any_label_stays_a_class() -> None:
    model = crowdwise.Raykar().fit(X[:100], np.eye(5)[TRUTH[:100]])
    assert model.predict_proba(NEW).shape == (50, 5)


def test_rows_without_a_label_are_labelled() -> None:
    y = ONE_HOT[:100].copy()
    y[::4] = np.nan
    model = crowdwise.Raykar().fit(X[:100], y)
    assert (model.labels_[::4] == TRUTH[:100:4]).mean() > 0.9


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (X[:, 0], r"y of shape \(150,\) holds numbers such as .*column_stack"),
        (X, r"y of shape \(150, 4\) holds neither votes nor probabilities.*row 0"),
        (ONE_HOT[:140], "X has 150 rows but there are 140"),
        (np.eye(3, dtype=int), "may be one-hot labels"),
    ],
)
def test_what_is_no_label_is_refused_with_its_shape(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        crowdwise.Raykar().fit(X, y)
