from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import crowdwise
from crowdwise.data.ratings import Ratings
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import read_known


def test_rows_are_sorted_by_item_and_names_are_kept() -> None:
    values = Ratings.from_arrays(["b", "a", "ä"], ["x", "y", "x"], [2, 1.5, 3])
    assert values.items.tolist() == ["a", "b", "ä"]
    assert values.to_frame().rows() == [("a", "y", 1.5), ("b", "x", 2.0), ("ä", "x", 3.0)]
    assert values.item_ptr.tolist() == [0, 1, 2, 3]
    assert repr(values) == "Ratings(3 ratings: 3 items, 2 annotators)"


def test_the_order_of_rows_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    item, who, value = rng.integers(5, size=40), rng.integers(4, size=40), rng.normal(size=40)
    mixed = rng.permutation(40)
    one, other = Ratings.from_arrays(item, who, value), Ratings.from_arrays(item[mixed], who[mixed], value[mixed])
    assert np.array_equal(one.value, other.value)
    assert np.array_equal(one.annotator, other.annotator)


@pytest.mark.parametrize("missing", [None, float("nan"), "", "  "])
def test_a_missing_value_is_dropped_and_counted(missing: object) -> None:
    values = Ratings.from_arrays(["a", "a"], ["x", "y"], ["1", missing] if isinstance(missing, str) else [1.0, missing])
    assert (values.n_votes, values.n_missing, values.n_annotators) == (1, 1, 2)


@pytest.mark.parametrize("bad", ["high", "inf", "nan", "1;5"])
def test_what_is_no_finite_number_is_named_with_its_row(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(f'item,annotator,rating\na,x,1\na,y,"{bad}"\n')
    with pytest.raises(InputError, match=rf"v\.csv row 3: the value '{bad}' is no finite number; correct it, or leave"):
        crowdwise.read(path, Ratings)


def test_words_for_no_answer_are_none(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("item,annotator,rating\na,x,1\na,y,n/a\nb,x,2\nb,y,don't know\nb,z,-\n")
    values = crowdwise.read(path, Ratings)
    assert (values.n_votes, values.n_missing, values.n_annotators) == (2, 3, 3)


def test_infinity_in_a_frame_is_refused() -> None:
    with pytest.raises(InputError, match="row 1: the value 'inf'"):
        Ratings.from_arrays(["a", "a"], ["x", "y"], [1.0, float("inf")])


def test_boxes_are_read_from_several_columns(tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text("photo,worker,x1,x2,w\np,ann,1,3.5,2\np,bob,2,,1\n")
    values = crowdwise.read(path, Ratings, item="photo", value=["x1", "x2"], weight="w")
    assert values.names == ("x1", "x2")
    assert values.value.tolist() == [[1.0, 3.5]]
    assert values.weights.tolist() == [2.0]
    assert values.n_missing == 1
    frame = Ratings.from_frame(pl.read_csv(path), item="photo", value=("x1", "x2"))
    assert frame.value.tolist() == [[1.0, 3.5]]


def test_columns_that_cannot_be_values_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("item,annotator,x\na,b,1\n")
    with pytest.raises(InputError, match="no column 'y'"):
        crowdwise.read(path, Ratings, value="y")
    with pytest.raises(InputError, match="once"):
        crowdwise.read(path, Ratings, value=["x", "x"])
    with pytest.raises(InputError, match="no value column"):
        crowdwise.read(path, Ratings)
    with pytest.raises(InputError, match="shape"):
        Ratings.from_arrays(["a"], ["b"], np.zeros((1, 1, 1)))
    with pytest.raises(InputError, match="item id is missing"):
        Ratings.from_arrays(["a", None], ["b", "b"], [1, 2])


def test_known_values_come_from_mappings_frames_and_files(tmp_path: Path) -> None:
    values = Ratings.from_arrays([1, 2, 3], ["x"] * 3, [0.5, 1.5, 2.5])
    by_mapping = values.known({3: 7})
    assert np.array_equal(by_mapping, [[np.nan], [np.nan], [7.0]], equal_nan=True)
    path = tmp_path / "gold.csv"
    path.write_text("item,truth\n3,7\n1,\n")
    assert np.array_equal(values.known(read_known(path, values)), by_mapping, equal_nan=True)
    assert np.array_equal(values.known(pl.DataFrame({"item": [3], "value": [7]})), by_mapping, equal_nan=True)


def test_known_values_that_do_not_fit_are_refused() -> None:
    values = Ratings.from_arrays(["a", "b"], ["x", "x"], [[1, 2], [3, 4]], names=["x1", "x2"])
    assert values.known({"b": (5, 6)}).tolist()[1] == [5, 6]
    with pytest.raises(InputError, match="has 1 numbers, and values here have 2"):
        values.known({"b": 5})
    with pytest.warns(DataWarning, match="1 gold values are of items without"):
        values.known({"c": (5, 6)})
    with pytest.raises(InputError, match="two different values"):
        values.known(pl.DataFrame({"item": ["a", "a"], "x1": [1, 2], "x2": [1, 1]}))


def test_positions_select_answers_and_keep_vocabularies() -> None:
    values = Ratings.from_arrays(["a", "b", "b"], ["x", "x", "y"], [1, 2, 3])
    kept = values[values.value[:, 0] > 1]
    assert kept.value.ravel().tolist() == [2, 3]
    assert kept.item_ptr.tolist() == [0, 0, 2]
    assert kept.n_items == 2
