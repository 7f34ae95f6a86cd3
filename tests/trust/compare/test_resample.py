"""Measures of weighted items, and what the resamples make of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdwise.trust.compare.resample import bootstrap, item_scores, n_resamples_for
from crowdwise.trust.metrics import accuracy, auc, ece, log_loss, macro_f1


@given(st.integers(1, 60), st.integers(2, 4), st.integers(0, 10_000), st.booleans())
def test_items_that_count_twice_are_items_that_are_there_twice(n: int, n_classes: int, seed: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    # Coarse posteriors are tied within items and between them.
    drawn = rng.integers(0, 3, (n, n_classes)) + 0.0 if coarse else rng.random((n, n_classes))
    posterior = (drawn + 0.01) / (drawn + 0.01).sum(axis=1, keepdims=True)
    truth = rng.integers(n_classes, size=n)
    weight = rng.integers(0, 4, n)
    weight[0] += 1
    repeated, classes = np.repeat(posterior, weight, axis=0), np.repeat(truth, weight)
    expected = [measure(repeated, classes) for measure in (accuracy, macro_f1, auc, log_loss, ece)]
    np.testing.assert_allclose(item_scores(posterior, truth).measure(weight.astype(float)), expected, atol=1e-9)


def test_intervals_of_a_mean_are_those_of_its_standard_error() -> None:
    rng = np.random.default_rng(1)
    right = (rng.random(400) < 0.8).astype(float)
    drawn = bootstrap([lambda w: np.array([w @ right / w.sum()])], 400, 2000, 0)[:, 0, 0]
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert high - low == pytest.approx(2 * 1.96 * right.std() / 20, rel=0.1)


def test_all_methods_see_the_same_resamples() -> None:
    right = np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    drawn = bootstrap([lambda w: np.array([w @ right]), lambda w: np.array([w @ right - w.sum()])], 5, 50, 3)
    np.testing.assert_allclose(drawn[:, 0] - drawn[:, 1], 5)
    assert np.ptp(drawn[:, 0]) > 0


def test_very_many_items_are_resampled_less_often() -> None:
    assert [n_resamples_for(n, 1000) for n in (10, 50_000, 100_000, 10_000_000)] == [1000, 1000, 500, 200]
    assert n_resamples_for(10_000_000, 20) == 20
