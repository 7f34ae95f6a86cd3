from __future__ import annotations

import re
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from tests.strategies import small_votes

from crowdwise.data import datasets
from crowdwise.data.annotations import Annotations
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import label_methods, make
from crowdwise.report import write_page
from crowdwise.report.page import page

METHODS = label_methods()

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "</title></svg></style><b>",
    "&lt;b&gt;",
    "\u202egnp.exe",
    "猫" * 100,
    "x" * 10_000,
    "nul\x00\x0b\x1b line\nbreak",
]


class Reader(HTMLParser):
    """Checks that tags balance, and keeps what is needed to look for foreign markup."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data.replace("\u00a0", " ").replace("\u00d7", "x")


def fitted(votes: Annotations, method: str = "dawid-skene", **settings: object) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make(method, **settings).fit(votes).result_


def three_items() -> Annotations:
    """One: cat cat dog; two: dog dog dog; three: cat dog dog."""
    return Annotations.from_arrays(
        item=["one"] * 3 + ["two"] * 3 + ["three"] * 3,
        annotator=["x", "y", "z"] * 3,
        label=["cat", "cat", "dog", "dog", "dog", "dog", "cat", "dog", "dog"],
    )


def test_numbers_are_those_of_the_result() -> None:
    reader = Reader(markup := page(fitted(three_items(), "majority"), truth=np.array([0, -1, 1])))
    rows = {row[0]: row[1:] for row in reader.rows}
    # Votes by hand: 2, 3 and 2 of 3, and one more that is divided by the class shares, 1/3 cat and 2/3 dog:
    # (2 + 1/3) / 4, (2 + 2/3) / 4, (3 + 2/3) / 4. Items are sorted by name: one, three, two.
    assert rows["one"] == ["cat", "58.3 %", "dog (41.7 %)", "cat x 2, dog x 1", "votes are split"]
    assert rows["three"] == ["dog", "66.7 %", "cat (33.3 %)", "dog x 2, cat x 1", "votes are split"]
    assert rows["two"][:2] == ["dog", "91.7 %"]
    # x agrees with the consensus on one and two, y everywhere, z on two and three.
    assert [rows[name][0] for name in "xyz"] == ["3", "3", "3"]
    assert [rows[name][3] for name in "xyz"] == ["66.7 %", "100 %", "66.7 %"]
    # Pairs that agree: one of three, three of three, one of three: 5 / 9.
    assert "55.6\u00a0%" in markup
    assert "Of 3 items, 2 are under 80 % and 3 under 95 %." in markup
    # Cat is the consensus on one item of three, and has three votes of nine.
    assert markup.count("33.3\u00a0%") >= 2
    # Items one and two (codes 0 and 2) are known; the truth of "two" is dog, as voted.
    assert "2 items of known class" in markup
    assert rows["majority vote"][0] == "1.000"


def test_annotators_numbers() -> None:
    result = fitted(datasets.demo().votes)
    rows = {row[0]: row[1:] for row in Reader(page(result)).rows}
    for row in result.annotators_frame().iter_rows(named=True):
        shown = rows[row["annotator"]]
        assert shown[0] == str(row["n_votes"])
        assert shown[1] == f"{100 * row['accuracy']:.1f} %"
        assert shown[4] == row["common_error"].replace("->", "→")


def test_pooled_confusion_by_hand() -> None:
    # Under majority, P(cat) is 2/3, 1/3, 0 on items one, three, two; votes for cat: 2, 1, 0 of 3.
    # cat row: cat 2/3*2 + 1/3*1 = 5/3 of a total 3; dog row: cat 1/3*2 + 2/3*1 = 4/3 of a total 6.
    markup = page(fitted(three_items(), "majority"))
    assert f"cat called cat: {100 * 5 / 9:.1f}\u00a0%" in markup
    assert f"dog called cat: {100 * 4 / 18:.1f}\u00a0%" in markup


def test_hostile_names_are_escaped_everywhere() -> None:
    rng = np.random.default_rng(0)
    n_items = len(HOSTILE) * 3
    votes = Annotations.from_arrays(
        item=np.repeat([f"{i}{HOSTILE[i % len(HOSTILE)]}" for i in range(n_items)], 4).tolist(),
        annotator=[HOSTILE[a] for a in rng.integers(0, len(HOSTILE), 4 * n_items)],
        label=[HOSTILE[k] for k in rng.integers(0, 5, 4 * n_items)],
    )
    markup = page(fitted(votes), truth=np.zeros(n_items, int), title=HOSTILE[0])
    reader = Reader(markup)
    assert not reader.tags & {"script", "img", "b", "iframe", "object"}
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", markup)
    assert "&lt;script&gt;" in markup
    assert len(markup) < 300_000
    markup.encode("utf-8")


def test_nothing_is_loaded_from_elsewhere() -> None:
    markup = page(fitted(datasets.demo().votes))
    assert not {"script", "link", "img", "iframe"} & Reader(markup).tags
    assert set(re.findall(r"https?://[^\"<\s]*", markup)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in markup
    assert "@import" not in markup


def test_tables_and_pictures_speak_to_screen_readers() -> None:
    markup = page(fitted(datasets.demo().votes))
    assert re.findall("<th(?: |>)", markup).count("<th ") == markup.count("<th scope=")
    for picture in re.findall("<svg[^>]*>", markup):
        assert 'role="img"' in picture
        assert 'aria-label="' in picture


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].suits(3)])
def test_every_method(method: str) -> None:
    demo = datasets.demo()
    # What a page shows of a method does not depend on the number of items.
    Reader(page(fitted(demo.votes[:30], method), truth=demo.truth[:30]))


@pytest.mark.slow
@given(small_votes())
@settings(max_examples=30)
def test_small_shapes(votes: Annotations) -> None:
    Reader(page(fitted(votes), truth=np.zeros(votes.n_items, int)))


@pytest.mark.slow
def test_hundred_classes_and_three_hundred_annotators() -> None:
    rng = np.random.default_rng(0)
    votes = Annotations.from_arrays(
        item=np.repeat(np.arange(500), 6),
        annotator=rng.integers(0, 300, 3000),
        label=rng.integers(0, 100, 3000),
        classes=range(100),
    )
    markup = page(fitted(votes, "majority"))
    Reader(markup)
    assert "The 20 most common classes of 100 are shown." in markup
    assert "100 more are not shown" in markup


@pytest.mark.slow
def test_size_does_not_grow_with_the_campaign(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_items = 100_000
    votes = Annotations.from_arrays(
        item=np.repeat(np.arange(n_items), 2),
        annotator=rng.integers(0, 5000, 2 * n_items),
        label=rng.integers(0, 5, 2 * n_items),
    )
    write_page(fitted(votes, "majority"), tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 300_000


def test_same_result_same_bytes(tmp_path: Path) -> None:
    demo = datasets.demo()
    for name in ("a.html", "b.html"):
        write_page(fitted(demo.votes), tmp_path / name, truth=demo.truth, title="Demo")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_failure_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    result = fitted(three_items())
    with pytest.raises(InputError, match="one class code per item"):
        write_page(result, path, truth=[0])

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match="no space left"):
        write_page(result, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_items_given_to_the_fit_do_not_flatter_it() -> None:
    votes = three_items().with_gold({"one": "dog"})
    markup = page(fitted(votes), truth=np.array([1, 1, 1]))
    assert "2 items of known class; 1 given to the fit are left out" in markup
    assert "Items whose class was given are left out." in markup
    assert "Of 2 items" in markup


def test_a_fit_that_did_not_converge_says_so() -> None:
    markup = page(fitted(datasets.demo().votes, max_iter=2))
    assert "Did not converge within 2 iterations" in markup
    assert "<strong>not converge</strong>" in markup


def test_missing_votes_are_counted() -> None:
    votes = Annotations.from_arrays([1, 1, 1, 2], ["x", "y", "z", "x"], ["cat", "cat", None, "dog"])
    assert "1 missing, dropped" in page(fitted(votes))


def test_accuracies_pulled_down_by_a_prior_are_explained() -> None:
    # Two pseudo-votes for each of 99 wrong answers outweigh the five real votes per annotator and class.
    votes = Annotations.from_arrays(
        np.repeat(np.arange(20), 3), ["x", "y", "z"] * 20, np.repeat(np.arange(20) % 4, 3), classes=range(100)
    )
    assert "compare annotators with each other only" in page(fitted(votes, "bayes-gc", off_diagonal=2.0))
    assert "compare annotators with each other only" not in page(fitted(datasets.demo().votes))


def test_soft_votes_are_counted_as_persons_gave_them() -> None:
    # Two persons, three items, four classes: distributions make twelve rows each.
    from crowdwise.report.text import summary_lines

    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(4), 60)
    soft = Annotations.from_probabilities(
        np.repeat(np.arange(20), 3), ["a", "b", "c"] * 20, probabilities, classes=list("wxyz")
    )
    result = make("dawid-skene").fit(soft).result_
    said = "\n".join(summary_lines(result)) + page(result)
    assert "80 votes" not in said
    assert ">80<" not in said
    assert ">20<" in said
