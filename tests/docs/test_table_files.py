"""Tables of the evidence as files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import table_files

EVIDENCE = Path(__file__).resolve().parents[2] / "docs" / "evidence"
PAGE = """
| not | measured |
|---|---|
| 1 | 2 |

<!-- begin: Some study, a -->
Measured.

| method | *accuracy*, "%" |
|---|---:|
| **`a`** [b](c.md#d) | 1,234 ±0.5 |
| x\\|y | -1.0 |
| =1+1 | - |

| second |
|---|
| 5 * 4 * 3 |
<!-- end: Some study, a -->
"""


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_cells_lose_markdown_and_nothing_else() -> None:
    (first, table), (second, other) = table_files.tables(PAGE)
    assert (first, second) == ("some-study-a.csv", "some-study-a-2.csv")
    assert read(table_files.as_csv(table)) == [
        ["method", 'accuracy, "%"'], ["a b", "1,234 ±0.5"], ["x|y", "-1.0"], ["'=1+1", "-"],
    ]  # fmt: skip
    assert read(table_files.as_csv(other)) == [["second"], ["5 * 4 * 3"]]


def test_a_link_stands_below_every_measured_table() -> None:
    lines = table_files.with_links(PAGE).splitlines()
    assert [line for line in lines if "CSV" in line] == ["[CSV](tables/some-study-a.csv)", "[CSV](tables/some-study-a-2.csv)"]
    # A table ends at an empty line: the link would be a row of it.
    for number, line in enumerate(lines):
        if "CSV" in line:
            assert lines[number - 1] == ""
    assert [line for line in lines if line and "CSV" not in line] == [line for line in PAGE.splitlines() if line]


def test_no_two_tables_have_one_name_and_all_rows_are_whole() -> None:
    names = []
    for page in sorted(EVIDENCE.glob("*.md")):
        for name, table in table_files.tables(page.read_text(encoding="utf-8")):
            names.append(name)
            rows = read(table_files.as_csv(table))
            assert {len(row) for row in rows} == {len(rows[0])}, (page.name, name)
    assert len(names) == len(set(names)) > 50
