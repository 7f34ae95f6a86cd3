from __future__ import annotations

import csv
import io

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdwise.data.encode import integers
from crowdwise.errors import InputError
from crowdwise.io.source import parse_delimited, read_header, sniff_separator


@pytest.mark.parametrize(
    ("data", "suffix", "separator"),
    [
        (b"a,b,c\n1;2,3,4\n", ".csv", ","),
        (b"a;b;c\n1;2;3\n", ".csv", ";"),
        (b"a|b|c\n", ".csv", "|"),
        (b"a\tb\n", ".csv", "\t"),
        (b"a\tb,c\n", ".tsv", "\t"),
        (b'"a;x",b\n', ".csv", ","),
        (b"alone\n1\n", ".csv", ","),
    ],
)
def test_the_separator_is_found_in_the_header(data: bytes, suffix: str, separator: str) -> None:
    assert sniff_separator(data, suffix) == separator


def test_repeated_names_are_refused_and_nameless_columns_are_not() -> None:
    with pytest.raises(InputError, match=r"v\.csv row 1: column 'a' occurs more than once; rename"):
        read_header(b"a,b,a\n", ",", "v.csv")
    assert read_header(b"a,,\n", ",", "v.csv") == ["a", "column 2", "column 3"]
    assert read_header(b'" ",b," "\n', ",", "v.csv") == ["column 1", "b", "column 3"]
    with pytest.raises(InputError, match="'column 2' occurs more than once"):
        read_header(b"a,,column 2\n", ",", "v.csv")
    # Polars takes no name twice.
    table = parse_delimited(b'" ","5"," "\n1,2,3\n4,"5"\n', ",", "v.csv")
    assert table.columns == ["column 1", "5", "column 3"]


def test_a_late_odd_row_does_not_change_the_types() -> None:
    data = b"a,b\n" + b"1,2\n" * 20_000 + b"007,x\n"
    frame = parse_delimited(data, ",", "v.csv")
    assert frame["a"].dtype == pl.String
    assert frame["a"][-1] == "007"
    assert integers(frame["a"]).dtype == pl.String


@pytest.mark.parametrize(
    ("values", "result"),
    [
        (["1", None, "", "-20"], [1, None, None, -20]),
        (["0", "9" * 18], [0, 10**18 - 1]),
        (["007", "8"], ["007", "8"]),
        (["-0"], ["-0"]),
        (["9" * 19], ["9" * 19]),
        (["1.0"], ["1.0"]),
        ([None, ""], [None, ""]),
        (["1\n"], ["1\n"]),
    ],
)
def test_only_plain_integers_become_integers(values: list[str | None], result: list[object]) -> None:
    assert integers(pl.Series(values, dtype=pl.String)).to_list() == result


def test_too_many_fields_name_the_row() -> None:
    data = b"item,annotator,label\n" + b"a,x,1\n" * 15 + b"a,x,Hello, world\n"
    with pytest.raises(InputError, match=r"v\.csv row 17: 4 fields where the header has 3; put quotes"):
        parse_delimited(data, ",", "v.csv")


@pytest.mark.parametrize("row", [b'a,"x,1\na,y,2\n', b'a,"x"y,1\n'])
def test_a_broken_quote_names_the_row(row: bytes) -> None:
    with pytest.raises(InputError, match=r"v\.csv row 4: cannot be read .*quote"):
        parse_delimited(b"item,annotator,label\n" + b"a,x,1\n" * 2 + row, ",", "v.csv")


def test_a_quote_inside_a_bare_field_is_text() -> None:
    for data in (b'a,b\n5" pipe,x\n6,y\n', b'a,b\n5" pipe,6" pipe\n6,y\n'):
        assert parse_delimited(data, ",", "v.csv")["a"].to_list() == ['5" pipe', "6"]


def test_short_and_blank_rows_are_nulls() -> None:
    assert parse_delimited(b"a,b\n1\n\n2,3\n", ",", "v.csv").rows() == [("1", None), (None, None), ("2", "3")]


cells = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=8)


@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=6))
def test_whatever_the_csv_module_writes_is_read_back(rows: list[tuple[str, str, str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("item", "annotator", "label"), *rows])
    frame = parse_delimited(text.getvalue().encode(), ",", "v.csv")
    assert [tuple(cell or "" for cell in row) for row in frame.rows()] == rows
