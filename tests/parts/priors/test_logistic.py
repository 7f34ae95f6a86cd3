from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from crowdwise.parts.priors.logistic import LogisticPrior, log_softmax, softmax_slope


def soft_task(seed: int, n_items: int, n_columns: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n_items, n_columns)) * rng.uniform(0.1, 10, n_columns) + rng.normal(0, 5, n_columns)
    scores = (table - table.mean(axis=0)) / table.std(axis=0) @ rng.normal(0, 1.5, (n_columns, n_classes))
    soft = np.exp(log_softmax(scores + rng.gumbel(size=scores.shape)))
    return table, soft


def objective(table: Any, target: np.ndarray, weights: np.ndarray, l2: float) -> float:
    """By the book: no stabilisation, one item at a time."""
    total = -l2 / 2 * (weights[:-1] ** 2).sum()
    for row, q in zip(np.asarray(table), target, strict=True):
        power = np.exp(row @ weights[:-1] + weights[-1])
        total += (q * np.log(power / power.sum())).sum()
    return float(total)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_slope_is_that_of_finite_differences(sparse: bool) -> None:
    table, target = soft_task(0, 12, 3, 4)
    weights = np.random.default_rng(1).normal(0, 0.1, (4, 4))
    log_nk = log_softmax(table @ weights[:-1] + weights[-1])
    slope = softmax_slope(csr_array(table) if sparse else table, target, weights, log_nk, 0.7)
    step = 1e-6
    for d, k in np.ndindex(weights.shape):
        nudge = np.zeros_like(weights)
        nudge[d, k] = step
        rise = objective(table, target, weights + nudge, 0.7) - objective(table, target, weights - nudge, 0.7)
        assert slope[d, k] == pytest.approx(rise / (2 * step), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("n_classes", "factor"), [(3, 1.0), (10, 1.0), (2, 2.0)])
def test_soft_targets_are_repeated_rows_of_scikit_learn(n_classes: int, factor: float) -> None:
    """Two classes have one column of weights there and two here, hence the factor of the penalty."""
    table, target = soft_task(2, 200, 4, n_classes)
    prior = LogisticPrior.start(table, n_classes, l2=2.0, steps=2000).update(target)
    scaled = (table - table.mean(axis=0)) / table.std(axis=0)
    rows, codes = np.divmod(np.arange(target.size), n_classes)
    other = LogisticRegression(C=factor / 2.0, tol=1e-10, max_iter=10_000)
    other.fit(scaled[rows], codes, sample_weight=target.ravel())
    np.testing.assert_allclose(np.exp(prior.log_prob()), other.predict_proba(scaled), atol=1e-4)
    if n_classes > 2:
        # Only differences between classes matter; scikit-learn centres the weights, and so does our penalty.
        np.testing.assert_allclose(prior.weights[:-1].T, other.coef_, atol=1e-3)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 4), st.floats(0, 10))
def test_an_update_never_falls(seed: int, n_classes: int, steps: int, l2: float) -> None:
    """From any weights, under targets that change from round to round."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(8, 3)) * 10 ** rng.uniform(-3, 3, 3)
    prior = LogisticPrior.start(table, n_classes, l2=l2, steps=steps)
    weights = rng.normal(0, 5, prior.weights.shape)
    prior = replace(prior, weights=weights, log_nk=log_softmax(prior.table @ weights[:-1] + weights[-1]))
    for _ in range(6):
        target = rng.dirichlet(np.full(n_classes, 0.3), 8)
        before = np.vdot(target, prior.log_prob()) - prior.penalty()
        prior = prior.update(target)
        assert np.vdot(target, prior.log_prob()) - prior.penalty() >= before - 1e-12 * abs(before)


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_for_features_as_given_say_what_the_prior_says(sparse: bool) -> None:
    table, target = soft_task(3, 40, 5, 3)
    table[:, 2] = 4.0
    prior = LogisticPrior.start(csr_array(table) if sparse else table, 3, steps=50).update(target)
    raw = prior.raw_weights
    np.testing.assert_allclose(log_softmax(table @ raw[:-1] + raw[-1]), prior.log_prob(), atol=1e-9)
    np.testing.assert_allclose(prior.probability, np.exp(prior.log_prob()).mean(axis=0))


def test_units_of_measurement_do_not_matter() -> None:
    table, target = soft_task(4, 60, 3, 2)
    here = LogisticPrior.start(table, 2, steps=30).update(target).log_prob()
    there = LogisticPrior.start(table * [1000.0, 0.001, 1.0] + [0.0, 5.0, -7.0], 2, steps=30).update(target).log_prob()
    np.testing.assert_allclose(here, there, atol=1e-6)
