"""Arrays of one-hot labels and probabilities: told from votes, read as votes, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.vote_arrays import array_votes
from crowdwise.errors import InputError

TRUTH = np.arange(30) % 3
ONE_HOT = np.eye(3)[TRUTH]
SOFT = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5], [0.25, 0.25, 0.5]])


def read(y: Any, **options: Any) -> Annotations:
    votes = array_votes(y, **options)
    assert votes is not None
    return votes


FORMS = {
    "floats": lambda y: y,
    "single precision": lambda y: y.astype(np.float32),
    "whole numbers": lambda y: y.astype(int),
    "bytes": lambda y: y.astype(np.uint8),
    "booleans": lambda y: y.astype(bool),
    "lists": lambda y: y.astype(int).tolist(),
    "arrays in a list": lambda y: list(y),
    "series of lists": lambda y: pl.Series(y.tolist()),
    "objects": lambda y: pd.Series(list(y)),
    "sparse": sp.csr_matrix,
    "pandas": pd.DataFrame,
}


@pytest.mark.parametrize("form", FORMS)
def test_one_hot_labels_are_one_hard_vote_per_row(form: str) -> None:
    votes = read(FORMS[form](ONE_HOT))
    assert not votes.soft
    assert votes.weight is None
    assert votes.annotators.tolist() == ["y"]
    assert votes.classes.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(votes.label, TRUTH)
    np.testing.assert_array_equal(votes.item, np.arange(30))


def test_probabilities_are_soft_votes_of_one_annotator() -> None:
    votes = read(SOFT)
    assert votes.soft
    assert (votes.n_answers, votes.n_annotators, votes.n_classes) == (3, 1, 3)
    np.testing.assert_allclose(votes.weights, [0.7, 0.2, 0.1, 0.5, 0.5, 0.25, 0.25, 0.5])
    np.testing.assert_array_equal(votes.label, [0, 1, 2, 1, 2, 0, 1, 2])


@pytest.mark.parametrize("blank", [0.0, np.nan])
def test_rows_of_zeros_or_nan_are_no_vote(blank: float) -> None:
    votes = read(np.vstack([SOFT, np.full(3, blank)]))
    assert votes.votes_per_item.tolist() == [3, 2, 3, 0]
    several = read(np.stack([SOFT, np.full((3, 3), blank)], axis=1))
    assert (several.n_annotators, several.n_answers) == (2, 3)


def test_nan_rows_of_a_one_hot_array_are_no_vote() -> None:
    y = ONE_HOT.copy()
    y[4] = np.nan
    assert np.flatnonzero(read(y).votes_per_item == 0).tolist() == [4]


def test_three_axes_are_several_annotators() -> None:
    votes = read(np.stack([SOFT, SOFT[::-1]], axis=1))
    assert votes.annotators.tolist() == [0, 1]
    of_second = votes.annotator == 1
    shares = np.zeros((3, 3))
    shares[votes.item[of_second], votes.label[of_second]] = votes.weights[of_second]
    np.testing.assert_allclose(shares, SOFT[::-1])
    certain = read(np.stack([ONE_HOT, ONE_HOT[::-1]], axis=1).astype(int))
    assert not certain.soft
    np.testing.assert_array_equal(certain.label.reshape(30, 2), np.column_stack([TRUTH, TRUTH[::-1]]))


def test_columns_of_a_frame_name_the_classes() -> None:
    names = ["über", "cat", "dog"]
    for frame in (pd.DataFrame(SOFT, columns=names), pl.DataFrame(SOFT, schema=names)):
        assert read(frame).classes.tolist() == names
    dummies = pd.get_dummies(pd.Series(["b", "a", "b"]))
    votes = read(dummies)
    assert votes.classes[votes.label].tolist() == ["b", "a", "b"]
    assert read(SOFT, classes=names).classes.tolist() == names


@pytest.mark.parametrize("n_classes", [2, 100])
def test_any_number_of_classes_and_a_single_row(n_classes: int) -> None:
    y = np.full((1, n_classes), 1 / n_classes)
    votes = read(y)
    assert (votes.n_answers, votes.n_classes) == (1, n_classes)
    np.testing.assert_allclose(votes.weights, 1 / n_classes)
    assert read(np.eye(n_classes)[[1]]).label.tolist() == [1]


COUNTS = np.random.default_rng(1).multinomial(5, [0.2, 0.3, 0.5], 40)
VOTES: dict[str, Any] = {
    "two ones in some rows": np.vstack([ONE_HOT, np.tile([1, 1, 0], (5, 1))]).astype(int),
    "annotators who agree, but never on 0": np.stack([TRUTH, TRUTH, np.maximum(TRUTH, 1)], axis=1),
    "annotators who agree, also on 0": np.stack([TRUTH, TRUTH, TRUTH], axis=1),
    "annotators who know nothing, all of them 0 at times": np.random.default_rng(0).integers(0, 3, (200, 3)),
    "three classes": np.array([[0, 1, 2], [1, 0, 0]]),
    "absent votes": np.array([[np.nan, 1.0], [0.0, 1.0]]),
    "a mark of absent votes": np.array([[-1, 1], [0, 1]]),
    "unanimous zeros": np.array([[0, 0], [0, 1], [1, 0]]),
    "annotators who always say the same": np.tile([0, 2], (30, 1)),
    "text": np.array([["a", "b"], ["b", "a"]]),
    "objects": ONE_HOT.astype(int).astype(object),
    "one column": np.ones((5, 1)),
    "none": np.full((2, 2), np.nan),
    "a long frame": pd.DataFrame({"item": [0], "annotator": [1], "label": [1]}),
    "labels": TRUTH,
}


@pytest.mark.parametrize("case", VOTES)
def test_votes_and_labels_are_left_alone(case: str) -> None:
    assert array_votes(VOTES[case]) is None


REFUSED: dict[str, tuple[Any, str]] = {
    "rows that sum to more": (np.array([[0.5, 0.5], [0.9, 0.4]]), r"shape \(2, 2\).*row 1 .*0.9, 0.4, which sum to 1.3"),
    "scores": (np.array([[2.5, -1.0, 0.3]]), "softmax"),
    "negative": (np.array([[1.5, -0.5]]), "neither votes nor probabilities"),
    "half a row": (np.array([[0.5, np.nan], [0.5, 0.5]]), "row 0"),
    "infinity": (np.array([[np.inf, 1.0]]), "row 0"),
    "counts": (np.array([[[2, 1], [1, 0]]]), r"shape \(1, 2, 2\).*row 0, annotator 0.*2, 1, which sum to 3"),
    "four axes": (np.zeros((2, 2, 2, 2)), "too many axes"),
    "few rows": (np.eye(3, dtype=int), r"shape \(3, 3\) has a single 1 in every row.*y.argmax.*from_matrix"),
    "one odd row": (
        np.vstack([ONE_HOT, [1, 1, 0]]).astype(int),
        "but for 1 row, such as 1, 1, 0: one-hot.*wrong.*NaN.*votes of",
    ),
    "counts of votes": (
        COUNTS,
        r"votes counted per class.*sums to 5 .*y / y.sum\(axis=-1, keepdims=True\).*or votes of 3 annotators",
    ),
    "counts of votes, one item without any": (np.vstack([COUNTS, [0, 0, 0]]), "votes counted per class"),
    "counts of votes, none of them 0": (COUNTS + 1, r"votes counted per class.*sums to 8 "),
    "counts of varying numbers of votes": (
        COUNTS * (1 + np.arange(40) % 2)[:, None],
        "votes counted per class, for some numbers",
    ),
    "percentages": (90.0 * ONE_HOT + 5 * (1 - ONE_HOT), r"percentages.*sums to 100 .*or votes of 3 annotators"),
    "two labels per row": ((1 - ONE_HOT).astype(int), r"several labels per row, for every row sums to 2 "),
    "rounded shares": (np.array([[0.33, 0.33, 0.33], [0.5, 0.5, 0.08]]), r"rounded shares, .*axis=-1.*softmax"),
    "a 2 in a one-hot row": (np.vstack([ONE_HOT, [0, 2, 0]]).astype(int), "counted per class"),
    "rows of zeros": (np.vstack([ONE_HOT, np.zeros(3)]).astype(int), "1 row of zeros.*NaN.*votes of 3 annotators"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_neither_or_may_be_both_is_refused(case: str) -> None:
    y, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        array_votes(y)


def test_few_rows_are_votes_where_several_annotators_are_expected() -> None:
    two = np.array([[0, 1], [1, 0]])
    assert array_votes(two, several=True) is None
    assert read(two, certain=True).label.tolist() == [1, 0]
    assert crowdwise.MajorityVote().fit(two).result_.votes.n_annotators == 2


def test_label_only_methods_take_probabilities_of_several_annotators() -> None:
    y = np.repeat(SOFT[:, None, :], 3, axis=1)
    votes = crowdwise.DawidSkene().fit(y).result_.votes
    assert votes.soft
    assert (votes.n_items, votes.n_annotators, votes.n_classes) == (3, 3, 3)
    with pytest.raises(InputError, match=r"sum to 1\.3"):
        crowdwise.MajorityVote().fit(np.array([[0.9, 0.4]]))


def test_shares_of_counts_are_soft_votes_and_counts_that_are_votes_can_be_said_so() -> None:
    votes = read(COUNTS / COUNTS.sum(axis=1, keepdims=True))
    assert votes.soft
    np.testing.assert_allclose(votes.weights[votes.item == 0], COUNTS[0][COUNTS[0] > 0] / 5)
    assert Annotations.from_matrix(COUNTS).n_annotators == 3
