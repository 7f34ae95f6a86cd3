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
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_row_without_figures_says_why(page: Path) -> None:
    for row in rows_of(page):
        assert row[2] or row[5].startswith(("not possible here", "not measured yet", "not an experiment", "not used")), row
