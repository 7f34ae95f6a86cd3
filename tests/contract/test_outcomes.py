"""What every fit leaves (ids, frames with the same names of columns, arrays that nobody can change) and may be given."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.contract.crowds import N_ANNOTATORS, answers_of, arrays, every_method, fitted, parameters, watched

from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Outcome
from crowdwise.estimator.registry import METHODS

# The answer that a method gives for an item, by the kind of answers it takes.
ANSWER = {
    "labels": "label",
    "partial labels": "label",
    "label sets": "label",
    "tags": "tag",
    "ratings": "estimate",
    "comparisons": "score",
    "similarities": "cluster",
}
OLD_COUNTS = {"n_values", "n_answers", "n_comparisons", "n_tokens"}


@every_method
def test_ids_are_ids(name: str) -> None:
    """Otherwise a script that reads `items_` of one method breaks on another."""
    model, crowd = fitted(name), answers_of(name)
    for ids in (model.items_, model.annotators_):
        assert isinstance(ids, np.ndarray)
        assert ids.ndim == 1
        assert len(set(ids.tolist())) == len(ids)
    assert set(model.annotators_.tolist()) == set(crowd.columns["annotator"].tolist())
    if METHODS[name].answers != "tags":
        assert set(model.items_.tolist()) == set(crowd.items.tolist())
    if METHODS[name].answers == "labels":
        assert model.classes_.tolist() == sorted(set(crowd.columns["label"].tolist()))


@every_method
def test_frames_have_the_same_names_of_columns(name: str) -> None:
    """Otherwise what reads one method's table cannot read another's."""
    model, crowd = fitted(name), answers_of(name)
    items, annotators = model.items_frame(), model.annotators_frame()
    assert isinstance(items, pl.DataFrame)
    assert isinstance(annotators, pl.DataFrame)
    assert items.columns[0] == "item"
    assert ANSWER[METHODS[name].answers] in items.columns[:4]
    assert annotators.columns[0] == "annotator"
    assert items["item"].to_list() == model.items_.tolist()
    assert annotators["annotator"].to_list() == model.annotators_.tolist()
    for frame in (items, annotators):
        assert frame["n_votes"].dtype.is_integer()
        assert not OLD_COUNTS & set(frame.columns)
        for column in frame.columns:
            if frame[column].dtype.is_float():
                assert not frame[column].is_nan().any(), f"{column}: what is not known is null, so that it is an empty cell"
    assert annotators["n_votes"].sum() == len(crowd.columns["annotator"])
    assert len(annotators) == N_ANNOTATORS
    if "confidence" in items.columns:
        assert items["confidence"].is_between(0, 1 + 1e-9).all()
    if "note" in items.columns:
        assert items["note"].dtype == pl.String


@every_method
def test_the_outcome_says_how_the_fit_went(name: str) -> None:
    """Otherwise a report cannot say which method ran, with which settings, and whether it converged."""
    model = fitted(name)
    result = model.result_
    assert isinstance(result, Outcome)
    assert result.method.partition(":")[0] == name  # a choice adds what it chose
    # A choice among classifiers leaves the outcome of what it chose.
    settings = (model.estimator_ if name == "auto-classifier" else model).get_params()
    # Data that judge and listeners are no part of a model.
    assert dict(result.settings) == {key: settings[key] for key in settings if key not in ("callbacks", "validation_data")}
    assert result.items_frame().equals(model.items_frame())
    assert result.annotators_frame().equals(model.annotators_frame())
    assert isinstance(result.trace, dict)
    for term in result.trace.values():
        assert np.isfinite(term).all()
        assert len(term) - result.n_iter in (0, 1)  # the start may be counted too
    assert isinstance(model.n_iter_, int)
    assert isinstance(model.converged_, bool)
    assert (model.n_iter_, model.converged_) == (result.n_iter, result.converged)


@every_method
def test_nobody_can_change_an_outcome(name: str) -> None:
    """Otherwise a plot that sorts in place changes the labels of everybody who looks later."""
    result = fitted(name).result_
    found = list(arrays(result))
    assert found
    assert [path for path, array in found if array.flags.writeable] == []
    with pytest.raises((FrozenInstanceError, AttributeError)):
        result.method = "other"


@every_method
def test_probabilities_are_probabilities(name: str) -> None:
    """Otherwise a threshold on confidence means nothing."""
    result = fitted(name).result_
    for field in ("posterior", "confusion"):
        if hasattr(result, field):
            rows = getattr(result, field)
            assert np.isfinite(rows).all()
            assert (rows >= 0).all()
            np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-5)


@every_method
def test_progress_is_reported(name: str) -> None:
    """Otherwise a long fit looks like one that hangs."""
    model, seen = watched(name)
    if model.n_iter_ > 0 and model.result_.trace:
        assert seen
        assert seen[0][0] in (0, 1)
        assert all(isinstance(number, int | float | np.floating | np.integer) for step in seen for number in step)


# -- what may be given ----------------------------------------------------------------------------


@parameters(gold=True, answers="labels")
def test_known_labels_stay(name: str) -> None:
    """Otherwise what an expert decided is overruled by the crowd."""
    crowd = answers_of(name)
    wrong = dict(zip(crowd.items[:3].tolist(), ("bee", "ant", "ant"), strict=True))
    model = crowd.fit(gold=wrong)
    frame = model.items_frame()
    assert frame["label"].to_list()[:3] == list(wrong.values())
    assert frame["note"].to_list()[:3] == ["known"] * 3
    np.testing.assert_allclose(model.posterior_[:3].max(axis=1), 1, atol=1e-6)


@parameters(gold=True, answers="ratings")
def test_known_values_stay(name: str) -> None:
    """Otherwise a measured value is overruled by the crowd."""
    crowd = answers_of(name)
    known = {"item-00": 5.0, "item-07": 6.5}
    frame = crowd.fit(gold=known).items_frame()
    assert dict(zip(frame["item"], frame["estimate"], strict=True)).items() >= known.items()


@parameters(gold=False)
def test_gold_is_refused_where_it_is_not_taken(name: str) -> None:
    """Otherwise known answers are dropped in silence."""
    crowd = answers_of(name)
    with pytest.raises(SettingError, match=f"{name}.*gold"):
        crowd.fit(gold={"item-00": "ant"})


@parameters(history=True)
def test_a_record_of_annotators_is_taken(name: str) -> None:
    """Otherwise every campaign learns its annotators from scratch."""
    crowd = answers_of(name)
    told = crowd.fit(history={"Ada": (90, 10), "nobody here": (1, 1)})
    assert len(told.annotators_) == N_ANNOTATORS


@parameters(history=False, features="")
def test_history_is_refused_where_it_is_not_taken(name: str) -> None:
    """Otherwise the record of annotators is dropped in silence."""
    with pytest.raises(SettingError, match=f"{name}.*history"):
        answers_of(name).fit(history={"Ada": (9, 1)})


class Engine:
    """What is given as `engine`; a method that cannot use one never calls it."""

    def fit(self, *args: Any, **options: Any) -> None:
        raise AssertionError("a method without shards was handed to an engine")


@parameters(shards=False)
def test_an_engine_is_refused_where_it_is_not_taken(name: str) -> None:
    """Otherwise a fit that was meant for a cluster runs in memory until it is full."""
    if METHODS[name].features:
        pytest.skip("engines train networks in several processes: tests/scale")
    if METHODS[name].edges:
        pytest.skip("files are cut along edges: tests/scale/test_graph_shards.py")
    with pytest.raises(SettingError, match=f"{name}.*engine"):
        answers_of(name).fit(engine=Engine())
