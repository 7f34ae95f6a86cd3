"""Answers at the edges of what is allowed: every method fits them, or refuses them in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.contract.crowds import Crowd, answers_of, every_method, parameters, predictions, quick

from crowdwise.errors import CrowdwiseError, InputError
from crowdwise.estimator.registry import METHODS, Method

SHAPES = (
    "one answer",
    "one item",
    "one annotator",
    "one answer each",
    "one class",
    "repeated answers",
    "half",
)


def shaped(crowd: Crowd, shape: str) -> Mapping[str, Any]:
    """The crowd's columns, cut down to a shape."""
    columns = crowd.columns
    n_rows = len(columns["annotator"])
    item = columns[next(iter(columns))]
    if shape == "one answer":
        return crowd.rows(slice(0, 1))
    if shape == "one item":
        return crowd.rows(item == item[0])
    if shape == "one annotator":
        return crowd.rows(columns["annotator"] == columns["annotator"][0])
    if shape == "one answer each":
        return crowd.rows(np.unique(item, return_index=True)[1])
    if shape == "one class":
        return {**columns, crowd.answer: np.repeat(columns[crowd.answer][:1], n_rows)}
    if shape == "repeated answers":
        return crowd.rows(np.repeat(np.arange(n_rows), 3))
    return crowd.rows(np.arange(n_rows) % 2 == 0)


def refusal(method: Method, shape: str, columns: Mapping[str, Any]) -> str | None:
    """What the message says where a shape is refused.

    An annotator tags a token once, a classifier tells classes apart, and two items are no three clusters.
    """
    if method.answers == "tags" and shape == "repeated answers":
        return "before"
    if method.answers == "labels" and method.features and len(set(columns["label"])) < 2:
        return "at least two classes"
    if method.answers == "similarities" and shape == "one answer":
        return "ask for fewer"
    return None


@every_method
def test_odd_answers_are_fitted(name: str) -> None:
    """Otherwise the first day of a campaign, with its few answers, ends in a stack trace."""
    crowd = answers_of(name)
    # To the end, where odd answers lead to the edge of what numbers can hold.
    settings = {"max_iter": 100} if crowd.features is None and "max_iter" in quick(crowd.method) else {}
    for shape in SHAPES:
        try:
            columns = shaped(crowd, shape)
            message = refusal(crowd.method, shape, columns)
            if message is None:
                is_sound(crowd.fit(crowd.read(columns), settings=settings), crowd)
            else:
                with pytest.raises(CrowdwiseError, match=message):
                    crowd.fit(crowd.read(columns))
        except Exception as problem:
            raise AssertionError(f"{shape}: {problem!r}") from problem


def is_sound(model: Any, crowd: Crowd) -> None:
    """Frames have rows, and what is not known is null rather than not a number."""
    for frame in (model.items_frame(), model.annotators_frame()):
        assert len(frame) > 0
        assert not [column for column in frame.columns if frame[column].dtype.is_float() and frame[column].is_nan().any()]
    if crowd.features is not None:
        found = predictions(model, crowd)
        assert found is None or found.dtype.kind != "f" or np.isfinite(found).all()


@every_method
def test_no_answers_at_all_are_refused_or_say_that_nothing_is_known(name: str) -> None:
    """Otherwise an empty file ends in a stack trace."""
    crowd = answers_of(name)
    empty = crowd.rows(slice(0, 0))
    if METHODS[name].answers == "labels" and not METHODS[name].features and crowd.groups is None:
        model = crowd.fit(crowd.read(empty, items=["x", "y"], annotators=["a"], classes=["p", "q"]))
        np.testing.assert_allclose(model.posterior_, 0.5)
        assert model.items_frame()["note"].to_list() == ["no votes"] * 2
    with pytest.raises(InputError, match=r"no \w+|missing|empty"):
        crowd.fit(crowd.read(empty))


@parameters(answers="labels")
def test_items_and_annotators_without_votes_are_kept(name: str) -> None:
    """Otherwise rows of the answer no longer belong to rows of the user's table."""
    crowd = answers_of(name)
    if crowd.groups is not None:
        pytest.skip("every item needs its group")
    more = [] if crowd.features is not None else ["item-98", "item-99"]
    voted = crowd.rows(crowd.columns["item"] != "item-05")
    ids = [*crowd.items.tolist(), *more]
    people = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Idle"]
    model = crowd.fit(crowd.read(voted, items=ids, annotators=people))
    frame = model.items_frame()
    assert model.items_.tolist() == ids
    assert model.annotators_.tolist() == people
    counts = dict(zip(frame["item"], frame["n_votes"], strict=True))
    assert {item for item, n in counts.items() if n == 0} == {"item-05", *more}
    assert {note for item, note in zip(frame["item"], frame["note"], strict=True) if counts[item] == 0} == {"no votes"}
    assert model.annotators_frame()["n_votes"].to_list()[-1] == 0
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1, atol=1e-6)
