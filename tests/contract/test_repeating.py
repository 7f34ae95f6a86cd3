"""What must not matter to a fit: when it runs, in which order and in which table answers come, what things are called."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from tests.contract.crowds import (
    FAST,
    Crowd,
    answers_of,
    arrays,
    bits,
    every_method,
    fitted,
    numbers,
    parameters,
    predictions,
    quiet,
    same,
)

from crowdwise.estimator.registry import METHODS


@every_method
def test_a_clone_and_a_second_fit_start_from_scratch(name: str) -> None:
    """Otherwise cross-validation leaks what the last fold taught."""
    other = answers_of(name, seed=1)
    model = copy.deepcopy(fitted(name))
    kept = model.get_params()
    fresh = clone(model)
    assert "result_" not in vars(fresh)
    with quiet():
        for again in (fresh, model):
            _fit_again(again, other)
    same(fresh, model)
    assert model.get_params() == kept


def _fit_again(model: Any, crowd: Crowd) -> None:
    if crowd.features is None:
        model.fit(crowd.answers())
    else:
        model.fit(crowd.features, crowd.answers(), items=crowd.items)


@every_method
def test_the_order_of_rows_changes_nothing_to_the_bit(name: str) -> None:
    """Otherwise sorting a file changes its labels."""
    crowd = answers_of(name)
    rows = crowd.rows(np.random.default_rng(1).permutation(len(crowd.columns["annotator"])))
    # As a table, which is read by one function for each kind of answers; groups travel with the answers.
    as_table = crowd.groups is None and name not in FAST
    same(fitted(name), crowd.fit(pl.DataFrame({key: rows[key].tolist() for key in rows}) if as_table else crowd.read(rows)))


@every_method
def test_other_names_of_the_same_order_change_no_number(name: str) -> None:
    """Otherwise ids that look like formulas, other scripts or long texts would get other labels than plain ones."""
    crowd = answers_of(name)
    known = list(crowd.columns)[:-1]
    columns = dict(crowd.columns)
    for column in known:
        if column != "position":
            columns[column] = renamed(columns[column])
    if METHODS[name].answers == "labels":
        columns["label"] = renamed(columns["label"])
    groups = None if crowd.groups is None else {renamed([item])[0]: group for item, group in crowd.groups.items()}
    other = Crowd(crowd.method, columns, renamed(crowd.items), crowd.truth, crowd.features, groups)
    assert numbers(other.fit().result_) == numbers(fitted(name).result_)


def renamed(names: Any) -> Any:
    """A formula, an accent, an emoji and the old name: the order of the names stays."""
    return np.array([f"=é😀 {name}" for name in names], dtype=object)


@parameters(answers="labels", features="", ordered=False)
def test_classes_in_another_order_give_the_same_labels(name: str) -> None:
    """Otherwise the alphabet decides who is right."""
    crowd = answers_of(name)
    turned = dict(zip(("ant", "bee", "cat"), ("zebra", "yak", "xenops"), strict=True))
    other = crowd.fit(crowd.answers(label=np.array([turned[label] for label in crowd.columns["label"]], dtype=object)))
    # A tie may fall either way; where four of five agree, nothing is in doubt.
    votes = crowd.columns["label"].reshape(len(crowd.items), -1)
    clear = [max(np.unique(said, return_counts=True)[1]) >= 4 for said in votes]
    pairs = zip(other.labels_, [turned[label] for label in fitted(name).labels_], clear, strict=True)
    assert [(label, expected) for label, expected, sure in pairs if sure and label != expected] == []


@every_method
def test_two_fits_are_equal_to_the_bit_and_leave_their_inputs_which_may_be_read_only(name: str) -> None:
    """Otherwise nobody can repeat a study, and the second method of a comparison gets other data than the first."""
    crowd = answers_of(name)
    data = crowd.answers()
    before = copy.deepcopy(bits(data))
    if crowd.features is not None:
        crowd.features.setflags(write=False)
        kept = crowd.features.copy()
    model = crowd.fit(data)
    same(fitted(name), model)
    np.testing.assert_array_equal(predictions(fitted(name), crowd), predictions(model, crowd))
    assert bits(data) == before
    if crowd.features is not None:
        np.testing.assert_array_equal(crowd.features, kept)
        # A result that shares the caller's array would change with it.
        assert not any(array.base is crowd.features or array is crowd.features for _, array in arrays(model.result_))


@pytest.mark.parametrize("name", [name for name in FAST if not METHODS[name].groups])
def test_answers_come_as_a_dict_or_a_frame_of_any_library(name: str) -> None:
    """Otherwise users must learn a class before they can try a method; the others are given a frame above."""
    crowd = answers_of(name)
    table = {column: values.tolist() for column, values in crowd.columns.items()}
    for form in (table, pd.DataFrame(table), pl.DataFrame(table)):
        same(fitted(name), crowd.fit(form))


def test_these_are_of_every_kind() -> None:
    assert {METHODS[name].answers for name in FAST} == {line.answers for line in METHODS.values()}


@every_method
def test_what_is_no_table_is_refused_in_a_sentence(name: str) -> None:
    """Otherwise a wrong argument ends in an error deep inside."""
    # scikit-learn has its own sentence about a `y` that is no column.
    with pytest.raises(ValueError, match=r"\w+ \w+ \w+"):
        answers_of(name).fit(7)
