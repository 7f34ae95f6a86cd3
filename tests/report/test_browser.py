"""The report in a real browser: no complaint, tables that search and sort, and a page of many items that opens at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.report.browser import CHROMIUM, Browser
from tests.report.test_page import fitted

from crowdwise.data import datasets
from crowdwise.data.annotations import Annotations
from crowdwise.report import write_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt install chromium): the report was not opened"),
    pytest.mark.skipif(os.name == "nt", reason="the browser is spoken to over inherited descriptors"),
]

EVIL = "<img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as one:
        yield one


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    campaign = datasets.demo()
    write_report(fitted(campaign.votes), path, truth=campaign.gold, title="Demo")
    return path


def first_cells(browser: Browser, table: str) -> list[str]:
    found = browser.run(f"[...document.querySelectorAll('#{table} tbody > tr > th')].map(cell => cell.textContent)")
    return [str(cell) for cell in found]


def test_opens_without_a_complaint_in_light_and_dark(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.look(scheme="light")
    light = browser.run(ground)
    browser.look(scheme="dark")
    assert browser.run(ground) != light
    browser.look(scheme="light")
    # Nothing is wider than a phone: wide tables scroll by themselves.
    browser.size(390, 800)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.size(1200, 900)
    assert browser.problems == []


def test_search_finds_and_sort_orders(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    assert len(first_cells(browser, "items-table")) == 15
    browser.click("#items-table thead th:nth-child(1) button")
    assert first_cells(browser, "items-table")[:2] == ["photo-001", "photo-002"]
    browser.click("#items-table thead th:nth-child(1) button")
    assert first_cells(browser, "items-table")[:2] == ["photo-120", "photo-119"]
    assert browser.run("document.querySelector('#items-table thead th').getAttribute('aria-sort')") == "descending"
    browser.click("#items-table .pages button:last-child")
    assert first_cells(browser, "items-table")[0] == "photo-105"
    browser.click("#items-table input")
    browser.type("photo-07")
    assert first_cells(browser, "items-table") == [f"photo-{n:03d}" for n in range(79, 69, -1)]
    assert browser.run("document.querySelector('#items-table [role=status]').textContent") == "10 of 120 rows"
    browser.type("no such thing")
    assert "Nothing found" in browser.run("document.querySelector('#items-table tbody').textContent")
    # Accuracy: numbers go largest first.
    browser.click("#annotators-table thead th:nth-child(3) button")
    best = datasets.demo().votes
    order = np.argsort(-fitted(best).accuracy, kind="stable")
    assert first_cells(browser, "annotators-table") == best.annotators[order].tolist()
    assert browser.problems == []


def test_an_explanation_opens_by_keyboard_and_adds_up(browser: Browser, demo: Path) -> None:
    browser.open(demo)
    browser.run("document.querySelector('#items-table .why').focus()")
    browser.key("Enter", 13)
    assert browser.run("document.querySelector('#items-table .why').getAttribute('aria-expanded')") == "true"
    told = browser.run("[...document.querySelectorAll('.explanation td.number')].map(cell => cell.textContent)")
    *parts, total = [float(str(cell).replace("\u2212", "-")) for cell in told]
    # Each is rounded to a hundredth.
    assert sum(parts) == pytest.approx(total, abs=0.006 * len(told))
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    browser.key("Tab", 9)
    assert browser.run("document.activeElement.getAttribute('href') ?? document.activeElement.className") is not None


def test_foreign_markup_is_text(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    votes = Annotations.from_arrays(
        [f"{EVIL}{n}" for n in range(40) for _ in range(4)],
        [f"</script><script>document.title='hacked'</script>{a}" for a in range(4)] * 40,
        [f"{EVIL}{k}" for k in rng.integers(0, 2, 160)],
    )
    write_report(fitted(votes), tmp_path / "evil.html", title=EVIL)
    browser.open(tmp_path / "evil.html")
    browser.click("#items-table .why")
    assert browser.run("document.title") == EVIL
    assert browser.run("document.images.length") == 0
    assert browser.run("document.scripts.length") == 2
    assert first_cells(browser, "items-table")[0].startswith("<img src=x")
    assert browser.problems == []


def test_thirty_thousand_items_open_at_once(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_items, n_votes = 30_000, 90_000
    votes = Annotations.from_arrays(
        np.repeat(np.arange(n_items), 3), rng.integers(0, 300, n_votes), rng.integers(0, 4, n_votes)
    )
    write_report(fitted(votes, "majority"), tmp_path / "large.html")
    assert (tmp_path / "large.html").stat().st_size < 3_000_000
    # Under a second on an idle machine; tests share theirs.
    assert browser.open(tmp_path / "large.html") < 20
    browser.click("#items-table thead th:nth-child(3) button")
    assert len(first_cells(browser, "items-table")) == 15
    assert browser.problems == []
