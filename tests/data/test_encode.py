from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdwise.data.encode import (
    Where,
    as_text,
    codes_of,
    encode,
    find_column,
    first_of_runs,
    missing_mask,
    series_of,
    tidy,
    to_polars,
    vocabulary_series,
)
from crowdwise.errors import InputError

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], [1, 2]),
        ([1.0, 2.0], [1, 2]),
        ([1, NAN], [1, None]),
        ([1.0, None], [1, None]),
        ([1, 2.5], ["1.0", "2.5"]),
        ([True, None], [True, None]),
        (["a", None, NAN], ["a", None, None]),
        ([1, "a", None], ["1", "a", None]),
        ([None, None], [None, None]),
        ([], []),
        ((x for x in [1, "a"]), ["1", "a"]),
        (np.array([1, None], object), [1, None]),
        (np.array([1.0, NAN], object), [1, None]),
        (np.array([1, "a"], object), ["1", "a"]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([b"a"]), ["a"]),
        (np.array([], object), []),
        (np.array([True, False]), [True, False]),
        (np.array([True, None], object), [True, None]),
        (np.array(["2024-01-01"], "M8[D]"), ["2024-01-01"]),
        (np.array([2**63], np.uint64), [str(2**63)]),
        ([2**70, 1], [str(2**70), "1"]),
        ([0.5, 1.0], ["0.5", "1.0"]),
        (pd.Series([1, None]), [1, None]),
        (pd.Series(["a", None]), ["a", None]),
        (pd.Series([1, 2, None], dtype="Int64"), [1, 2, None]),
        (pd.Series(["b", "a"], dtype="category"), ["b", "a"]),
        (pd.Series([1, "a", None]), ["1", "a", None]),
        (pd.Index(["a"]), ["a"]),
        (pa.array([1, None]), [1, None]),
        (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
        (pl.Series(["a"], dtype=pl.Categorical), ["a"]),
        ([(1, 2)], ["[1, 2]"]),
    ],
)
def test_values_come_out_tidy(values, expected):
    series = tidy(series_of(values))
    assert series.to_list() == expected
    assert series.dtype in (pl.Int64, pl.Boolean, pl.String)


@given(st.lists(st.one_of(st.none(), st.text(max_size=5))))
def test_codes_point_at_sorted_text(values):
    codes, vocabulary = encode(tidy(series_of(values)))
    assert [None if c < 0 else vocabulary[c] for c in codes] == values
    assert vocabulary.tolist() == sorted({v for v in values if v is not None}, key=lambda text: text.encode())


@given(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62))))
def test_codes_point_at_sorted_integers(values):
    codes, vocabulary = encode(tidy(pl.Series(values, dtype=pl.Int64)))
    assert [None if c < 0 else vocabulary[c] for c in codes] == values
    assert vocabulary.tolist() == sorted({v for v in values if v is not None})


def test_codes_of_absent_values_and_other_types():
    assert codes_of(pl.Series(["b", "z", None]), pl.Series(["b", "a"])).tolist() == [0, -1, -1]
    assert codes_of(pl.Series([7, 8]), pl.Series(["8", "7"])).tolist() == [1, 0]
    assert codes_of(pl.Series([True, False]), pl.Series(["False", "True"])).tolist() == [1, 0]
    assert codes_of(pl.Series(["b"]), pl.Series([], dtype=pl.String)).tolist() == [-1]


def test_booleans_are_spelt_as_in_python():
    assert as_text(pl.Series([True, False, None])).to_list() == ["True", "False", None]


def test_missing_mask():
    text = pl.Series(["a", "", " ", None, "?", "NA"])
    assert missing_mask(text, ()).to_list() == [False, True, True, True, False, False]
    assert missing_mask(text, ["?", "NA"]).to_list() == [False, True, True, True, True, True]
    assert missing_mask(pl.Series([1, -1, None]), -1).to_list() == [False, True, True]
    assert missing_mask(pl.Series([1, -1]), np.array([-1.0])).to_list() == [False, True]


def test_find_column_ignores_case_spaces_and_marks():
    frame = pl.DataFrame({"Worker ID": [1], "x": [1]})
    assert find_column(frame, "annotator", None, Where()) == "Worker ID"
    with pytest.raises(InputError, match="no item column; found 'Worker ID', 'x'"):
        find_column(frame, "item", None, Where())


def test_where_counts_from_its_first_row():
    assert Where("votes.csv", 2).row(0) == "votes.csv row 2"


def test_vocabulary_keeps_the_order_given():
    assert vocabulary_series(["b", "a"], "classes").to_list() == ["b", "a"]
    with pytest.raises(InputError, match="classes contain 'b' more than once"):
        vocabulary_series(["b", "b"], "classes")


def test_to_polars_keeps_columns():
    for frame in (pd.DataFrame({"x": [1, 2], "y": ["a", None]}), pa.table({"x": [1, 2], "y": ["a", None]})):
        assert to_polars(frame).rows() == [(1, "a"), (2, None)]
    # Names that are numbers are no positions of rows.
    assert to_polars(pd.DataFrame([[1, 2, 3], [4, 5, 6]])).to_dict(as_series=False) == {"0": [1, 4], "1": [2, 5], "2": [3, 6]}


def test_names_in_runs_are_looked_up_once_per_run() -> None:
    column = pl.Series(["b", "b", "b", None, None, "a", "a", "a", "z", "z"])
    heads, run = first_of_runs(column)
    assert heads.to_list() == ["b", None, "a", "z"]
    assert run is not None
    assert run.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert codes_of(column, pl.Series(["a", "b"])).tolist() == [1, 1, 1, -1, -1, 0, 0, 0, -1, -1]


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b", "a", "b"], [1, 1, 1, 1]])
def test_without_runs_every_row_is_looked_up(names: list[str]) -> None:
    column = pl.Series(names)
    heads, run = first_of_runs(column)
    assert heads is column
    assert run is None
