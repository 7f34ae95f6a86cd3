"""Columns of wide tables that were computed from the others: they vote, and a warning says so; people are not suspected."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crowdwise.errors import DataWarning
from crowdwise.io import read

Row = list[str]


def drawn(n_people: int, n_rows: int, right: float = 0.8) -> list[Row]:
    rng = np.random.default_rng(n_people * 1000 + n_rows)
    truth = rng.integers(2, size=n_rows)
    said = np.where(rng.random((n_people, n_rows)) < right, truth, 1 - truth)
    return [["no" if vote else "yes" for vote in row] for row in said.T]


def majority(row: Row) -> str:
    return Counter(row).most_common(1)[0][0]


def agree(row: Row) -> str:
    return "yes" if len(set(row)) == 1 else "no"


def written(path: Path, rows: list[Row], **computed: Callable[[Row], str]) -> Path:
    names = ["ann", "bob", "cem", "dee", "eve"][: len(rows[0])]
    lines = [",".join(["id", *names, *computed])]
    lines += [",".join([f"i{n}", *row, *(how(row) for how in computed.values())]) for n, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def warned(path: Path, **options: str) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read(path, **options)
    return "\n".join(str(entry.message) for entry in caught if entry.category is DataWarning)


@pytest.mark.parametrize("n_people", [3, 4, 5])
def test_a_column_of_majorities_is_named(tmp_path: Path, n_people: int) -> None:
    path = written(tmp_path / "v.csv", drawn(n_people, 60), column_7=majority)
    message = warned(path)
    assert "'column_7' says in every row what most of the other columns say" in message
    assert f"crowdwise aggregate {path} --not column_7" in message
    # It is not dropped without being asked, and the advice works.
    with pytest.warns(DataWarning, match="column_7"):
        assert read(path).n_annotators == n_people + 1
    assert warned(path, exclude="column_7") == ""
    assert read(path, exclude="column_7").n_annotators == n_people
    # Whoever names the columns knows what is in them.
    assert warned(path, annotators=",".join(["ann", "bob", "cem", "column_7"])) == ""


@pytest.mark.parametrize("n_people", [3, 5])
def test_a_column_that_says_whether_others_agree_is_named(tmp_path: Path, n_people: int) -> None:
    message = warned(written(tmp_path / "v.csv", drawn(n_people, 40), same=agree))
    assert "'same' says in every row whether the other columns agree" in message


def test_several_computed_columns_are_named_together(tmp_path: Path) -> None:
    path = written(tmp_path / "v.csv", drawn(3, 60), one=majority, same=agree, two=majority)
    message = warned(path)
    assert "'same' says in every row whether" in message
    assert "'one', 'two' say in every row what most" in message
    assert "--not one,same,two" in message


def test_people_are_not_suspected(tmp_path: Path) -> None:
    for n_people in (3, 4, 5):
        for n_rows in (12, 60, 300):
            path = written(tmp_path / "v.csv", drawn(n_people, n_rows))
            assert warned(path) == "", (n_people, n_rows)
    # With two others, the majority is what both say; agreeing with it is no wonder.
    assert warned(written(tmp_path / "two.csv", drawn(2, 60), third=majority)) == ""
    assert warned(written(tmp_path / "two.csv", drawn(2, 60), third=agree)) == ""
    # Where all agree, nothing was computed.
    assert warned(written(tmp_path / "same.csv", [[vote] * 3 for vote in ("yes", "no") * 20], fourth=majority)) == ""


def test_few_rows_need_a_name_that_says_it(tmp_path: Path) -> None:
    rows = [["yes", "yes", "yes"]] * 6 + [["no", "no", "no"]] * 5 + [["no", "no", "yes"]]
    assert "'Endergebnis'" in warned(written(tmp_path / "named.csv", rows, Endergebnis=majority))
    assert warned(written(tmp_path / "unnamed.csv", rows, dee=majority)) == ""
    assert warned(written(tmp_path / "nine.csv", rows[3:], Endergebnis=majority)) == ""
