"""What every kind of answers promises: sizes, parts, joining, one order, arrays that cannot be written to."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers
from crowdwise.data.comparisons import Comparisons
from crowdwise.data.label_sets import LabelSets
from crowdwise.data.ratings import Ratings
from crowdwise.data.similarities import Similarities
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import InputError

ITEM, OTHER, WHO = ["q", "p", "r", "p"], ["p", "ü", "q", "r"], ["b", "a", "a", "b"]
KINDS: dict[str, tuple[Callable[..., Any], list[list[Any]]]] = {
    "Annotations": (Annotations.from_arrays, [ITEM, WHO, ["yes", "no", "no", "yes"]]),
    "Comparisons": (Comparisons.from_arrays, [ITEM, OTHER, WHO, ["left", "right", "tie", "left"]]),
    "Similarities": (Similarities.from_arrays, [ITEM, OTHER, WHO, [1, 0, 0, 1]]),
    "Ratings": (Ratings.from_arrays, [ITEM, WHO, [1.5, 2.0, -3.0, 4.0]]),
    "LabelSets": (LabelSets.from_arrays, [ITEM, WHO, ["cat|dog", "none", "!cat", "dog"]]),
    "TokenVotes": (TokenVotes.from_arrays, [[1, 1, 2, 1], [1, 2, 1, 2], WHO, ["O", "B-X", "O", "O"]]),
}


def made(kind: str, order: list[int] | None = None) -> Any:
    build, columns = KINDS[kind]
    return build(*([column[e] for e in order or range(4)] for column in columns))


def rows(answers: Any) -> list[Any]:
    return sorted(answers.to_frame().rows(), key=repr)


def arrays(answers: Any) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for field in fields(answers):
        value = getattr(answers, field.name)
        if isinstance(value, Answers):
            found |= {f"{field.name}.{name}": array for name, array in arrays(value).items()}
        elif isinstance(value, np.ndarray):
            found[field.name] = value
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_have_the_same_names_in_every_kind(kind: str) -> None:
    answers = made(kind)
    assert (answers.n_votes, answers.n_annotators, answers.n_missing) == (4, 2, 0)
    assert answers.n_items == len(answers.items) == len(answers.votes_per_item)
    assert answers.votes_per_item.sum() == (8 if kind in ("Comparisons", "Similarities") else 4)
    assert answers.votes_per_annotator.tolist() == [2, 2]
    assert answers.weights.tolist() == [1.0] * 4
    assert repr(answers).startswith(f"{kind}(4 ")


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_changes_no_bit(kind: str) -> None:
    expected = arrays(made(kind))
    for order in ([3, 2, 1, 0], [2, 0, 3, 1]):
        found = arrays(made(kind, order))
        assert found.keys() == expected.keys()
        for name, array in found.items():
            assert array.dtype == expected[name].dtype
            np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_cannot_be_written_to_even_after_pickling(kind: str) -> None:
    answers = made(kind)
    derived = {"weights": answers.weights, "per item": answers.votes_per_item, "per annotator": answers.votes_per_annotator}
    for array in [*arrays(answers).values(), *derived.values(), *arrays(pickle.loads(pickle.dumps(answers))).values()]:
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = array[:1]


@pytest.mark.parametrize("kind", KINDS)
def test_selecting_and_dropping_annotators_are_complements(kind: str) -> None:
    answers = made(kind)
    kept, rest = answers.select(annotators=["a"]), answers.drop(annotators=["a"])
    assert (kept.annotators.tolist(), rest.annotators.tolist()) == (["a"], ["b"])
    assert kept.n_items == answers.n_items
    assert sorted([*rows(kept), *rows(rest)], key=repr) == rows(answers)
    with pytest.raises(InputError, match="no annotator 'c'"):
        answers.select(annotators="c")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "TokenVotes"])
def test_selecting_items_keeps_the_answers_on_them_alone(kind: str) -> None:
    answers = made(kind)
    kept = answers.select(items=["r", "q"])
    assert kept.items.tolist() == ["q", "r"]
    assert kept.annotators is answers.annotators
    pairs = kind in ("Comparisons", "Similarities")
    asked = [row for row in rows(answers) if {*row[: 2 if pairs else 1]} <= {"q", "r"}]
    assert rows(kept) == asked
    assert rows(answers.drop(items=["p", "ü"] if pairs else ["p"])) == asked


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["annotation", "item"])
def test_a_split_makes_two_parts_of_the_whole(kind: str, by: str) -> None:
    answers = made(kind)
    rest, held = answers.split(0.5, by=by, random_state=1)
    if by == "annotation" or kind not in ("Comparisons", "Similarities"):
        assert sorted([*rows(rest), *rows(held)], key=repr) == rows(answers)
    again = answers.split(0.5, by=by, random_state=1)
    assert [rows(part) for part in again] == [rows(rest), rows(held)]
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        answers.split(1.5)
    with pytest.raises(InputError, match="'annotation' or 'item'"):
        answers.split(by="annotator")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "TokenVotes"])
def test_parts_of_the_answers_join_to_the_whole(kind: str) -> None:
    whole = made(kind)
    joined = made(kind, [2, 0]).concat(made(kind, [3]), made(kind, [1]))
    assert rows(joined) == rows(whole)
    assert joined.items.tolist() == whole.items.tolist()
    assert joined.annotators.tolist() == whole.annotators.tolist()
    found, expected = arrays(joined), arrays(whole)
    for name in ("item_ptr", "annotator", "item", "first", "second", "value", "answer"):
        if name in found:
            np.testing.assert_array_equal(found[name], expected[name])


def test_sequences_are_joined_and_cut_whole() -> None:
    tags = made("TokenVotes")
    first, second = tags.take_sequences(np.array([0])), tags.take_sequences(np.array([1]))
    assert (first.n_tokens, second.n_tokens, first.n_sequences) == (2, 1, 1)
    assert rows(first.concat(second)) == rows(tags)
    with pytest.raises(InputError, match="share the id of a sequence"):
        first.concat(tags)
    with pytest.raises(InputError, match="sequence 1 would lose some of its tokens"):
        tags.select(items=[0])
    assert rows(tags.select(items=[0, 1])) == rows(first)


def test_two_answers_of_one_annotator_on_an_item_are_not_joined() -> None:
    answers = made("LabelSets")
    with pytest.raises(InputError, match=r"annotator '.' answered item '.' twice"):
        answers.concat(answers)


def test_ratings_of_other_dimensions_are_not_joined() -> None:
    boxes = Ratings.from_arrays(["q"], ["a"], [[1, 2]], names=["left", "right"])
    with pytest.raises(InputError, match="ratings of value cannot be joined with those of left, right"):
        made("Ratings").concat(boxes)


def test_ratings_come_from_a_matrix() -> None:
    ratings = Ratings.from_matrix([[1, np.nan], [2, 3]], items=["x", "y"], annotators=["b", "a"])
    assert rows(ratings) == [("x", "b", 1.0), ("y", "a", 3.0), ("y", "b", 2.0)]
    assert ratings.annotators.tolist() == ["b", "a"]
    with pytest.raises(InputError, match="two axes"):
        Ratings.from_matrix([1, 2])
    with pytest.raises(InputError, match="1 item ids and 2 annotator ids"):
        Ratings.from_matrix([[1, 2], [3, 4]], items=["x"])


@pytest.mark.parametrize("kind", KINDS)
def test_saved_arrays_that_contradict_each_other_are_noticed(kind: str) -> None:
    from dataclasses import replace

    answers = made(kind)
    assert answers.sound()
    if kind == "TokenVotes":
        assert not replace(answers, position=answers.position[:1]).sound()
    else:
        assert not replace(answers, annotator=answers.annotator + 1).sound()
        assert not replace(answers, annotator=answers.annotator[:1]).sound()
