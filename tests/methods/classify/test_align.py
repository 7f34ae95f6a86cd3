"""Features and votes are brought together by order or by id, and what does not line up is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import edges, small_votes

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError
from crowdwise.methods.classify.align import aligned_votes, is_plain, n_rows_of, warn_of_unseen
from crowdwise.methods.classify.raykar import Raykar

X = np.zeros((3, 2))
VOTES = Annotations.from_arrays(["b", "b", "a"], ["x", "y", "x"], ["p", "q", "p"], [1.0, 2.0, 3.0])


def by_row(votes: Annotations) -> list[list[tuple[Any, Any]]]:
    """(annotator, label) of every row, in order."""
    return [
        [(votes.annotators[votes.annotator[e]], votes.classes[votes.label[e]]) for e in range(start, stop)]
        for start, stop in zip(votes.item_ptr[:-1], votes.item_ptr[1:], strict=True)
    ]


@pytest.mark.parametrize("ids", [["a", "b", "c"], ["c", "b", "a"], np.array(["b", "c", "a"]), pd.Series(["a", "c", "b"])])
def test_votes_go_to_the_row_with_their_id_and_rows_without_votes_stay_empty(ids: Any) -> None:
    expected = {"a": [("x", "p")], "b": [("x", "p"), ("y", "q")], "c": []}
    votes = aligned_votes(X, VOTES, ids, None)
    assert votes.items.tolist() == list(ids)
    assert by_row(votes) == [expected[name] for name in ids]
    assert votes.annotators.tolist() == ["x", "y"]


def test_weights_and_gold_travel_with_their_votes() -> None:
    votes = aligned_votes(X, VOTES.with_gold({"a": "q"}), ["c", "a", "b"], None)
    assert votes.weight is not None
    assert votes.gold is not None
    assert votes.weight.tolist() == [3, 1, 2]
    assert votes.gold.tolist() == [-1, 1, -1]
    given_late = aligned_votes(X, VOTES, ["c", "a", "b"], {"c": "p"})
    assert given_late.gold is not None
    assert given_late.gold.tolist() == [0, -1, -1]


@given(votes=small_votes(min_classes=2, allow_empty_items=False), data=st.data())
def test_any_order_of_rows_keeps_every_vote(votes: Annotations, data: st.DataObject) -> None:
    order = data.draw(st.permutations([*votes.items.tolist(), "extra 1", "extra 2"]))
    aligned = aligned_votes(np.zeros((len(order), 1)), votes, list(order), None)
    assert aligned.items.tolist() == list(order)
    assert edges(aligned) == edges(votes)


def test_ids_are_numbers_or_text_alike() -> None:
    votes = Annotations.from_arrays([1, 1, 2], ["x", "y", "x"], ["p", "q", "p"])
    for ids in ([2, 1, 3], ["2", "1", "3"]):
        assert [len(row) for row in by_row(aligned_votes(X, votes, ids, None))] == [1, 2, 0]


def test_without_ids_rows_are_in_the_order_of_the_items() -> None:
    votes = aligned_votes(np.zeros((2, 2)), VOTES, None, None)
    assert votes is VOTES
    assert votes.items.tolist() == ["a", "b"]


def test_ids_that_sort_as_text_but_count_as_numbers_are_pointed_out() -> None:
    """Rows in the order img1, img2, ..., img10 would silently get the votes of img1, img10, img2, ..."""
    names = [f"img{n}" for n in range(1, 13)]
    votes = Annotations.from_arrays(names, ["x"] * 12, ["u", "v"] * 6)
    rows = np.zeros((12, 1))
    with pytest.warns(DataWarning, match="in their order, which is img1, img10, img11, ...; if your rows are in another"):
        aligned_votes(rows, votes, None, None)
    # Silence where there is nothing to confuse: ids given, an order of the user's own, numbers, padded numbers.
    aligned_votes(rows, votes, names, None)
    aligned_votes(rows, Annotations.from_arrays(names, ["x"] * 12, ["u", "v"] * 6, items=names), None, None)
    aligned_votes(rows, Annotations.from_arrays(range(12), ["x"] * 12, ["u", "v"] * 6), None, None)
    aligned_votes(rows, Annotations.from_arrays([f"img{n:02d}" for n in range(12)], ["x"] * 12, ["u", "v"] * 6), None, None)


# -- plain labels and matrices --------------------------------------------------------------------

LABELS: dict[str, Any] = {
    "list": ["u", "v", "u"],
    "tuple": ("u", "v", "u"),
    "array": np.array(["u", "v", "u"]),
    "objects": np.array(["u", "v", "u"], dtype=object),
    "pandas": pd.Series(["u", "v", "u"], index=[7, 8, 9]),
    "polars": pl.Series(["u", "v", "u"]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_one_label_per_row_is_one_annotator(kind: str) -> None:
    assert is_plain(LABELS[kind])
    votes = aligned_votes(X, LABELS[kind], None, None)
    assert by_row(votes) == [[("y", "u")], [("y", "v")], [("y", "u")]]


def test_labels_keep_their_type() -> None:
    assert aligned_votes(X, [2, 1, 2], None, None).classes.tolist() == [1, 2]
    assert aligned_votes(X, [True, False, True], None, None).classes.tolist() == [False, True]


@pytest.mark.parametrize("frame", [np.array([["u"], ["v"], ["u"]]), pd.DataFrame({"y": ["u", "v", "u"]})])
def test_a_column_of_labels_is_taken_with_scikit_learns_warning(frame: Any) -> None:
    from sklearn.exceptions import DataConversionWarning

    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert by_row(aligned_votes(X, frame, None, None)) == [[("y", "u")], [("y", "v")], [("y", "u")]]


@pytest.mark.parametrize("y", [LABELS["list"], [["u", "v"], ["v", None], ["u", "u"]]])
def test_labels_and_matrices_are_in_the_order_of_the_rows_whatever_these_are_called(y: Any) -> None:
    plain, named = aligned_votes(X, y, None, None), aligned_votes(X, y, ["img9", "img10", "img1"], {"img10": "u"})
    assert by_row(plain) == by_row(named)
    assert named.items.tolist() == ["img9", "img10", "img1"]
    assert named.gold is not None
    assert named.gold.tolist() == [-1, 0, -1]


@pytest.mark.parametrize("library", [pd, pl])
def test_long_frames_are_votes(library: Any) -> None:
    frame = library.DataFrame({"item": [0, 1, 2, 2], "annotator": [0, 0, 0, 1], "label": [1, 0, 1, 1]})
    assert not is_plain(frame)
    assert by_row(aligned_votes(X, frame, None, None)) == [[(0, 1)], [(0, 0)], [(0, 1), (1, 1)]]


@pytest.mark.parametrize(
    "features",
    [X, X.tolist(), sp.csr_matrix(X), torch.zeros(3, 2), pd.DataFrame(X), torch.utils.data.TensorDataset(torch.zeros(3, 2))],
)
def test_rows_are_counted_in_whatever_holds_them(features: Any) -> None:
    assert n_rows_of(features) == 3


# -- what does not line up ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "items", "message"),
    [
        (VOTES, None, r"X has 3 rows but there are 2 items with votes; say which row is which item with items="),
        ([0, 1], None, "X has 3 rows but there are 2 labels"),
        ([[0, 1], [1, 1]], None, "X has 3 rows but there are 2 items with votes"),
        (VOTES, ["a", "b"], "X has 3 rows but items has 2 ids"),
        (VOTES, ["a", "c", "d"], "1 of 2 items have votes but no row of features, such as b; ids of rows are such as a, c, d"),
        (VOTES, ["a", "b", "b"], "the id 'b' stands for two rows of features"),
        ([0, 1, 0], ["a", "b", "b"], "the id 'b' stands for two rows of features"),
        (["u", "u", "u"], None, "at least two classes, and the votes have the class 'u' only"),
        (VOTES.take_votes(np.zeros(3, bool)), ["a", "b", "c"], "there is no vote to learn from"),
        (
            pd.DataFrame({"ann": [0, 1, 0], "bob": [0, 1, 1]}),
            None,
            r"an annotator: .*\.from_matrix\(frame\)",
        ),
        (pl.DataFrame({"item": [0, 1, 2], "bob": list("uvu")}), None, r"Annotations\.from_matrix\(frame\)"),
        (["u", None, "v"], None, r"no label in row 1 \(counted from 0\)"),
    ],
)
def test_what_does_not_line_up_is_refused_with_its_numbers(y: Any, items: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        aligned_votes(X, y, items, None)


def test_gold_without_votes_is_something_to_learn_from() -> None:
    silent = VOTES.take_votes(np.zeros(3, bool))
    assert aligned_votes(X, silent, ["a", "b", "c"], {"a": "p", "c": "q"}).n_votes == 0


def test_one_class_is_enough_where_the_others_are_named() -> None:
    votes = Annotations.from_arrays([0, 1, 2], ["x"] * 3, ["u"] * 3, classes=["u", "v"])
    assert aligned_votes(X, votes, None, None).n_classes == 2


def test_numbers_that_are_no_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        aligned_votes(X, [0.5, 1.2, 3.1], None, None)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_labels_that_are_missing_are_refused(odd: float) -> None:
    with pytest.raises(ValueError, match="Input y contains"):
        aligned_votes(X, [0.0, 1.0, odd], None, None)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None; y is one label per row"),
        (np.array(["p", "q", None], object), "no label in row 2"),
        ({"a", "b", "c"}, "order of the rows, and is of type set"),
        ((name for name in "pqp"), "of type generator"),
        (3, "of type int"),
        ({"a": "p", "b": "q"}, "a dict is a table with columns item, annotator and label, and this one has 'a': 'p'"),
        ({"a": {"x": "p"}}, "this one has 'a': {'x': 'p'}"),
    ],
)
def test_what_is_neither_labels_nor_votes_is_named(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        aligned_votes(X, y, None, None)


def test_minus_one_among_labels_is_a_class_as_in_scikit_learn_and_said_to_be_one() -> None:
    with pytest.warns(DataWarning, match="-1 is read as a class, of 1 of 3 rows"):
        assert aligned_votes(X, [-1, 0, 1], None, None).n_classes == 3
    assert aligned_votes(X, [-1, 1, 1], None, None).n_classes == 2


def test_labels_that_were_never_seen_are_counted() -> None:
    with pytest.warns(DataWarning, match=r"2 of 3 labels, such as 7, are no class of the fit \(0, 1\) and count as wrong"):
        warn_of_unseen([0, 7, 8], np.array([0, 1]))
    with pytest.warns(DataWarning, match="3 of 3 labels, such as 'c'"):
        warn_of_unseen(["c", "c", "c"], np.array(["a", "b"], object))
    # Nothing to say; and scikit-learn refuses text beside numbers.
    warn_of_unseen([0.0, 1.0, 1.0], np.array([0, 1]))
    warn_of_unseen(["0", "1"], np.array([0, 1]))


def test_scoring_says_what_cannot_be_right_and_swapped_arguments_are_named() -> None:
    rows = np.eye(2)[[0, 1, 0, 1, 1]]
    model = Raykar().fit(rows, [0, 1, 0, 1, 1])
    with pytest.warns(DataWarning, match="5 of 5 labels, such as 2"):
        assert model.score(rows, [2, 2, 2, 2, 2]) == 0
    with pytest.raises(InputError, match="no label in row 0"):
        model.score(rows, [None] * 5)
    with pytest.raises(InputError, match=r"X holds votes: features come first"):
        Raykar().fit(VOTES, X)
    with pytest.raises(InputError, match=r"features come before it: fit\(X, y\)"):
        Raykar().fit([[0, 1], [1, 0], [0, 1]], np.array([[0.3, 2.1], [0.2, -1.0], [1.5, 0.0]]))


def test_the_index_of_a_frame_is_compared_with_the_items() -> None:
    def aligned(index: Any, votes: Any, items: Any = None) -> Annotations:
        frame = pd.DataFrame(np.zeros((len(index), 2)), index=index)
        return aligned_votes(frame.to_numpy(), votes, items, None, named=frame)

    by_number = Annotations.from_arrays([3, 3, 5], ["x", "y", "x"], ["p", "q", "p"])
    assert aligned(["a", "b"], VOTES).items.tolist() == ["a", "b"]
    with pytest.raises(InputError, match=r"of the votes in another order; items=X\.index matches rows by it"):
        aligned(["b", "a"], VOTES)
    with pytest.raises(InputError, match="1 of 2 ids are of no item with votes, such as 'c'"):
        aligned(["a", "c"], VOTES)
    # Numbers may be left over from a selection.
    with pytest.warns(DataWarning, match="1 of 2 ids are of no item with votes, such as 4"):
        aligned([3, 4], by_number)
    for index, votes in (
        ([8, 9], by_number),
        ([7, 6], VOTES),
        (["u", "v"], by_number),
        (["u", "v"], ["p", "q"]),
        ([1, 0], [0, 1]),
    ):
        assert aligned(index, votes).n_items == 2


def test_the_votes_of_the_user_are_not_touched() -> None:
    before = VOTES.to_frame()
    aligned_votes(X, VOTES, ["c", "b", "a"], {"c": "p"})
    assert VOTES.to_frame().equals(before)
    assert VOTES.gold is None
    assert VOTES.n_items == 2
