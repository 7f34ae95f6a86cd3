"""Tables from outcomes that are written down by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.trust.compare.collect import Collector
from crowdwise.trust.compare.fitting import Outcome, Task
from crowdwise.trust.compare.table import Comparison

# Three votes on each of four items.
VOTES = Annotations.from_arrays(np.repeat(range(4), 3), ["x", "y", "z"] * 4, [0, 0, 1] * 4)
FOLD = np.array([0, 1, -1] * 4)
TRUTH = np.array([0, 0, 1, -1], np.int16)


def outcome(method: str, first: list[float], log_prob: float = -1.0) -> Outcome:
    """Probabilities of class 0 of the four items; all held-out votes get one probability."""
    posterior = np.column_stack([first, 1 - np.array(first)])
    held = np.where(FOLD >= 0, log_prob, np.nan)
    return Outcome(method, posterior, posterior.argmax(axis=1), held, 1.0, 50.0, 3, True)


def made(truth: np.ndarray | None, reference: str | None = None) -> Comparison:
    collector = Collector(Task(VOTES, FOLD), truth)
    collector.add(outcome("b", [0.9, 0.9, 0.9, 0.9], -2.0))
    collector.add(Outcome("c", error="=broken"))
    collector.add(outcome("a", [0.8, 0.6, 0.3, 0.1], -1.0))
    facts = {"n_votes": 12, "n_items": 4, "n_annotators": 3, "n_classes": 2, "n_known": 3, "n_held_out": 8, "folds": 2}
    facts |= {"seed": 0, "level": 0.9}
    return collector.comparison(["a", "b", "c"], reference=reference, level=0.9, n_resamples=200, facts=facts)


def test_values_by_hand() -> None:
    table = made(TRUTH).table
    assert table["method"].to_list() == ["a", "b", "c"]
    assert table["accuracy"].to_list() == [1.0, pytest.approx(2 / 3), None]
    assert table["log_loss"][0] == pytest.approx(-np.log([0.8, 0.6, 0.7]).mean())
    assert table["held_out"].to_list() == [-1.0, -2.0, None]
    assert table["error"].to_list() == [None, None, "=broken"]
    # They agree on the first two items.
    assert table["agreement"].to_list() == [0.5, 0.5, None]
    assert made(TRUTH).agreement.rows() == [("a", 1.0, 0.5), ("b", 0.5, 1.0)]


def test_differences_are_taken_to_the_best_or_to_whom_one_names() -> None:
    found = made(TRUTH)
    assert found.reference == "a"
    held = found.intervals.filter(method="b", measure="held_out").row(0, named=True)
    # All votes have the same probability, so resampling changes nothing.
    assert [held[name] for name in ("value", "low", "high")] == [-2, -2, -2]
    assert [held[name] for name in ("difference", "difference_low", "difference_high")] == [-1, -1, -1]
    assert found.intervals.filter(method="a")["difference"].null_count() == 6
    other = made(TRUTH, "b").intervals.filter(method="a", measure="accuracy")["difference"].item()
    assert other == pytest.approx(1 / 3)


def test_without_truth_the_best_foretells_votes_best() -> None:
    found = made(None)
    assert found.reference == "a"
    assert found.measures == ["held_out"]


def test_a_paired_difference_is_surer_than_its_two_sides() -> None:
    rng = np.random.default_rng(0)
    votes = Annotations.from_arrays(np.arange(300), ["x"] * 300, [0, 1] * 150)
    truth = rng.integers(2, size=300).astype(np.int16)
    right = rng.random(300) < 0.7
    one = np.where(right == (truth == 0), 0.9, 0.1)
    other = one.copy()
    # Right on the same items but for five.
    other[np.flatnonzero(right)[:5]] = 1 - other[np.flatnonzero(right)[:5]]
    collector = Collector(Task(votes), truth)
    for method, first in (("one", one), ("other", other)):
        collector.add(Outcome(method, np.column_stack([first, 1 - first]), (first < 0.5).astype(int)))
    found = collector.comparison(["one", "other"]).intervals.filter(measure="accuracy")
    row = found.filter(method="other").row(0, named=True)
    assert row["high"] - row["low"] > 0.08
    assert row["difference_high"] - row["difference_low"] < 0.04
    assert row["difference_high"] < 0
    assert row["difference"] == pytest.approx(-5 / 300)


def test_the_wide_table_has_the_intervals_beside_each_measure() -> None:
    wide = made(TRUTH).wide()
    start = wide.columns.index("accuracy")
    assert wide.columns[start : start + 3] == ["accuracy", "accuracy_low", "accuracy_high"]
    assert wide["held_out_difference"].to_list() == [None, -1.0, None]
    assert wide["method"].to_list() == ["a", "b", "c"]


def test_nothing_to_measure_is_no_failure() -> None:
    collector = Collector(Task(VOTES, FOLD), None)
    collector.add(Outcome("c", error="no"))
    found = collector.comparison(["c"])
    assert found.reference is None
    assert found.intervals.is_empty()
    assert found.agreement.is_empty()
    assert found.wide().height == 1
