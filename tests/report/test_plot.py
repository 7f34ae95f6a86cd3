from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdwise.data import datasets
from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, MissingExtraError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import make
from crowdwise.report.plot import (
    accuracy_by_votes,
    annotator_map,
    annotator_positions,
    confidence_histogram,
    confusions,
    learning_curve,
    reliability,
)
from crowdwise.trust.metrics import accuracy

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def result() -> Result:
    return make("dawid-skene").fit(datasets.demo().votes).result_


def drawn(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_confusions_write_estimates_and_their_intervals(result: Result) -> None:
    panels = confusions(result, ["annotator-12", "annotator-01"])
    assert [panel.get_title() for panel in panels] == ["annotator-12 (42)", "annotator-01 (53)"]
    a = result.votes.annotators.tolist().index("annotator-12")
    assert np.asarray(panels[0].images[0].get_array()) == pytest.approx(result.confusion[a])
    low, high = (ends[a] for ends in result.confusion_interval())
    cells = drawn(panels[0])
    assert cells[0] == f"{100 * result.confusion[a, 0, 0]:.0f}"
    assert cells[1] == f"{100 * low[0, 0]:.0f} to {100 * high[0, 0]:.0f}"
    assert len(cells) == 2 * 16


def test_axes_in_axes_out(result: Result) -> None:
    own = pyplot.subplots(2, 2)[1]
    assert list(confusions(result, most=3, axes=own)) == own.ravel()[:3].tolist()
    ax = pyplot.subplots()[1]
    truth = datasets.demo().gold
    curve = pl.DataFrame({"n_votes": [2, 1], "accuracy": [0.9, 0.8]})
    for draw in (lambda: reliability(result, truth, ax=ax), lambda: confidence_histogram(result, ax=ax),
                 lambda: annotator_map(result, ax=ax), lambda: learning_curve(curve, ax=ax)):  # fmt: skip
        assert draw() is ax
    with pytest.raises(InputError, match="3 panels need 3 axes; got 1"):
        confusions(result, most=3, axes=ax)


def test_reliability_points_by_hand() -> None:
    # Majority: two items of 3/3 (both right), two of 2/3 (one right).
    votes = Annotations.from_arrays(np.repeat(list("abcd"), 3), list("xyz") * 4, list("000111001110"))
    fit = make("majority").fit(votes).result_
    ax = reliability(fit, {"a": "0", "b": "1", "c": "0", "d": "0"}, n_bins=2)
    points = [line.get_xydata() for line in ax.lines if len(line.get_xydata()) == 2]
    assert any(np.allclose(found, [[2 / 3, 0.5], [1, 1]]) for found in points)
    with pytest.raises(InputError, match="names no item"):
        reliability(make("majority").fit(votes, gold={"a": "0"}).result_, {"a": "0"})


def test_the_histogram_counts_items(result: Result) -> None:
    ax = confidence_histogram(result, n_bins=10)
    heights = [bar.get_height() for bar in ax.patches]
    assert sum(heights) == 120
    assert heights[-1] == (result.confidence >= 0.9 - 1e-9).sum()


def test_alike_annotators_lie_together_and_landmarks_where_they_belong() -> None:
    truth = np.arange(300) % 3
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(300) < 0.7, truth, rng.integers(0, 3, 300))
    answers = {"right": truth, "right too": truth, "noisy": noisy, "copy": noisy, "always 0": np.zeros(300, int)}
    answers |= {"third": truth, "fourth": truth}
    votes = Annotations.from_arrays(
        np.tile(np.arange(300), 7), np.repeat(list(answers), 300), np.concatenate(list(answers.values()))
    )
    found = annotator_positions(make("dawid-skene").fit(votes).result_)
    place = dict(zip(votes.annotators.tolist(), found.place, strict=True))
    assert place["right"] == pytest.approx(place["right too"])
    assert place["noisy"] == pytest.approx(place["copy"])
    # A third of a vote in each of six empty cells of 101 votes: sqrt(6 / 3 / 3 / 101) = 0.08 away, if all of it is seen.
    assert np.linalg.norm(place["right"] - found.perfect) < 0.1
    assert np.linalg.norm(place["noisy"] - found.perfect) > 0.3
    # Right is where the perfect annotator is.
    assert found.perfect[0] > found.blind[0]
    # Three kinds of annotators span a plane, so nothing is lost.
    assert found.shown == pytest.approx(1, abs=1e-6)


def test_the_map_skips_those_without_votes() -> None:
    votes = datasets.demo().votes
    silent = votes.take_votes(votes.annotator != 0)
    result = make("majority").fit(silent).result_
    assert np.isnan(annotator_positions(result).place[0]).all()
    ax = annotator_map(result, groups={"annotator-02": 1, "annotator-03": 1})
    assert len(ax.collections[0].get_offsets()) == 11


def test_more_votes_make_the_curve_rise() -> None:
    campaign = datasets.demo()
    frame = accuracy_by_votes(campaign.votes, campaign.gold, "majority", per_item=[1, 5], repeats=3)
    assert frame["n_votes"].to_list() == [120, 600]
    # Five votes are all there are: every repeat is the same fit.
    whole = accuracy(make("majority").fit(campaign.votes).posterior_, campaign.truth)
    assert frame.row(1)[1:] == pytest.approx((whole, whole, whole))
    assert frame["accuracy"][0] < whole
    ax = learning_curve({"majority": frame})
    assert ax.lines[0].get_xdata().tolist() == [120, 600]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["majority"]


def test_names_of_curves_are_no_formulas_and_none_is_lost() -> None:
    frame = pl.DataFrame({"n_votes": [1, 2], "accuracy": [0.5, 0.6]})
    ax = learning_curve({r"$\x$": frame, "_hidden": frame})
    ax.figure.savefig(BytesIO())
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == [r"\$\x\$", "_hidden"]


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: learning_curve({}), "no curve"),
        (lambda: learning_curve({"a": pl.DataFrame({"x": [1]})}), "has no column 'n_votes'"),
        (lambda: accuracy_by_votes(datasets.demo().votes, {}, per_item=[0]), "at least 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: Any, said: str) -> None:
    with pytest.raises((InputError, SettingError), match=said):
        draw()


def test_without_matplotlib_the_extra_is_named(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *more: Any, **others: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *more, **others)

    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"crowdwise\[report\]"):
        confidence_histogram(result)
