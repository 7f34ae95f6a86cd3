from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from tests.report.test_page import HOSTILE, Reader, fitted, three_items
from tests.strategies import small_votes

from crowdwise.data import datasets
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.errors import DataWarning, InputError
from crowdwise.estimator.judgement import crowd_of
from crowdwise.estimator.registry import label_methods, make
from crowdwise.report import write_report
from crowdwise.report.annotators import Detections, matrices
from crowdwise.report.counts import counts_of
from crowdwise.report.full import report_page
from crowdwise.report.review import why_of, why_picture
from crowdwise.report.sections import facts_of, in_short

METHODS = label_methods()

SECTIONS = ["short", "data", "choice", "labels", "review", "annotators", "alike", "trust", "budget", "computed"]


class Page(Reader):
    """Also keeps ids and the targets of links; scripts are not markup."""

    def __init__(self, markup: str) -> None:
        self.ids: list[str] = []
        self.links: list[str] = []
        super().__init__(re.sub(r"(<script[^>]*>).*?(</script>)", r"\1\2", markup, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        self.ids += [str(value) for name, value in attrs if name == "id"]
        self.links += [str(value) for name, value in attrs if name in ("href", "src")]


def data_of(markup: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="table-data">(.*?)</script>', markup, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


@pytest.fixture(scope="module", autouse=True)
def few_repeats() -> Iterator[None]:
    """What a page shows does not depend on how often its plans are simulated; tests/campaign/test_stopping.py has the plans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crowdwise.report.budget._REPEATS", 1)
        yield


@pytest.fixture(scope="module")
def demo_page() -> str:
    demo = datasets.demo()
    return report_page(fitted(demo.votes), truth=demo.gold)


@pytest.fixture(scope="module")
def page_without_truth() -> str:
    return report_page(fitted(datasets.demo().votes), price=0.5)


@pytest.mark.slow
def test_every_section_is_there_and_linked(demo_page: str) -> None:
    page = Page(demo_page)
    assert [name for name in page.ids if name in SECTIONS] == SECTIONS
    assert page.links == ["#short", *(f"#{name}" for name in SECTIONS)]
    assert len(page.ids) == len(set(page.ids))


def test_nothing_is_loaded_and_only_this_script_may_run(demo_page: str) -> None:
    assert set(re.findall(r"https?://[^\"<\s]*", demo_page)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in demo_page
    # Attributes with style would need a weaker policy.
    assert "style" not in Page(demo_page).attributes
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', demo_page)
    assert found is not None
    policy = html.unescape(found[1])
    script = re.findall(r"<script>(.*?)</script>", demo_page, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", demo_page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in (*style, *script)]
    expected = f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'"
    assert policy.startswith(expected)
    assert "unsafe" not in policy


@pytest.mark.slow
def test_hostile_names_stay_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [*HOSTILE, "</script><script>alert(1)</script>", "<!--<script>", "=cmd()", "line\u2028separator"]
    n_items = len(names) * 3
    votes = Annotations.from_arrays(
        item=np.repeat([f"{i}{names[i % len(names)]}" for i in range(n_items)], 4).tolist(),
        annotator=[names[a] for a in rng.integers(0, len(names), 4 * n_items)],
        label=[names[k] for k in rng.integers(0, 5, 4 * n_items)],
    )
    markup = report_page(fitted(votes), title=names[0], made={"Command": names[0]})
    page = Page(markup)
    assert not page.tags & {"img", "b", "iframe", "object"}
    assert not [name for name in page.attributes if name.startswith("on")]
    # Two script elements, ours: an id that closed the first would make more.
    assert (markup.count("<script"), markup.count("</script")) == (2, 2)
    assert "<!--" not in markup
    # Old JavaScript ends a string at this one, which JSON allows.
    assert "\u2028" not in markup[markup.index('id="table-data"') :]
    # What the script shows is the text itself, cut and without control characters.
    shown = {row[0] for row in data_of(markup)["items"]["rows"]}
    assert "9</script><script>alert(1)</script>" in shown
    assert "11=cmd()" in shown


def test_contributions_are_those_of_explain() -> None:
    for method in ("dawid-skene", "majority", "glad"):
        result = fitted(datasets.demo().votes, method)
        items = np.arange(0, 120, 7)
        for one in why_of(result, items):
            found = result.explain(result.votes.items[one.item])
            assert result.votes.classes[one.against] == found.against
            parts = found.rows["contribution"].to_list()
            assert [one.prior, *one.contribution] == pytest.approx(parts[: 1 + len(one.votes)], abs=1e-12)


def test_contributions_add_up_to_the_confidence_shown() -> None:
    result = fitted(datasets.demo().votes, "dawid-skene")
    for one in why_of(result, np.arange(0, 120, 7)):
        assert one.total == pytest.approx(result.explain(result.votes.items[one.item]).total)


def test_rows_of_the_script_by_hand() -> None:
    # Majority: "one" is cat by 2 of 3, against dog; each vote is a third. Confidence counts a vote more: (2 + 1/3) / 4.
    rows = {row[0]: row for row in data_of(report_page(fitted(three_items(), "majority")))["items"]["rows"]}
    item, label, confidence, second, share, n_votes, reason, against, prior, *_, total, further = rows["one"]
    assert (item, label, second, n_votes, reason, against, prior) == ("one", 0, 1, 3, "votes are split", 1, 0)
    assert (confidence, share, total) == pytest.approx((7 / 12, 5 / 12, 2 / 12), abs=1e-3)
    # Three votes say 1 / 3; the vote that is counted more takes half of it back.
    assert further == [["caution", pytest.approx(-1 / 6, abs=1e-3)]]
    assert rows["one"][11] == pytest.approx([1 / 3, 1 / 3, -1 / 3], abs=1e-3)


def test_what_is_no_vote_has_no_bar() -> None:
    """Next to a bar of its own, as long as all votes together, those of single votes say nothing."""
    result = fitted(three_items(), "majority")
    (one,) = [why for why in why_of(result, np.arange(3)) if result.votes.items[why.item] == "one"]
    picture = why_picture(result, one, 7 / 12)
    # The class shares, which add nothing, two votes for and one against, of a third each: the longest is half of the width.
    bars = [float(width) for width in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="13.0"', picture)]
    assert sorted(bars) == [0.5, 81.0, 81.0, 81.0]
    assert "caution" in picture
    assert "-0.17" in picture
    items = data_of(report_page(result))["items"]
    assert items["meanings"].keys() == {"models", "caution"}
    assert {source for row in items["rows"] for source, _ in row[13]} <= set(items["meanings"])


def test_counts_enumerate_what_uncertain_labels_allow() -> None:
    # Probabilities of being cat under majority: 2/3 (one), 1/3 (three) and 0 (two).
    result = fitted(three_items(), "majority", confidence="model")
    chance = [2 / 3, 1 / 3, 0.0]
    total = np.zeros(4)
    for outcome in np.ndindex(2, 2, 2):
        total[sum(outcome)] += np.prod([p if hit else 1 - p for p, hit in zip(chance, outcome, strict=True)])
    counts = counts_of(result)
    assert counts.labels.tolist() == [1, 2]
    assert counts.expected.tolist() == pytest.approx([1.0, 2.0])
    # P(0) = 2/9 and P(2) = 2/9 are both more than 2.5 %.
    assert total.tolist() == pytest.approx([2 / 9, 5 / 9, 2 / 9, 0])
    assert (counts.low[0], counts.high[0]) == (0, 2)


def test_many_items_have_the_normal_interval() -> None:
    votes = Annotations.from_arrays(np.repeat(np.arange(1000), 2), ["x", "y"] * 1000, np.tile([0, 1], 1000))
    counts = counts_of(fitted(votes, "majority"))
    # Every item is a coin: mean 500, sd sqrt(250) = 15.8; 1.96 sd = 31.0.
    assert (counts.low[0], counts.high[0]) == (469, 531)


@pytest.mark.slow
def test_no_gold_no_claims(demo_page: str, page_without_truth: str) -> None:
    assert "No true labels were given" in page_without_truth
    assert "votes were held out and predicted from the others" in page_without_truth
    assert "No true labels were given" not in demo_page
    assert "On 120 items of known class" in demo_page


@pytest.mark.slow
def test_gold_given_to_the_fit_is_not_counted_as_known() -> None:
    demo = datasets.demo()
    given = dict(list(demo.gold.items())[:30])
    result = make("dawid-skene").fit(demo.votes, gold=given).result_
    facts = facts_of(result, demo.gold, None, 0.05)
    assert facts.n_given == 30
    assert "On 90 items of known class" in in_short(facts)


@pytest.mark.slow
def test_a_choice_is_shown_with_its_reason() -> None:
    chosen = fitted(three_items())

    class Chooser:
        result_ = chosen
        choice_ = pl.DataFrame({"method": ["<b>majority", "dawid-skene"], "score": [-1.25, None]})
        reason_ = "it predicts best"

    markup = report_page(Chooser())
    rows = {row[0]: row[1:] for row in Page(markup).rows}
    assert rows["<b>majority"] == ["-1.25"]
    assert rows["dawid-skene"] == ["\u2013"]
    assert "it predicts best" in markup
    assert "The method was given" not in markup


@pytest.mark.slow
def test_copies_are_linked_and_grouped() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)
    answers = [np.where(rng.random(400) < 0.6, truth, rng.integers(0, 3, 400)) for _ in range(18)]
    answers += [answers[0], answers[0]]
    votes = Annotations.from_arrays(
        np.tile(np.arange(400), 20), np.repeat([f"person-{a:02d}" for a in range(20)], 400), np.concatenate(answers)
    )
    markup = report_page(fitted(votes))
    rows = {row[0]: row[1:] for row in Page(markup).rows}
    assert rows["Group 1"] == ["3", "person-00, person-18, person-19"]
    assert rows["person-00 and person-18"][:2] == ["400", "100 %"]
    flags = {row[0]: row[6] for row in data_of(markup)["annotators"]["rows"]}
    assert "copier" in flags["person-18"]
    assert "copier" not in flags["person-01"]


@pytest.mark.slow
def test_price_makes_costs(demo_page: str, page_without_truth: str) -> None:
    assert "Cost" not in demo_page
    steps = [
        row for row in Page(page_without_truth).rows if len(row) == 5 and row[0].endswith("%") and row[1] != "out of reach"
    ]
    assert steps
    for row in steps:
        votes, cost = (cell.replace("\u202f", "") for cell in (row[1], row[4]))
        # Shown votes are cut to whole ones.
        assert float(cost) == pytest.approx(int(votes) / 2, abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].suits(3)])
def test_every_method_has_a_report(method: str) -> None:
    demo = datasets.demo()
    # What a page shows of a method does not depend on the number of items.
    votes = demo.votes[:20]
    Page(report_page(fitted(votes, method), truth={item: demo.gold[item] for item in votes.items.tolist()}))


def test_one_class_leaves_numbers_undefined_and_not_the_page_unwritten() -> None:
    votes = Annotations.from_arrays(["a"] * 3, ["x"] * 3, ["cat"] * 3, annotators=["x", "y"])
    rows = data_of(report_page(fitted(votes)))["annotators"]["rows"]
    assert [row[:2] for row in rows] == [["x", 3]]


@pytest.mark.slow
@given(small_votes())
@settings(max_examples=10, deadline=None)
def test_small_shapes(votes: Annotations) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        Page(report_page(fitted(votes), truth=[votes.classes[0]] * votes.n_items))


@pytest.mark.slow
def test_size_stays_small_and_the_rest_is_named(tmp_path: Path) -> None:
    # Somewhat more than the page holds of both: the rest adds nothing to it, however much there is.
    rng = np.random.default_rng(0)
    n_items, n_annotators = 3000, 2200
    votes = Annotations.from_arrays(
        item=np.repeat(np.arange(n_items), 3),
        annotator=rng.permutation(np.arange(3 * n_items) % n_annotators),
        label=rng.integers(0, 2, 3 * n_items),
    )
    write_report(fitted(votes, "majority"), tmp_path / "report.html")
    markup = (tmp_path / "report.html").read_text()
    assert len(markup.encode()) < 1_500_000
    data = data_of(markup)
    assert (len(data["items"]["rows"]), data["items"]["total"]) == (2000, 3000)
    assert (len(data["annotators"]["rows"]), data["annotators"]["total"]) == (2000, 2200)
    assert "The table holds the first 2\u202f000 of 3\u202f000 items" in markup
    assert "200 more are in the file" in markup


@pytest.mark.slow
def test_same_fit_same_bytes_and_a_failure_leaves_the_old_page(tmp_path: Path) -> None:
    result = fitted(three_items())
    for name in ("a.html", "b.html"):
        write_report(result, tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    before = (tmp_path / "a.html").read_bytes()
    with pytest.raises(InputError):
        write_report(result, tmp_path / "a.html", truth=["cat"])
    assert (tmp_path / "a.html").read_bytes() == before


def test_matrices_of_many_classes_are_few() -> None:
    votes = simulate(n_items=60, n_annotators=12, n_classes=60, votes_per_item=4, random_state=0).votes
    result = make("dawid-skene").fit(votes).result_
    none = Detections({}, pl.DataFrame({"annotator": votes.annotators.tolist(), "flags": [""] * votes.n_annotators}), ())
    drawn = matrices(result, crowd_of(result), none)
    assert drawn.count("<figure") == 3
    assert "3 annotators of 12 are shown" in drawn
    assert len(drawn) < 1_500_000
