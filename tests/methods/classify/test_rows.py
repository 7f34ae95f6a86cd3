"""Rows of features from a file, predicted as they were trained on."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.io.features import Features
from crowdwise.methods.classify.rows import predictions


def test_predictions_are_the_classifiers_own() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    labels = np.where(X[:, 0] > 0, "right", "left")
    votes = Annotations.from_arrays(np.repeat(np.arange(40), 3), ["a", "b", "c"] * 40, np.repeat(labels, 3))
    model = make("raykar").fit(Features(X, None, ["one", "two"], "X.csv").table, votes)
    new = rng.normal(size=(5, 3))
    rows = Features(new, np.array(list("vwxyz"), object), ["two", "three", "one"], "new.csv")
    found = predictions(model, rows)
    assert found.ignored == ["three"]
    expected = model.predict_proba(Features(new[:, [2, 0]], None, ["one", "two"], "new.csv").table)
    np.testing.assert_array_equal(found.probabilities, expected)
    assert found.frame.columns == ["item", "label", "confidence", "p(left)", "p(right)"]
    assert found.frame["item"].to_list() == list("vwxyz")
    np.testing.assert_array_equal(found.frame["confidence"], expected.max(axis=1))
    assert found.frame["label"].to_list() == [["left", "right"][k] for k in expected.argmax(axis=1)]
