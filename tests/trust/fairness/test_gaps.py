from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdwise.errors import SettingError
from crowdwise.trust.fairness import disparity
from crowdwise.trust.fairness.gaps import gap_tables, one_hot
from crowdwise.trust.fairness.rates import Decisions, rates_of

GROUP = np.repeat([0, 1], [6, 4])
TRUTH = np.array([1, 1, 1, 0, 0, 0, 1, 1, 0, 0])
LABEL = np.array([1, 1, 0, 1, 0, 0, 1, 0, 0, 0])


def by_measure(frame: pl.DataFrame) -> dict[str, float]:
    return dict(zip(frame["measure"], frame["gap"], strict=True))


def test_gaps_are_those_counted_by_hand() -> None:
    found = by_measure(disparity(LABEL, GROUP, TRUTH))
    assert found == pytest.approx(
        {
            "demographic parity": 3 / 6 - 1 / 4,
            "equal opportunity": 2 / 3 - 1 / 2,
            "false-positive rate": 1 / 3 - 0,
            "accuracy": 3 / 4 - 4 / 6,
            "equalised odds": 1 / 3,
        }
    )


def test_the_group_ahead_is_named_and_the_smaller_one_counted() -> None:
    frame = disparity(LABEL, np.where(GROUP, "women", "men"), TRUTH)
    row = frame.row(by_predicate=pl.col("measure") == "accuracy", named=True)
    assert (row["higher"], row["lower"], row["n"], row["class"]) == ("women", "men", 4, None)
    row = frame.row(by_predicate=pl.col("measure") == "equal opportunity", named=True)
    assert (row["higher"], row["lower"], row["n"], row["class"]) == ("men", "women", 2, 1)


def test_items_of_unknown_truth_count_for_parity_alone() -> None:
    some = [*TRUTH[:9].tolist(), None]
    found = by_measure(disparity(LABEL, GROUP, some))
    assert found["demographic parity"] == pytest.approx(0.25)
    assert found["accuracy"] == pytest.approx(0)
    assert list(by_measure(disparity(LABEL, GROUP))) == ["demographic parity"]


def test_several_classes_are_each_compared_with_the_rest() -> None:
    rng = np.random.default_rng(0)
    label, truth, group = rng.integers(0, 3, 200), rng.integers(0, 3, 200), rng.integers(0, 2, 200)
    frame = disparity(label, group, truth)
    assert frame.filter(pl.col("measure") == "accuracy").height == 1
    assert frame.filter(pl.col("measure") == "equal opportunity")["class"].to_list() == [0, 1, 2]
    one = frame.row(by_predicate=(pl.col("measure") == "false-positive rate") & (pl.col("class") == 2), named=True)
    rates = [((label == 2) & (truth != 2) & (group == g)).sum() / ((truth != 2) & (group == g)).sum() for g in (0, 1)]
    assert one["gap"] == pytest.approx(abs(rates[0] - rates[1]))
    assert disparity(label, group, truth, positive=2)["class"].drop_nulls().unique().to_list() == [2]


def test_soft_labels_are_summed() -> None:
    rng = np.random.default_rng(1)
    q, t, group = rng.random(50), rng.random(50), rng.integers(0, 2, 50)
    decisions = Decisions(np.stack([1 - q, q], 1), np.stack([1 - t, t], 1), group, 2)
    found = rates_of(decisions, 1, 20, rng)
    mine = group == 1
    expected = [q[mine].mean(), (q * t)[mine].sum() / t[mine].sum(), (q * (1 - t))[mine].sum() / (1 - t)[mine].sum()]
    assert found.value[1, :3] == pytest.approx(expected)
    assert found.value[1, 3] == pytest.approx((q * t + (1 - q) * (1 - t))[mine].mean())


def test_hard_labels_as_kinds_and_one_by_one_have_the_same_bootstrap_distribution() -> None:
    rng = np.random.default_rng(2)
    label, truth, group = rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    kinds = Decisions(one_hot(label, 2), one_hot(truth, 2), group, 2)
    singly = Decisions(kinds.decided, kinds.true, group, 2, unit=np.arange(300))
    both = [rates_of(decisions, 1, 4000, rng) for decisions in (kinds, singly)]
    assert both[0].value == pytest.approx(both[1].value)
    assert both[0].drawn.std(axis=0) == pytest.approx(both[1].drawn.std(axis=0), rel=0.08)
    # The textbook's standard error of a share.
    share = both[0].value[0, 0]
    assert both[0].drawn[:, 0, 0].std() == pytest.approx(np.sqrt(share * (1 - share) / (group == 0).sum()), rel=0.08)


def test_votes_of_one_annotator_are_drawn_together() -> None:
    # Ten annotators, of whom each always says the same: a hundred votes each are worth one.
    unit = np.repeat(np.arange(10), 100)
    said = (unit % 2).astype(int)
    together = Decisions(one_hot(said, 2), one_hot(said, 2), np.zeros(1000, int), 1, unit=unit)
    alone = Decisions(one_hot(said, 2), one_hot(said, 2), np.zeros(1000, int), 1)
    rng = np.random.default_rng(0)
    spread = [rates_of(d, 1, 2000, rng).drawn[:, 0, 0].std() for d in (together, alone)]
    assert spread[0] == pytest.approx(np.sqrt(0.25 / 10), rel=0.1)
    assert spread[1] == pytest.approx(np.sqrt(0.25 / 1000), rel=0.1)


@pytest.mark.slow
def test_intervals_cover_the_true_difference() -> None:
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(150):
        group = (rng.random(300) < 0.4).astype(int)
        label = (rng.random(300) < np.where(group, 0.5, 0.7)).astype(int)
        decisions = Decisions(one_hot(label, 2), np.zeros((300, 2)), group, 2)
        _, gaps = gap_tables(decisions, np.array(["a", "b"]), np.array([0, 1]), [1], 0.9, 300, 0)
        row = gaps.row(0, named=True)
        true = 0.2 if row["higher"] == "a" else -0.2
        covered.append(row["low"] <= true <= row["high"])
    assert 0.83 < np.mean(covered) < 0.97


@pytest.mark.slow
def test_of_many_groups_without_a_difference_the_widest_gap_is_seldom_called_one() -> None:
    rng = np.random.default_rng(4)
    called = []
    for _ in range(60):
        group = rng.integers(0, 8, 800)
        row = disparity(rng.integers(0, 2, 800), group, n_resamples=200).row(0, named=True)
        assert row["gap"] > 0
        called.append(row["low"] > 0)
    assert np.mean(called) < 0.12


@pytest.mark.parametrize("group", [[0] * 10, list(range(10))])
def test_one_group_or_groups_of_one_have_an_answer(group: list[int]) -> None:
    frame = disparity(LABEL, group, TRUTH)
    assert frame.filter(pl.col("measure") == "demographic parity").height == 1


def test_equalised_odds_hold_the_larger_gap_within_a_wider_interval() -> None:
    rng = np.random.default_rng(5)
    group = rng.integers(0, 2, 500)
    truth = rng.integers(0, 2, 500)
    label = np.where(rng.random(500) < np.where(group, 0.9, 0.7), truth, 1 - truth)
    frame = disparity(label, group, truth)
    rows: dict[str, dict[str, Any]] = {row["measure"]: row for row in frame.iter_rows(named=True)}
    odds, parts = rows["equalised odds"], [rows["equal opportunity"], rows["false-positive rate"]]
    widest = max(parts, key=lambda row: float(row["gap"]))
    assert odds["gap"] == widest["gap"]
    assert odds["high"] >= widest["high"]


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(SettingError, match="no class '2'"):
        disparity(LABEL, GROUP, TRUTH, positive=2)
    with pytest.raises(SettingError, match="level"):
        disparity(LABEL, GROUP, TRUTH, level=1)
    with pytest.raises(SettingError, match="n_resamples"):
        disparity(LABEL, GROUP, TRUTH, n_resamples=1)
