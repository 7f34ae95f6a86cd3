"""Figures that the pages of papers call ours stand in the tables of the evidence that they link to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from measured import anchor

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "papers").glob("*.md"))


def rows_of(page: Path) -> list[list[str]]:
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines[1:]]


def section(link: str) -> str:
    """What stands below the heading that a link leads to, up to the next heading as high."""
    name, _, wanted = link.partition("#")
    lines = (DOCS / "papers" / name).resolve().read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("#") and anchor(line.lstrip("# ")) == wanted)
    level = len(lines[start]) - len(lines[start].lstrip("#"))
    ends = (n for n in range(start + 1, len(lines)) if re.match(rf"#{{1,{level}}} ", lines[n]))
    return "\n".join(lines[start : next(ends, len(lines))])


def numbers(text: str) -> set[str]:
    return {found.rstrip(".,") for found in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?", text)}


def of_methods(ours: str, text: str) -> list[tuple[str, str]]:
    """Figures behind the name of a method that no row and no column of this name has."""
    tables = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    methods = {path.stem for path in (DOCS / "methods").glob("*.md")}
    first = {cells[0]: re.split("[ ,]", cells[0])[0] for cells in tables}
    names = {name for cell, method in first.items() if method in methods for name in (cell, method)}
    wrong, number = [], r"[\d,.]*\d(?: %)?"
    for name in sorted(names, key=len, reverse=True):
        said = rf"(?<![\w-]){re.escape(name)} ({number}(?:(?:, | and | to ){number})*)"
        own = [cells for cells in tables if re.match(rf"{re.escape(name)}(?![\w-])", cells[0])]
        if not any(name in cells[1:] for cells in tables):
            known = {one for cells in own for cell in cells for one in numbers(cell)}
            wrong += [(name, one) for found in re.findall(said, ours) for one in sorted(numbers(found) - known)]
        ours = re.sub(said, "", ours)
    return wrong


def test_there_is_a_page_for_each_of_the_five_sources() -> None:
    assert [page.stem for page in PAGES] == ["bayesdgc", "dalc", "deepbp", "svgpcr", "tutorial"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_figures_called_ours_stand_where_they_are_linked_to(page: Path) -> None:
    unknown = []
    for row in rows_of(page):
        assert len(row) == 6, row
        ours = row[2]
        text = "\n".join(section(link) for link in re.findall(r"\]\(([^)]+)\)", ours))
        missing = numbers(re.sub(r"\]\([^)]+\)", "]", ours)) - numbers(text)
        if missing:
            unknown.append((row[0], sorted(missing)))
        unknown += [(row[0], one) for one in of_methods(re.sub(r"\]\([^)]+\)", "]", ours), text)]
    assert unknown == []


def test_a_figure_of_another_method_is_found() -> None:
    text = "| method | a | b |\n|---|---|---|\n| ccem | 84.6 | 84.8 |\n| maxmig | 85.0 | 80.1 |"
    assert of_methods("ccem 84.6, 84.8, maxmig 80.1", text) == []
    assert of_methods("ccem 85.0, maxmig 80.1", text) == [("ccem", "85.0")]


VERDICTS = ("reproduced", "partly", "not:", "not possible here", "not an experiment")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_verdict_begins_with_one_of_a_few_words(page: Path) -> None:
    verdicts = [row[5] for row in rows_of(page) if row[0] not in ("CL", "Trace", "BayesDGC", "deepMF", "model")]
    assert [one for one in verdicts if not one.startswith(VERDICTS) and one != "not"] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_row_without_figures_says_why(page: Path) -> None:
    for row in rows_of(page):
        assert row[2] or row[5].startswith(("not possible here", "not an experiment")), row
