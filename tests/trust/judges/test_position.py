"""A favoured place, by McNemar's and by Mantel and Haenszel's own formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crowdwise.trust.judges.position import position_bias


def test_one_verdict_per_order_is_mcnemars_test() -> None:
    # Five pairs are consistent, in four the first wins twice, in one the second.
    pair, order = np.repeat(np.arange(10), 2), np.tile([True, False], 10)
    chose = np.array([1, 0] * 5 + [1, 1] * 4 + [0, 0], float)
    found = position_bias(np.zeros(20, int), pair, order, chose, 2)
    assert found.n_swapped.tolist() == [10, 0]
    assert found.consistency[0] == 0.5
    assert found.advantage[0] == pytest.approx(0.3)
    assert found.p_value[0] == pytest.approx(math.erfc(3 / math.sqrt(5) / math.sqrt(2)))
    assert np.isnan([found.consistency[1], found.advantage[1], found.p_value[1]]).all()


def test_many_verdicts_are_mantel_and_haenszels_test() -> None:
    rng = np.random.default_rng(0)
    pair, order = rng.integers(4, size=200), rng.random(200) < 0.4
    chose = (rng.random(200) < 0.65).astype(float)
    found = position_bias(np.zeros(200, int), pair, order, chose, 1)
    # Of the 2 x 2 table of every pair, x first or second by x won or lost: a is expected at n1 m1 / n.
    difference = variance = 0.0
    for p in range(4):
        won = np.where(order, chose, 1 - chose)[pair == p]
        first = order[pair == p]
        n, n1, m1 = len(won), first.sum(), won.sum()
        difference += won[first].sum() - n1 * m1 / n
        variance += n1 * (n - n1) * m1 * (n - m1) / (n**2 * (n - 1))
    z = difference / math.sqrt(variance)
    assert found.p_value[0] == pytest.approx(math.erfc(abs(z) / math.sqrt(2)))
    assert found.first_share[0] == pytest.approx(chose.mean())


def test_a_judge_who_always_says_first() -> None:
    pair, order = np.repeat(np.arange(30), 2), np.tile([True, False], 30)
    found = position_bias(np.zeros(60, int), pair, order, np.ones(60), 1)
    assert found.advantage[0] == 1
    assert found.consistency[0] == 0
    assert found.p_value[0] < 1e-6


def test_a_favoured_place_is_that_of_noisy_bradley_terry() -> None:
    # Looks with probability 0.6 and else says first with probability 0.9: (1 - 0.6)(2 x 0.9 - 1) = 0.32.
    rng = np.random.default_rng(1)
    n = 20_000
    pair, order = np.repeat(np.arange(n), 2), np.tile([True, False], n)
    better = np.repeat(rng.random(n) < 0.5, 2)
    honest = np.where(order, better, ~better)
    chose = np.where(rng.random(2 * n) < 0.6, honest, rng.random(2 * n) < 0.9).astype(float)
    assert position_bias(np.zeros(2 * n, int), pair, order, chose, 1).advantage[0] == pytest.approx(0.32, abs=0.015)


def test_ties_and_consistent_verdicts_show_nothing() -> None:
    pair, order = np.repeat(np.arange(3), 2), np.tile([True, False], 3)
    found = position_bias(np.zeros(6, int), pair, order, np.array([1, 0, 0.5, 0.5, 0, 1]), 1)
    assert (found.consistency[0], found.advantage[0], found.p_value[0]) == (1, 0, 1)
