from __future__ import annotations

import numpy as np
from tests.report.test_page import HOSTILE, Reader, fitted, three_items

from crowdwise.data import datasets
from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make

make_any = make


def test_votes_show_sizes_shares_and_first_rows() -> None:
    markup = three_items()._repr_html_()
    assert "9 votes on 3 items, 3 annotators, 3 to 3 per item" in markup
    # Cat has three votes of nine.
    assert "<bdi>dog</bdi> 66.7\u00a0%, <bdi>cat</bdi> 33.3\u00a0%" in markup
    assert Reader(markup).rows[1] == ["one", "x", "cat"]
    assert "and 4 more votes" in markup


def test_a_fit_shows_labels_doubts_and_people() -> None:
    estimator = make("majority").fit(three_items())
    markup = estimator._repr_html_()
    rows = {row[0]: row[1:] for row in Reader(markup).rows}
    # Two votes of three, and one more that is divided by the class shares, a third cat: (2 + 1/3) / 4.
    assert rows["one"] == ["cat", "58.3 %", "3"]
    assert rows["y"][1] == "3"
    assert "2 labels under 80 % confidence" in markup
    assert estimator._repr_mimebundle_()["text/html"] == markup
    assert estimator.result_._repr_html_() == markup


def test_a_large_crowd_is_cut() -> None:
    rng = np.random.default_rng(0)
    votes = Annotations.from_arrays(np.repeat(np.arange(50), 4), np.tile(np.arange(40), 5), rng.integers(0, 12, 200))
    assert "and 4 other classes" in votes._repr_html_()
    assert "30 others" in fitted(votes, "majority")._repr_html_()


def test_an_unfitted_estimator_shows_its_settings() -> None:
    assert make("dawid-skene", max_iter=7)._repr_html_().startswith("<code>DawidSkene(")
    assert "max_iter=7" in make("dawid-skene", max_iter=7)._repr_html_()


def test_a_classifier_shows_its_fit_and_not_a_diagram() -> None:
    demo = datasets.demo()
    X = np.eye(4)[demo.truth] + np.random.default_rng(0).normal(size=(120, 4))
    assert "<code>Raykar(" in make_any("raykar")._repr_mimebundle_()["text/html"]
    assert "120 items" in make_any("raykar").fit(X, demo.votes)._repr_mimebundle_()["text/html"]


def test_names_are_escaped() -> None:
    votes = Annotations.from_arrays(np.repeat(HOSTILE, 2).tolist(), ["<b>x", "<i>y"] * len(HOSTILE), HOSTILE * 2)
    for markup in (votes._repr_html_(), fitted(votes)._repr_html_()):
        assert Reader(markup).tags <= {"div", "p", "strong", "bdi", "table", "thead", "tbody", "tr", "th", "td", "code"}
