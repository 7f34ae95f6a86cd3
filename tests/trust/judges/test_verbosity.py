"""Slopes on length: Firth's estimate of a 2 x 2 table is that with a half more in every cell."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.trust.judges.verbosity import firth, length_slopes


def test_firth_adds_a_half_to_every_cell() -> None:
    longer, chose = np.repeat([0.0, 0, 1, 1], [7, 3, 0, 9]), np.repeat([0.0, 1, 0, 1], [7, 3, 0, 9])
    beta, covariance = firth(np.column_stack([np.ones(19), longer]), chose)
    assert beta[1] == pytest.approx(np.log(9.5 / 0.5) - np.log(3.5 / 7.5), abs=1e-6)
    assert covariance[1, 1] > 0


def test_slopes_of_every_judge() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    judge, doublings = np.tile([0, 1, 2], n), np.repeat(rng.normal(size=n), 3)
    slope = np.array([0.0, 1.2, np.nan])[judge]
    chose = (rng.random(3 * n) < 1 / (1 + np.exp(-(0.4 + slope * doublings)))).astype(float)
    doublings[judge == 2] = 1.0
    found, error = length_slopes(judge, np.repeat(np.arange(n), 3), doublings, chose, 4)
    assert found[:2] == pytest.approx([0, 1.2], abs=0.15)
    assert (np.abs(found[:2] - [0, 1.2]) < 4 * error[:2]).all()
    assert np.isnan(found[2:]).all()  # lengths never differ; no verdicts


def test_the_truth_takes_its_share() -> None:
    # The right answer is longer; the judge looks at nothing but the truth.
    rng = np.random.default_rng(1)
    truth = (rng.random(6000) < 0.5).astype(float)
    doublings = rng.normal(size=6000) + (2 * truth - 1)
    chose = np.where(rng.random(6000) < 0.85, truth, 1 - truth)
    judge = np.zeros(6000, int)
    assert length_slopes(judge, np.arange(6000), doublings, chose, 1)[0][0] > 0.5
    slope, error = length_slopes(judge, np.arange(6000), doublings, chose, 1, truth)
    assert abs(slope[0]) < 3 * error[0]


def test_a_judge_who_always_prefers_the_longer_has_a_finite_slope() -> None:
    slope, error = length_slopes(
        np.zeros(6, int), np.arange(6), np.array([1, 2, 3, -1, -2, -3.0]), np.array([1, 1, 1, 0, 0, 0.0]), 1
    )
    assert 0 < slope[0] < 10
    assert np.isfinite(error[0])


def test_the_same_verdict_in_both_orders_is_one() -> None:
    rng = np.random.default_rng(3)
    doublings = rng.normal(size=500)
    chose = (rng.random(500) < 1 / (1 + np.exp(-0.5 * doublings))).astype(float)
    once = length_slopes(np.zeros(500, int), np.arange(500), doublings, chose, 1)
    turned = np.concatenate([doublings, -doublings]), np.concatenate([chose, 1 - chose])
    twice = length_slopes(np.zeros(1000, int), np.tile(np.arange(500), 2), *turned, 1)
    assert twice[0] == pytest.approx(once[0], rel=0.05)
    assert twice[1] == pytest.approx(once[1], rel=0.1)
