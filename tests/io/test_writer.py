from __future__ import annotations

import os
import re
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.io import read, write_table
from crowdwise.io.writer import check_place, check_suffix

FRAME = pl.DataFrame({"item": ["a", "b"], "annotator": ["x", "y,\nz"], "label": [1, 0]})


@pytest.mark.parametrize(
    "suffix",
    [
        ".csv",
        ".tsv",
        ".jsonl",
        ".ndjson",
        ".json",
        ".parquet",
        ".arrow",
        ".ipc",
        ".feather",
        ".csv.gz",
        ".tsv.gz",
        ".jsonl.gz",
        ".CSV",
    ],
)
def test_every_suffix_comes_back_equal(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"votes{suffix}"
    write_table(FRAME, path)
    assert_frame_equal(read(path).to_frame(), FRAME, check_dtypes=False)
    first = path.read_bytes()
    write_table(FRAME, path)
    assert path.read_bytes() == first
    assert os.listdir(tmp_path) == [path.name]


def test_formulas_are_neutralised_on_request_only(tmp_path: Path) -> None:
    cells = ["=1+1", "+cmd", "-3.5", "-x", "@sum", "\tx", "+1e5", "plain", None, "-", "+", "\uff1d1+1", "=a\nb"]
    frame = pl.DataFrame({"=name": cells})
    write_table(frame, tmp_path / "plain.csv")
    assert pl.read_csv(tmp_path / "plain.csv")["=name"].to_list() == cells
    with pytest.warns(DataWarning, match=r"safe\.csv: a ' was put before .* in '=name'; for programs, .* --raw"):
        write_table(frame, tmp_path / "safe.csv", spreadsheet_safe=True)
    safe = pl.read_csv(tmp_path / "safe.csv")["'=name"].to_list()
    assert safe == ["'=1+1", "'+cmd", "-3.5", "'-x", "'@sum", "'\tx", "+1e5", "plain", None, "-", "+", "'\uff1d1+1", "'=a\nb"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v.xlsx", r"cannot write \.xlsx; use one of \.csv"),
        ("v", "without a suffix"),
        ("v.parquet.gz", "leave .gz out"),
        ("none/v.csv", "does not exist; create it"),
        ("folder.csv", "folder"),
    ],
)
def test_nothing_is_written_where_it_cannot_be(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=message):
        write_table(FRAME, tmp_path / name)
    assert os.listdir(tmp_path) == ["folder.csv"]


def test_lists_do_not_fit_csv_and_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("old")
    with pytest.raises(InputError, match="'x' holds lists"):
        write_table(pl.DataFrame({"x": [[1]]}), path)
    assert path.read_text() == "old"


def test_a_name_of_a_column_stays_unlike_all_others(tmp_path: Path) -> None:
    frame = pl.DataFrame({"=a": ["x"], "'=a": ["y"]})
    with pytest.warns(DataWarning, match="formula"):
        write_table(frame, tmp_path / "safe.csv", spreadsheet_safe=True)
    assert pl.read_csv(tmp_path / "safe.csv").rows(named=True) == [{"''=a": "x", "'=a": "y"}]


@pytest.mark.parametrize(("name", "kind"), [("a.html", "page"), ("A.HTM", "page"), ("a.svg", "plot"), ("a.csv.gz", "table")])
def test_what_ends_as_its_kind_does_may_be_written(name: str, kind: str) -> None:
    check_suffix(Path(name), "--it", kind)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("page", "a page ends in .html"), ("plot", "a plot ends in .png, .pdf, .svg"), ("table", "cannot write .txt; use one of")],
)
def test_another_suffix_is_refused_with_the_option_that_names_it(kind: str, words: str) -> None:
    with pytest.raises(SettingError, match=re.escape(words)) as refused:
        check_suffix(Path("a.txt"), "--it", kind)
    assert str(refused.value).startswith("--it: a.txt: ")


def test_a_device_takes_what_is_written_and_stays_a_device() -> None:
    null = Path(os.devnull)
    if not null.is_char_device():
        pytest.skip("no character device here")
    seen: dict[str, str] = {}
    for option in ("-o", "--annotators"):
        check_suffix(null, option, "table")
        check_place(null, option, seen)
    write_table(FRAME, null)
    assert null.is_char_device()
