from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import edges, small_votes

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import Where
from crowdwise.errors import DataWarning, InputError

COLUMNS = {"item": ["q", "p", "q", "r"], "annotator": ["b", "a", "a", "b"], "label": ["yes", "no", "no", "yes"]}
EXPECTED = [("p", "a", "no"), ("q", "a", "no"), ("q", "b", "yes"), ("r", "b", "yes")]


def votes_of(**changes) -> Annotations:
    return Annotations.from_arrays(**(COLUMNS | changes))


def arrays(votes: Annotations) -> list[np.ndarray]:
    found = [votes.item_ptr, votes.annotator, votes.label, votes.items, votes.annotators, votes.classes]
    return [*found, *(array for array in (votes.weight, votes.gold) if array is not None)]


def assert_same(left: Annotations, right: Annotations) -> None:
    assert len(arrays(left)) == len(arrays(right))
    for a, b in zip(arrays(left), arrays(right), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


# -- frames and arrays -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict], ids=["pandas", "polars", "lazy", "arrow", "dict"]
)
def test_every_kind_of_frame(build):
    assert edges(Annotations.from_frame(build(COLUMNS))) == EXPECTED


@pytest.mark.parametrize("build", [list, tuple, np.array, pd.Series, pl.Series, pa.array, iter], ids=lambda b: b.__name__)
def test_every_kind_of_sequence(build):
    assert edges(Annotations.from_arrays(*(build(values) for values in COLUMNS.values()))) == EXPECTED


def test_layout_by_hand():
    votes = votes_of()
    assert votes.items.tolist() == ["p", "q", "r"]
    assert votes.item_ptr.tolist() == [0, 1, 3, 4]
    assert votes.annotator.tolist() == [0, 0, 1, 1]
    assert votes.label.tolist() == [0, 0, 1, 1]
    assert votes.item.tolist() == [0, 1, 1, 2]
    assert votes.row.tolist() == [0, 0, 3, 3]
    assert votes.votes_per_item.tolist() == [1, 2, 1]
    assert votes.votes_per_annotator.tolist() == [2, 2]
    assert (votes.shape, len(votes)) == ((3,), 3)
    assert (votes.annotator.dtype, votes.label.dtype, votes.item_ptr.dtype) == (np.int32, np.int16, np.int64)


@pytest.mark.parametrize(
    "names",
    [
        ("task", "worker", "answer"),
        ("Task ID", "Worker-Id", "Response"),
        ("HITId", "user_name", "rating"),
        ("ITEM", "Judge", "VALUE"),
    ],
)
def test_column_aliases(names):
    frame = pd.DataFrame(dict(zip(names, COLUMNS.values(), strict=True)) | {"time": [1, 2, 3, 4]})
    assert edges(Annotations.from_frame(frame)) == EXPECTED


def test_an_exact_name_beats_an_alias():
    frame = COLUMNS | {"answer": ["?"] * 4, "user": ["?"] * 4}
    assert edges(Annotations.from_frame(frame)) == EXPECTED


def test_named_columns():
    frame = {"a": COLUMNS["item"], "b": COLUMNS["annotator"], "c": COLUMNS["label"], "label": ["?"] * 4}
    assert edges(Annotations.from_frame(frame, item="a", annotator="b", label="c")) == EXPECTED


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (
            {"task": [1], "example": [1], "worker": [1], "label": [1]},
            {},
            "several columns could be the item: 'task', 'example'.*item=.*--item",
        ),
        ({"item": [1], "label": [1]}, {}, "no annotator column; found 'item', 'label'.*annotator=.*--annotator"),
        (COLUMNS, {"label": "labl"}, "no column 'labl'.*did you mean 'label'"),
        (COLUMNS, {"label": "item"}, "cannot be both item and label"),
        ({"item": [1, 2], "annotator": [1], "label": [1, 2]}, {}, "'annotator' has 1"),
        ({"item": [], "annotator": [], "label": []}, {}, "no rows"),
        ([1, 2, 3], {}, "expected a pandas, polars or Arrow frame, got list.*from_arrays"),
        (None, {}, "got NoneType"),
    ],
)
def test_frames_that_cannot_be_read(frame, options, message):
    with pytest.raises(InputError, match=message):
        Annotations.from_frame(frame, **options)


def test_repeated_column_names_are_refused():
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["item", "annotator", "label", "label"])
    with pytest.raises(InputError, match="share a name"):
        Annotations.from_frame(frame)


def test_errors_name_the_source_and_the_row():
    where = Where("votes.csv", first_row=2)
    with pytest.raises(
        InputError, match=r"votes\.csv row 3: label 'catt' is not among the classes cat, dog; did you mean 'cat'"
    ):
        Annotations.from_frame(
            {"item": [1, 2], "annotator": [1, 1], "label": ["dog", "catt"]}, classes=["cat", "dog"], where=where
        )
    with pytest.raises(InputError, match=r"votes\.csv row 4: the annotator id is missing"):
        Annotations.from_frame({"item": [1, 2, 3], "annotator": ["a", "b", " "], "label": [1, 1, 1]}, where=where)


def test_the_row_of_a_bad_label_counts_dropped_rows():
    with pytest.raises(InputError, match="row 2: label 'z'"):
        Annotations.from_arrays([1, 2, 3], [1, 1, 1], ["x", None, "z"], classes=["x"])


def test_lengths_are_checked():
    with pytest.raises(InputError, match="one length: 'item' has 4, 'annotator' has 3, 'label' has 4"):
        votes_of(annotator=["a"] * 3)
    with pytest.raises(InputError, match="'weight' has 2"):
        votes_of(weight=[1, 2])


def test_empty_input_needs_vocabularies():
    with pytest.raises(InputError, match="no rows"):
        Annotations.from_arrays([], [], [])
    with pytest.raises(InputError, match=r"every label is missing.*classes="):
        Annotations.from_arrays([1], [1], [None])
    votes = Annotations.from_arrays([], [], [], items=["p"], annotators=["a"], classes=["x", "y"])
    assert (votes.n_votes, votes.n_items, votes.n_annotators, votes.n_classes) == (0, 1, 1, 2)
    assert votes.to_frame().height == 0
    assert votes.to_matrix().tolist() == [[None]]
    assert votes.deduplicate().n_votes == 0


def test_single_vote():
    votes = Annotations.from_arrays([7], ["a"], [True])
    assert edges(votes) == [(7, "a", True)]
    assert repr(votes) == "Annotations(1 votes: 1 items, 1 annotators, 1 classes)"


def test_unicode_and_awkward_ids():
    items = ["naïve", "日本", "a,b", 'say "x"', "🙂", " padded "]
    votes = Annotations.from_arrays(items, ["é"] * 6, ["ß"] * 6)
    assert set(votes.items) == set(items)


def test_integers_survive_a_missing_cell():
    frame = pd.DataFrame({"item": [1.0, 2.0, 3.0], "annotator": [10, 11, 12], "label": [0, 1, np.nan]})
    votes = Annotations.from_frame(frame)
    assert edges(votes) == [(1, 10, 0), (2, 11, 1)]
    assert votes.n_missing == 1
    # The item of the dropped vote stays: somebody asked about it.
    assert votes.items.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "label", [[1, 2, None], [1, 2, float("nan")], np.array([1, 2, None], object), pd.array([1, 2, None], dtype="Int64")]
)
def test_integer_labels_with_a_gap_stay_integers(label):
    assert Annotations.from_arrays([1, 2, 3], [1, 1, 1], label).classes.tolist() == [1, 2]


def test_text_labels_with_a_gap_stay_text():
    assert Annotations.from_arrays([1, 2, 3], [1, 1, 1], ["1", "2", None]).classes.tolist() == ["1", "2"]


def test_mixed_types_become_text():
    votes = Annotations.from_arrays([1, "b", 3], ["x", 2, "y"], [1, "two", 3])
    assert votes.items.tolist() == ["1", "3", "b"]
    assert votes.classes.tolist() == ["1", "3", "two"]


@pytest.mark.filterwarnings("ignore:.*count(s|) as (a class|classes)")
@pytest.mark.parametrize(
    ("label", "missing", "classes"),
    [
        (["x", "dk", "y", "?"], ["dk", "?"], ["x", "y"]),
        (["x", "dk", "y", "dk"], "dk", ["x", "y"]),
        ([0, -1, 1, -1], -1, [0, 1]),
        ([0, -1, 1, -1], [-1.0], [0, 1]),
        ([0.0, -1.0, 1.0, np.nan], ["-1"], [0, 1]),
        ([0, "?", 1, "?"], ["?"], [0, 1]),
        (["0", "", "1", "  "], [], [0, 1]),
        (["None", None, "x", None], [None], ["None", "x"]),
        ([True, False, True, False], [False], [True]),
    ],
)
def test_missing_markers(label, missing, classes):
    votes = Annotations.from_arrays([1, 2, 3, 4], [1, 1, 1, 1], label, missing=missing)
    assert votes.classes.tolist() == classes
    assert votes.n_missing == 4 - votes.n_votes > 0
    assert "missing labels dropped" in repr(votes)


def test_given_vocabularies_fix_order_and_size():
    votes = votes_of(items=["r", "q", "p", "o"], annotators=["b", "a", "c"], classes=["yes", "no", "maybe"])
    assert votes.items.tolist() == ["r", "q", "p", "o"]
    assert votes.votes_per_item.tolist() == [1, 2, 1, 0]
    assert votes.votes_per_annotator.tolist() == [2, 2, 0]
    assert votes.classes.tolist() == ["yes", "no", "maybe"]
    assert edges(votes) == EXPECTED


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ({"items": ["p", "q"]}, "row 3: item 'r' is not among the given items"),
        ({"annotators": ["a"]}, "row 0: annotator 'b' is not among"),
        ({"classes": ["yes", "nope"]}, "row 1: label 'no' is not among the classes yes, nope; did you mean"),
        ({"classes": ["yes", "yes", "no"]}, "contain 'yes' more than once"),
        ({"classes": ["yes", None, "no"]}, "missing value at position 1"),
    ],
)
def test_vocabularies_are_checked(vocabulary, message):
    with pytest.raises(InputError, match=message):
        votes_of(**vocabulary)


@pytest.mark.parametrize(("label", "classes"), [(["1", "2"], [1, 2]), ([1, 2], ["1", "2"]), (["True", "False"], [True, False])])
def test_classes_match_labels_by_their_text(label, classes):
    assert Annotations.from_arrays([1, 2], [1, 1], label, classes=classes).classes.tolist() == classes


def test_weights_follow_their_votes():
    votes = votes_of(weight=[1.0, 2.0, 3.0, 4.0])
    assert votes.weight.tolist() == [2.0, 3.0, 1.0, 4.0]
    assert Annotations.from_frame(COLUMNS | {"w": [1, 2, 3, 4]}, weight="w").weight.tolist() == [2.0, 3.0, 1.0, 4.0]
    assert votes_of(weight=[1, 2, 3, 4], label=["yes", None, "no", "yes"]).weight.tolist() == [3.0, 1.0, 4.0]


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), None, "heavy"])
def test_bad_weights_name_their_row(bad):
    with pytest.raises(InputError, match=r"row 2: weight .* is not a finite number >= 0"):
        votes_of(weight=[1, 1, bad, 1])


def test_a_hundred_classes():
    label = np.random.default_rng(0).permutation(100)
    votes = Annotations.from_arrays(np.arange(100), np.zeros(100, int), label)
    assert votes.n_classes == 100
    np.testing.assert_array_equal(votes.classes[votes.label], label)


def test_limits_of_sixteen_bits():
    many = np.arange(32767)
    votes = Annotations.from_arrays(many, many * 0, many)
    np.testing.assert_array_equal(votes.label, many)
    with pytest.raises(InputError, match="32768 different labels"):
        Annotations.from_arrays(np.arange(32768), np.zeros(32768, int), np.arange(32768))


# -- matrices ----------------------------------------------------------------------------------

MATRIX_EDGES = [(0, 0, 1), (0, 1, 2), (1, 1, 1)]


@pytest.mark.parametrize(
    ("matrix", "missing"),
    [
        (np.array([[1, 2], [np.nan, 1]]), None),
        ([[1, 2], [None, 1]], None),
        ([[1, 2], [float("nan"), 1]], None),
        (np.array([[1, 2], [None, 1]], object), None),
        (np.array([[1, 2], [-1, 1]]), -1),
        (np.array([[1, 2], [-1, 1]], float), -1.0),
        (np.array([[1, 2], [-1, 1]], np.int8), "-1"),
        (np.array([[1, 2], [-1, 1]]), [-1, -2]),
        (np.ma.masked_equal(np.array([[1, 2], [9, 1]]), 9), None),
    ],
)
def test_matrix_with_absent_votes(matrix, missing):
    votes = Annotations.from_matrix(matrix, missing=missing)
    assert edges(votes) == MATRIX_EDGES
    # An empty cell was never asked for, so it is no missing answer.
    assert votes.n_missing == 0


def test_minus_one_in_a_matrix_is_no_vote_where_it_can_hardly_be_a_class():
    with pytest.warns(DataWarning, match="-1 is taken for no vote, in 1 of 4 cells"):
        votes = Annotations.from_matrix(np.array([[1, 2], [-1, 1]]))
    assert edges(votes) == MATRIX_EDGES
    # Classes that do not have it say the same, and those that have it the contrary.
    assert edges(Annotations.from_matrix(np.array([[1, 2], [-1, 1]]), classes=[1, 2])) == MATRIX_EDGES
    assert Annotations.from_matrix(np.array([[1, 2], [-1, 1]]), classes=[-1, 1, 2]).n_votes == 4
    with pytest.warns(DataWarning, match="in 3 of 5 cells"):
        assert Annotations.from_matrix([[-1, -1, -1, 0, 1]]).n_votes == 2
    # Two classes, an absent cell beside it, or other negative numbers: a class like others.
    for matrix in ([[1, -1], [-1, 1]], [[1, None], [-1, 2]], [[-2, -1], [0, 1]], [["-1", "a"], ["b", "a"]]):
        assert "-1" in map(str, Annotations.from_matrix(matrix).classes.tolist())


def test_matrix_of_text_with_nan():
    assert edges(Annotations.from_matrix([["x", float("nan")], [None, ""], ["y", "x"]])) == [
        (0, 0, "x"),
        (2, 0, "y"),
        (2, 1, "x"),
    ]


@pytest.mark.parametrize("build", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_matrix_from_a_frame(build):
    votes = Annotations.from_matrix(build({"left": [1, None], "right": [2, 1]}))
    assert edges(votes) == [(0, "left", 1), (0, "right", 2), (1, "right", 1)]


def test_matrix_takes_pandas_index_and_given_ids():
    frame = pd.DataFrame({"a": ["x", None]}, index=["p", "q"])
    assert edges(Annotations.from_matrix(frame)) == [("p", "a", "x")]
    votes = Annotations.from_matrix([["x"], ["y"]], items=["q", "p"], annotators=["z"], classes=["y", "x"])
    assert edges(votes) == [("p", "z", "y"), ("q", "z", "x")]


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        ([1, 2], {}, "two axes"),
        (np.zeros((0, 0)), {}, "no votes"),
        ([[None, None]], {}, r"no votes.*missing=.*-1"),
        ([[1, 2]], {"items": ["p", "q"]}, "2 item ids and 2 annotator ids"),
        ([[1, 2]], {"annotators": ["a", "a"]}, "'a' more than once"),
        ([[1, 2]], {"classes": [1, 3]}, "label '2' is not among"),
        ([[1, 0], [0, -1]], {}, r"-1 may be a class or no vote.*missing=-1.*classes=\[-1, 0, 1\]"),
    ],
)
def test_matrices_that_cannot_be_read(matrix, options, message):
    with pytest.raises(InputError, match=message):
        Annotations.from_matrix(matrix, **options)


@given(small_votes(repeats=False, allow_empty_items=False))
def test_matrix_round_trip(votes):
    back = Annotations.from_matrix(votes.to_matrix(), items=votes.items, annotators=votes.annotators, classes=votes.classes)
    assert_same(back, votes)


def test_matrix_refuses_repeats():
    votes = Annotations.from_arrays(["p", "p"], ["a", "a"], ["x", "y"])
    with pytest.raises(InputError, match="'a' labelled item 'p' more than once"):
        votes.to_matrix()


# -- invariants --------------------------------------------------------------------------------


@given(small_votes(), st.randoms(use_true_random=False), st.booleans())
def test_row_order_is_irrelevant_to_the_bit(votes, random, weighted):
    rows = [(*row, random.choice([0.5, 1.0, 2.0])) for row in edges(votes)]
    shuffled = random.sample(rows, len(rows))
    built = [
        Annotations.from_arrays(
            *(list(column) for column in list(zip(*table, strict=True))[: 4 if weighted else 3] or ([], [], [])),
            items=votes.items, annotators=votes.annotators, classes=votes.classes,
        )
        for table in (rows, shuffled)
    ]  # fmt: skip
    assert_same(*built)
    assert edges(built[0]) == edges(votes)


@given(small_votes())
def test_frame_round_trip(votes):
    for frame in (votes.to_frame(), votes.to_frame().to_pandas(), votes.to_frame().to_arrow()):
        if votes.n_votes:
            columns = [frame[name] for name in ("item", "annotator", "label")]
            back = Annotations.from_arrays(*columns, items=votes.items, annotators=votes.annotators, classes=votes.classes)
            assert_same(back, votes)


def test_arrays_are_read_only():
    votes = votes_of(weight=[1, 1, 1, 1]).with_gold({"p": "no"})
    derived = [votes.item, votes.row, votes.votes_per_item, votes.votes_per_annotator]
    for array in (
        *arrays(votes),
        *derived,
        *arrays(votes[[0]]),
        *arrays(pickle.loads(pickle.dumps(votes))),
        *arrays(copy.deepcopy(votes)),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = array[:1]
    with pytest.raises(AttributeError):
        votes.label = votes.label


def test_the_users_arrays_stay_theirs():
    label, weight = np.array([0, 1]), np.array([1.0, 2.0])
    Annotations.from_arrays(np.array([0, 1]), np.array([0, 0]), label, weight)
    label[0], weight[0] = 5, 5.0
    matrix = np.array([[0, 1]])
    Annotations.from_matrix(matrix)
    matrix[0, 0] = 3


# -- operations --------------------------------------------------------------------------------


@given(small_votes(), st.data())
def test_taking_items_keeps_their_votes(votes, data):
    positions = data.draw(st.lists(st.integers(0, votes.n_items - 1), max_size=8))
    taken = votes[np.array(positions, dtype=int)]
    expected = [row for n in positions for row in edges(votes[[n]])]
    assert edges(taken) == sorted(expected, key=repr)
    assert taken.items.tolist() == [votes.items[n] for n in positions]
    assert taken.annotators is votes.annotators


@pytest.mark.parametrize("index", [np.array([True, False, True]), [0, 2], slice(None, None, 2), np.array([-3, -1])])
def test_kinds_of_index(index):
    assert votes_of()[index].items.tolist() == ["p", "r"]
    assert votes_of()[1].items.tolist() == ["q"]


def test_scikit_learn_splits_by_item():
    from sklearn.model_selection import KFold, train_test_split

    votes = Annotations.from_matrix(np.arange(20).reshape(10, 2) % 3)
    train, test = train_test_split(votes, test_size=3, random_state=0)
    assert sorted([*train.items, *test.items]) == list(range(10))
    for kept, held in KFold(5).split(votes):
        assert votes[kept].n_votes + votes[held].n_votes == votes.n_votes


@given(small_votes(), st.data())
def test_select_and_drop_are_complements(votes, data):
    some_items = data.draw(st.sets(st.sampled_from(votes.items.tolist())))
    some_annotators = data.draw(st.sets(st.sampled_from(votes.annotators.tolist())))
    kept, rest = votes.select(items=some_items), votes.drop(items=some_items)
    assert sorted(edges(kept) + edges(rest), key=repr) == edges(votes)
    kept, rest = votes.select(annotators=some_annotators), votes.drop(annotators=some_annotators)
    assert set(kept.annotators) == some_annotators
    assert sorted(edges(kept) + edges(rest), key=repr) == edges(votes)
    both = votes.select(items=some_items, annotators=some_annotators)
    assert edges(both) == [row for row in edges(votes) if row[0] in some_items and row[1] in some_annotators]


def test_select_one_id_and_unknown_ids():
    votes = votes_of()
    assert edges(votes.select(items="q", annotators="b")) == [("q", "b", "yes")]
    numbered = Annotations.from_arrays([3, 4], [1, 1], [0, 1])
    assert numbered.select(items=numbered.items[0]).items.tolist() == [3]
    assert numbered.drop(items=4).items.tolist() == [3]
    with pytest.raises(InputError, match="no item 'item-x' in these votes"):
        votes.select(items=["p", "item-x"])
    with pytest.raises(InputError, match="no annotator 'c'"):
        votes.drop(annotators=["c"])


def test_operations_on_a_bootstrap_sample():
    votes = votes_of().with_gold({"p": "no", "q": "yes"})[[1, 1, 0]]
    assert votes.items.tolist() == ["q", "q", "p"]
    assert votes.select(items="q").n_votes == 4
    assert votes.gold.tolist() == [1, 1, 0]
    assert votes.with_gold({"q": "no"}).gold.tolist() == [0, 0, -1]


@given(small_votes(), small_votes())
def test_concat_adds_votes(left, right):
    joined = left.concat(right)
    assert edges(joined) == sorted(edges(left) + edges(right), key=repr)
    assert joined.classes.tolist()[: left.n_classes] == left.classes.tolist()


def test_concat_reconciles_types_weights_and_gold():
    left = Annotations.from_arrays([1], ["a"], ["x"], weight=[2.0]).with_gold({1: "x"})
    right = Annotations.from_arrays(["two"], ["b"], ["y"]).with_gold({"two": "y"})
    joined = left.concat(right)
    assert joined.items.tolist() == ["1", "two"]
    assert joined.weight.tolist() == [2.0, 1.0]
    assert joined.classes[joined.gold].tolist() == ["x", "y"]
    assert left.concat().n_votes == 1


@given(small_votes(), st.integers(0, 5), st.sampled_from([0.1, 0.5, 0.9]))
def test_split_parts_make_the_whole(votes, seed, fraction):
    for by, size in (("annotation", votes.n_votes), ("item", votes.n_items)):
        rest, held = votes.split(fraction, by=by, random_state=seed)
        assert sorted(edges(rest) + edges(held), key=repr) == edges(votes)
        assert (held.n_votes if by == "annotation" else held.n_items) == round(fraction * size)
        again = votes.split(fraction, by=by, random_state=seed)
        assert edges(again[1]) == edges(held)
    assert rest.annotators is votes.annotators


def test_split_checks_its_settings():
    with pytest.raises(InputError, match="fraction"):
        votes_of().split(1.0)
    with pytest.raises(InputError, match="'annotation' or 'item'"):
        votes_of().split(by="annotator")


@given(small_votes(), st.randoms(use_true_random=False))
def test_with_classes_permutes_codes_only(votes, random):
    order = random.sample(votes.classes.tolist(), votes.n_classes)
    other = votes.with_classes([*order, "new"])
    assert other.classes.tolist() == [*order, "new"]
    assert edges(other) == edges(votes)
    assert_same(other.with_classes(votes.classes), votes)


def test_with_classes_keeps_gold_and_refuses_loss():
    votes = votes_of(classes=["no", "yes", "maybe"]).with_gold({"p": "maybe", "q": "yes"})
    swapped = votes.with_classes(["maybe", "yes", "no"])
    assert swapped.gold.tolist() == [0, 1, -1]
    with pytest.raises(InputError, match=r"labels \['yes'\]"):
        votes_of().with_classes(["no"])
    with pytest.raises(InputError, match=r"labels \['maybe'\].*gold"):
        votes.with_classes(["no", "yes"])


def test_repeats_are_kept_until_deduplicated():
    votes = Annotations.from_arrays(["p"] * 5, ["a", "a", "a", "b", "b"], ["x", "x", "y", "x", "x"], weight=[3, 1, 1, 1, 1])
    assert votes.n_votes == 5
    assert edges(votes.deduplicate()) == [("p", "a", "x"), ("p", "a", "y"), ("p", "b", "x")]
    assert votes.deduplicate().weight.tolist() == [1, 1, 1]


@given(small_votes())
def test_deduplicate_is_the_set_of_votes(votes):
    once = votes.deduplicate()
    assert edges(once) == sorted(set(edges(votes)), key=repr)
    assert_same(once.deduplicate(), once)
    assert once.items is votes.items


@pytest.mark.slow
def test_importing_annotations_is_light():
    heavy = "{'sklearn', 'numba', 'torch', 'scipy', 'pandas'}"
    modules = "crowdwise, crowdwise.data.annotations, crowdwise.data.agreement, crowdwise.trust.metrics"
    modules += ", crowdwise.data.simulate, crowdwise.data.datasets"
    code = f"import sys, {modules}; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("word", ["NaN", "n/a", "NULL", "None", "skip", "unsure", "Not_sure"])
def test_a_class_that_looks_missing_is_pointed_out(word: str) -> None:
    with pytest.warns(DataWarning, match=rf"'{word}' \(1\) counts as a class; .*--missing {word}"):
        votes = Annotations.from_arrays([1, 1], ["x", "y"], ["cat", word])
    assert votes.n_classes == 2
    assert Annotations.from_arrays([1, 1], ["x", "y"], ["cat", word], missing=[word]).n_missing == 1


def test_minus_one_below_codes_is_pointed_out_and_as_one_of_three_opinions_it_is_not() -> None:
    with pytest.warns(DataWarning, match=r"'-1' \(1\) counts as a class; .*--missing -1"):
        assert Annotations.from_arrays([1, 1, 1], ["x", "y", "z"], [0, -1, 2]).n_classes == 3
    assert Annotations.from_arrays([1, 1, 1], ["x", "y", "z"], [0, -1, 2], missing=[-1]).n_missing == 1
    for labels in ([-1, 0, 1], [-1, 1, 1], [-2, -1, 3]):
        assert -1 in Annotations.from_arrays([1, 1, 1], ["x", "y", "z"], labels).classes


def test_all_missing_columns_of_a_frame_are_named_at_once() -> None:
    frame = {"foo": ["a"], "annotator": ["x"], "baz": ["cat"]}
    with pytest.raises(
        InputError, match=r"no item and no label column; found 'foo', 'annotator', 'baz'\. Name them: --item and --label"
    ):
        Annotations.from_frame(frame)
    with pytest.raises(InputError, match=r"no column 'fo' \(did you mean 'foo'\?\), no label column"):
        Annotations.from_frame(frame, item="fo")


def test_positions_are_ascending_and_the_first_unknown_id_is_named() -> None:
    votes = Annotations.from_arrays(["p", "q", "r", "q"], ["x", "x", "x", "y"], [0, 1, 0, 1])
    assert votes.positions(["r", "p", "r"]).tolist() == [0, 2]
    assert votes.positions(pl.Series(["p", "q", "r"])).tolist() == [0, 1, 2]
    # A sample with repeats has an id at several places.
    assert votes[np.array([1, 0, 1])].positions(["q"]).tolist() == [0, 2]
    with pytest.raises(InputError, match="no item 's'"):
        votes.positions(["q", "s", "t"])


def test_an_unknown_id_comes_with_an_example_of_a_known_one() -> None:
    votes = Annotations.from_arrays(["photo-1", "photo-2"], ["x", "y"], [0, 1])
    with pytest.raises(InputError, match="no item 'zzz' in these votes; items are called, for example, 'photo-1'"):
        votes.positions(["zzz"])
    with pytest.raises(InputError, match="no item 'photo-3' in these votes; did you mean 'photo-"):
        votes.positions(["photo-3"])
