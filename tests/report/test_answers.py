"""The page of answers that are not one class per item."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.report.browser import CHROMIUM, Browser

from crowdwise.report.answers import Intervals, _ticks, answers_page, intervals_picture, write_answers

EVIL = "<script>alert(1)</script>"


def page(**more: Any) -> str:
    items = pl.DataFrame({"item": ["a", EVIL, "c"], "score": [1.5, None, float("nan")], "n_votes": [3, 1200, 0]})
    given: dict[str, Any] = {"title": f"About {EVIL}", "method": "bradley-terry", "facts": {"Items": 3, EVIL: EVIL}}
    return answers_page(**(given | {"tables": {"Items": items}, "notes": [EVIL], "made": {"Command": EVIL}} | more))


def embedded(markup: str) -> Any:
    found = re.search(r'<script type="application/json" id="table-data">(.*?)</script>', markup, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_what_strangers_wrote_is_text_everywhere() -> None:
    drawn = Intervals(EVIL, EVIL, [EVIL], *(np.array([x]) for x in (0.0, 1.0, 2.0)))
    markup = page(intervals=drawn)
    assert EVIL not in markup
    assert "&lt;script&gt;" in markup
    assert embedded(markup)["tables"][0]["rows"][1][0] == EVIL


def test_rows_are_numbers_or_text_and_what_is_missing_is_null() -> None:
    table = embedded(page())["tables"][0]
    assert table["columns"] == [
        {"name": "item", "number": False},
        {"name": "score", "number": True},
        {"name": "n votes", "number": True},
    ]
    assert [row[1] for row in table["rows"]] == [1.5, None, None]


def test_of_long_tables_the_first_rows_are_embedded() -> None:
    table = embedded(page(tables={"Items": pl.DataFrame({"item": range(5000)})}))["tables"][0]
    assert len(table["rows"]) == 2000
    assert "of 5" in table["caption"]


def test_the_method_is_named_with_its_reference() -> None:
    assert "Bradley and Terry" in page()


def test_points_lie_on_their_intervals_at_the_scale_of_the_axis() -> None:
    drawn = intervals_picture(Intervals("t", "u", ["x", "y"], *(np.array(v) for v in ([0.0, 4.0], [1.0, 6.0], [2.0, 8.0]))))
    # From 0 to 8 on 250 to 860.
    assert [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', drawn)] == pytest.approx([326.2, 707.5], abs=0.06)
    assert "M250.0 64.0H402.5" in drawn


def test_estimates_without_an_interval_and_alone_are_drawn() -> None:
    unknown = np.array([np.nan])
    assert "<circle" in intervals_picture(Intervals("t", "u", ["x"], unknown, np.array([3.0]), unknown))
    assert "<circle" not in intervals_picture(Intervals("t", "u", ["x"], unknown, unknown, unknown))


@pytest.mark.parametrize(("least", "most"), [(0.0, 1.0), (-80.0, 60.0), (1e-7, 2e-7), (-3.0, 1e6), (5.0, 5.1)])
def test_ticks_are_round_few_and_inside(least: float, most: float) -> None:
    ticks = _ticks(least, most)
    assert 2 <= len(ticks) <= 9
    assert all(least - 1e-9 * abs(least) <= tick <= most * (1 + 1e-9) + 1e-12 for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[0])


def test_nothing_at_all_makes_a_page() -> None:
    empty = pl.DataFrame(schema={"item": pl.String, "score": pl.Float64})
    nobody = Intervals("t", "u", [], *(np.empty(0) for _ in range(3)))
    assert "Nothing to show" in page(tables={"Items": empty}, intervals=nobody, facts={}, notes=[], made={})


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt install chromium): the page was not opened")
@pytest.mark.skipif(os.name == "nt", reason="the browser is spoken to over inherited descriptors")
def test_in_a_browser_tables_search_and_sort_without_a_complaint(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    frame = pl.DataFrame({"item": [f"name{n:02d}" for n in range(40)], "score": [float((7 * n) % 40) for n in range(40)]})
    write_answers(path, title="t", method="crowd-bt", facts={"Items": 40}, tables={"Items": frame})
    cells = "[...document.querySelectorAll('#table-0 tbody > tr > th')].map(cell => cell.textContent)"
    with Browser() as browser:
        browser.open(path)
        assert browser.run(cells)[0] == "name00"
        browser.click("#table-0 thead th:nth-child(2) button")
        # Largest first: 7 n = 39 modulo 40 at n = 17.
        assert browser.run(cells)[0] == "name17"
        browser.click("#table-0-search")
        browser.type("name3")
        assert browser.run(cells) == [f"name{n}" for n in sorted(range(30, 40), key=lambda n: -((7 * n) % 40))]
        assert browser.problems == []
