"""Our figures beside published ones stand in the tables above them, with what is gained on majority vote."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "evidence" / "classifiers.md").read_text(encoding="utf-8")
HEADING = "### Relatives beside published figures"
# What a row calls a set -> the set as the table of relatives has it.
SETS = {
    "LabelMe with one vote per item": "labelme, one vote per item",
    "sentence polarity": "sentence_polarity",
    "LabelMe": "labelme",
}
OURS = re.compile(r"(\d+\.\d)(?: ([+-]\d+\.\d))? \((labelme|relatives)\)")
THEIRS = re.compile(r"(\d+\.\d+) ±\d+\.\d+(?: ([+-]\d+\.\d))?")


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("| ")]


def measured(block: str) -> dict[tuple[str, ...], float]:
    """(set, method) or (method,) -> test accuracy, of a block that a benchmark wrote."""
    between = PAGE.partition(f"<!-- begin: {block} -->")[2].partition(f"<!-- end: {block} -->")[0]
    width = 2 if block == "learn relatives" else 1
    return {tuple(row[:width]): float(row[width].split()[0]) for row in cells(between)[1:]}


def rows() -> list[tuple[str, str, str, str]]:
    """Set and method of a row, its published cell and ours."""
    section, about, found = PAGE.partition(HEADING)[2].partition("\n## ")[0], "", []
    for row in cells(section)[1:]:
        known = [name for name in SETS if name in row[0]]
        about = SETS[known[0]] if known else about
        method = row[0].split(",")[0].split()[0]
        if method == "the":
            method = "conal"
        found.append((about, {"majority": "two-stage majority"}.get(method, method), row[1], row[2]))
    return found


def test_figures_called_ours_are_those_of_the_tables() -> None:
    of_relatives, of_labelme = measured("learn relatives"), measured("learn labelme")
    assert len(rows()) == 14
    for about, method, _, cell in rows():
        match = OURS.fullmatch(cell)
        assert match, cell
        figure, gain, table = match.groups()
        key = (method,) if table == "labelme" else (about, method)
        majority = (*key[:-1], "two-stage majority")
        of = of_labelme if table == "labelme" else of_relatives
        assert float(figure) == of[key], (about, method)
        assert (gain is None) == (key == majority)
        if gain is not None:
            assert abs(float(gain) - (of[key] - of[majority])) < 0.051, (about, method)


def test_published_gains_are_differences_to_the_published_majority_vote() -> None:
    majority = float("nan")
    for _, method, cell, _ in rows():
        match = THEIRS.fullmatch(cell)
        assert match, cell
        figure, gain = match.groups()
        if method == "two-stage majority":
            majority = float(figure)
        if gain is not None:
            # Of figures before they were rounded.
            assert abs(float(gain) - (float(figure) - majority)) < 0.11, (method, cell)
