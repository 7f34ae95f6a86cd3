from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.sparse import csr_array

from crowdwise.parts.priors import fourier
from crowdwise.parts.priors.fourier import FourierPrior, fourier_features
from crowdwise.parts.priors.logistic_gp import LogisticGP, SquaredExponential, condition, squared_distances


def rows_and_labels(seed: int, n_items: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.05, 0.95, n_items)
    return rng.normal(size=(n_items, 3)), np.column_stack([1 - share, share])


def start(table: Any, n_frequencies: int, **settings: Any) -> FourierPrior:
    return FourierPrior.start(table, n_frequencies, np.random.default_rng(0), **settings)


def test_the_features_converge_to_the_kernel() -> None:
    table, _ = rows_and_labels(0, 8)
    kernel = SquaredExponential(1.0, 2.0)(squared_distances(table))
    worst = []
    for n_frequencies in (10, 1000, 100_000):
        phase = table @ np.random.default_rng(1).standard_normal((3, n_frequencies)) / 2.0
        phi = fourier_features(phase)
        np.testing.assert_allclose((phi**2).sum(axis=1), 1)
        worst.append(np.abs(phi @ phi.T - kernel).max())
    # The error of a mean of F bounded terms is about F^(-1/2).
    assert worst[0] > worst[1] > worst[2]
    assert worst[2] < 4 / np.sqrt(100_000)


def test_the_posterior_is_that_of_the_process_with_the_features_kernel() -> None:
    """phi rho with Gaussian rho is a Gaussian process whose covariance is variance phi phi'."""
    table, labels = rows_and_labels(2, 7)
    prior = start(table, 4, rounds=0)
    for _ in range(3):
        before, prior = prior.xi, prior.update(labels)
    phi = fourier_features(table @ prior.angular)
    same = condition(10.0 * phi @ phi.T, np.tanh(before / 2) / (2 * before), labels[:, 1] - 0.5)
    np.testing.assert_allclose(prior.mean, same.mean)
    np.testing.assert_allclose(prior.variance, same.variance)
    assert prior.penalty() == pytest.approx(same.divergence)


def test_with_many_frequencies_it_is_the_full_process() -> None:
    table, labels = rows_and_labels(3, 20)
    few, full = start(table, 500, rounds=0), LogisticGP.start(table, rounds=0)
    for _ in range(10):
        few, full = few.update(labels), full.update(labels)
    np.testing.assert_allclose(few.mean, full.state.mean, atol=0.2)
    np.testing.assert_allclose(few.variance, full.state.variance, atol=0.5)


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_slope_is_that_of_finite_differences(learn: bool, sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some blocks, the last one short.
    monkeypatch.setattr(fourier, "_BLOCK", 4)
    table, _ = rows_and_labels(4, 9)
    rng = np.random.default_rng(5)
    precision, natural = rng.uniform(0.1, 0.5, 9), rng.normal(size=9)
    prior = start(csr_array(table) if sparse else table, 3, learn_frequencies=learn)
    point = prior.parameters + 0.1 * rng.normal(size=len(prior.parameters))
    assert len(point) == (2 + 9 if learn else 2)
    value, slope = prior.log_normaliser(point, precision, natural)

    def at(where: Any) -> float:
        return prior.log_normaliser(where, precision, natural)[0]

    np.testing.assert_allclose(slope, approx_fprime(point, at, 1e-6), rtol=1e-4, atol=1e-5)
    phi = fourier_features(table @ (point[2:].reshape(3, 3) if learn else prior.frequencies) / np.exp(point[1]))
    assert value == pytest.approx(condition(np.exp(point[0]) * phi @ phi.T, precision, natural).log_normaliser)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(0, 3), st.booleans())
@settings(max_examples=25)
def test_no_update_lets_the_bound_fall(seed: int, n_items: int, rounds: int, learn: bool) -> None:
    table, labels = rows_and_labels(seed, n_items)
    prior, last = start(table, 5, rounds=rounds, learn_frequencies=learn), -np.inf
    for _ in range(6):
        prior = prior.update(labels)
        value = float((labels * prior.log_prob()).sum()) - prior.penalty()
        assert value >= last - 1e-9 * abs(value)
        last = value


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table, labels = rows_and_labels(6, 11)
    whole = start(table, 5, rounds=2).update(labels)
    monkeypatch.setattr(fourier, "_BLOCK", 3)
    parts = start(table, 5, rounds=2).update(labels)
    np.testing.assert_allclose(parts.mean, whole.mean)
    np.testing.assert_allclose(parts.variance, whole.variance)


def test_learned_frequencies_reach_a_higher_bound() -> None:
    rng = np.random.default_rng(7)
    table = rng.normal(size=(120, 2))
    labels = np.eye(2)[(np.sin(2 * table[:, 0]) > 0).astype(int)]
    bounds = []
    for learn in (False, True):
        prior = start(table, 4, rounds=10, learn_frequencies=learn)
        for _ in range(12):
            prior = prior.update(labels)
        bounds.append(float((labels * prior.log_prob()).sum()) - prior.penalty())
    assert bounds[1] > bounds[0] + 5
