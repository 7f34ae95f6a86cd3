"""A fit kept on disk or sent to another process is the same fit."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from tests.contract.crowds import answers_of, bits, every_method, fitted, predictions, quiet, same

import crowdwise
from crowdwise.estimator.storage import load


@every_method
def test_a_saved_fit_comes_back_whole(name: str, tmp_path: Path) -> None:
    """Otherwise a fit of an hour must be repeated to be asked again."""
    model, crowd = fitted(name), answers_of(name)
    model.save(tmp_path / "fit")
    loaded = crowdwise.load(tmp_path / "fit")
    # A choice among classifiers is kept as what it chose.
    model = model.estimator_ if name == "auto-classifier" else model
    assert type(loaded) is type(model)
    assert loaded.name == model.name
    assert loaded.get_params() == model.get_params()
    same(model, loaded)
    np.testing.assert_array_equal(predictions(model, crowd), predictions(loaded, crowd))
    # And it can be fitted again from its settings.
    with quiet():
        if crowd.features is None:
            loaded.fit(crowd.answers())
        else:
            loaded.fit(crowd.features, crowd.answers(), items=crowd.items)
    same(model, loaded)


@every_method
def test_an_outcome_saves_itself(name: str, tmp_path: Path) -> None:
    """Otherwise what a function returns cannot be kept without the estimator that made it."""
    result = fitted(name).result_
    result.save(tmp_path)
    loaded = load(tmp_path)
    assert type(loaded) is type(result)
    assert bits(loaded) == bits(result)
    assert loaded.items_frame().equals(result.items_frame())
    assert (loaded.method, dict(loaded.settings)) == (result.method, dict(result.settings))


@every_method
def test_a_pickled_fit_comes_back_whole(name: str) -> None:
    """Otherwise joblib, Ray and notebooks lose it."""
    model, crowd = fitted(name), answers_of(name)
    again = pickle.loads(pickle.dumps(model))
    same(model, again)
    np.testing.assert_array_equal(predictions(model, crowd), predictions(again, crowd))
