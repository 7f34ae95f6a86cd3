from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from scipy.sparse import csr_array
from scipy.special import expit
from scipy.stats import norm

from crowdwise.parts.priors.logistic_gp import (
    LogisticGP,
    SquaredExponential,
    climb,
    condition,
    curvature,
    expected_log_sigmoid,
    log_mean_sigmoid,
    log_normaliser,
    median_distance,
    squared_distances,
)


def small(seed: int, n_items: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Features and soft labels."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.05, 0.95, n_items)
    return rng.normal(size=(n_items, 2)), np.column_stack([1 - share, share])


def test_the_kernel_is_the_formula() -> None:
    left, right = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0.0, 1.0]])
    squares = squared_distances(left, right)
    np.testing.assert_allclose(squares, [[1.0], [18.0]])
    np.testing.assert_allclose(SquaredExponential(2.0, 3.0)(squares), 2 * np.exp([[-1 / 18], [-1.0]]))
    np.testing.assert_allclose(squared_distances(csr_array(left), csr_array(right)), squares)


def test_the_length_starts_at_the_median_distance() -> None:
    assert median_distance(np.array([[0.0], [1.0], [5.0]])) == pytest.approx(4.0)
    assert median_distance(np.ones((5, 3))) == 1.0
    assert median_distance(np.zeros((1, 2))) == 1.0


def test_conditioning_is_that_of_a_gaussian() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    covariance, precision, natural = root @ root.T, np.array([0.2, 0.0, 3.0, 0.7]), rng.normal(size=4)
    spread = np.linalg.inv(np.linalg.inv(covariance) + np.diag(precision))
    done = condition(covariance, precision, natural)
    np.testing.assert_allclose(done.mean, spread @ natural)
    np.testing.assert_allclose(done.variance, np.diagonal(spread))
    np.testing.assert_allclose(done.weights, np.linalg.solve(covariance, spread @ natural))
    inverse = np.linalg.inv(covariance)
    log_dets = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(spread)[1]
    divergence = 0.5 * (np.trace(inverse @ spread) + done.mean @ inverse @ done.mean - 4 + log_dets)
    assert done.divergence == pytest.approx(divergence)
    # log of the integral of N(f; 0, K) exp(natural f - f' diag(precision) f / 2)
    assert done.log_normaliser == pytest.approx(0.5 * natural @ spread @ natural - 0.5 * log_dets)


def test_a_singular_covariance_is_no_trouble() -> None:
    """Five copies of one row are one row with five sites."""
    many = condition(np.full((5, 5), 2.0), np.full(5, 0.3), np.full(5, 0.4))
    one = condition(np.full((1, 1), 2.0), np.array([1.5]), np.array([2.0]))
    np.testing.assert_allclose(many.mean, one.mean[0])
    np.testing.assert_allclose(many.variance, one.variance[0])
    assert many.divergence == pytest.approx(one.divergence)


def test_the_slope_by_the_kernel_is_that_of_finite_differences() -> None:
    rng = np.random.default_rng(1)
    squares = squared_distances(rng.normal(size=(7, 3)))
    precision, natural, point = rng.uniform(0, 2, 7), rng.normal(size=7), np.array([0.7, 0.3])
    value, slope = log_normaliser(squares, point, precision, natural)
    assert value == pytest.approx(condition(SquaredExponential(*np.exp(point))(squares), precision, natural).log_normaliser)

    def at(where: Any) -> float:
        return log_normaliser(squares, where, precision, natural)[0]

    np.testing.assert_allclose(slope, approx_fprime(point, at, 1e-6), rtol=1e-4, atol=1e-6)


def test_the_bound_on_the_link_touches_at_xi_and_lies_below_elsewhere() -> None:
    # lambda(xi) = tanh(xi / 2) / (4 xi), with 1/8 at zero.
    np.testing.assert_allclose(curvature(np.array([0.0, 1e-12, 2.0])), [0.25, 0.25, np.tanh(1.0) / 4])
    f = np.linspace(-6, 6, 41)
    for xi in (0.1, 1.0, 4.0):
        below = f / 2 - np.log(2 * np.cosh(xi / 2)) - curvature(np.array([xi]))[0] / 2 * (f**2 - xi**2)
        assert (below <= np.log(expit(f)) + 1e-12).all()
    # Without variance, it is log sigmoid itself.
    np.testing.assert_allclose(expected_log_sigmoid(f, np.zeros_like(f)), np.log(np.column_stack([expit(-f), expit(f)])))


def test_the_expected_log_is_the_best_bound_over_xi() -> None:
    mean, variance = 0.8, 1.7
    xi = np.linspace(0.01, 6, 4001)
    second = mean**2 + variance
    best = (mean / 2 - np.log(2 * np.cosh(xi / 2)) - curvature(xi) / 2 * (second - xi**2)).max()
    both = expected_log_sigmoid(np.array([mean]), np.array([variance]))[0]
    assert both[1] == pytest.approx(best, abs=1e-6)
    assert both[0] == pytest.approx(best - mean, abs=1e-6)


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (2.0, 0.01), (-3.0, 10.0), (5.0, 100.0)])
def test_the_mean_of_the_link_is_its_integral(mean: float, variance: float) -> None:
    deviation = np.sqrt(variance)
    edges = mean - 9 * deviation, mean + 9 * deviation
    integral = quad(lambda f: expit(f) * norm.pdf(f, mean, deviation), *edges, limit=400, points=[0.0, mean])[0]
    found = np.exp(log_mean_sigmoid(np.array([mean]), np.array([variance])))[0]
    assert found[1] == pytest.approx(integral, abs=1e-6)
    assert found.sum() == pytest.approx(1)


def test_q_of_f_maximises_the_bound_found_by_a_general_optimiser() -> None:
    """Over all Gaussians and all xi, with nothing but the definition of the bound."""
    features, labels = small(3, 3)
    kernel = SquaredExponential(4.0, 1.3)
    covariance = kernel(squared_distances(features))
    inverse, below = np.linalg.inv(covariance), np.tril_indices(3)

    def negative_bound(point: np.ndarray) -> float:
        mean, xi, factor = point[:3], point[3:6], np.zeros((3, 3))
        factor[below] = point[6:]
        spread = factor @ factor.T
        second = mean**2 + np.diagonal(spread)
        link = -np.log(2 * np.cosh(xi / 2)) - np.tanh(xi / 2) / (4 * xi) * (second - xi**2)
        expected = ((labels[:, 1] - 0.5) * mean + link).sum()
        log_dets = np.linalg.slogdet(covariance)[1] - 2 * np.log(np.abs(np.diagonal(factor))).sum()
        return float(0.5 * (np.trace(inverse @ spread) + mean @ inverse @ mean - 3 + log_dets) - expected)

    best = minimize(negative_bound, np.concatenate([np.zeros(3), np.ones(3), np.linalg.cholesky(covariance)[below]]))
    prior = LogisticGP.start(features, rounds=0)
    prior = LogisticGP(**(vars(prior) | {"kernel": kernel}))
    for _ in range(200):
        prior = prior.update(labels)
    np.testing.assert_allclose(prior.state.mean, best.x[:3], atol=1e-4)
    np.testing.assert_allclose(np.abs(best.x[3:6]), prior.xi, atol=1e-3)
    assert (labels * prior.log_prob()).sum() - prior.penalty() == pytest.approx(-best.fun, abs=1e-7)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(0, 3))
@settings(max_examples=25)
def test_no_update_lets_the_bound_fall(seed: int, n_items: int, rounds: int) -> None:
    features, labels = small(seed, n_items)
    prior, last = LogisticGP.start(features, rounds=rounds), -np.inf
    for _ in range(8):
        prior = prior.update(labels)
        value = float((labels * prior.log_prob()).sum()) - prior.penalty()
        assert value >= last - 1e-9 * abs(value)
        last = value


def test_a_climb_that_fails_stays_where_it_was() -> None:
    start = np.array([1.0])
    # The slope lies, so every step goes down.
    assert climb(lambda x: (-float(x[0] ** 2), 2 * x), start, [(-5, 5)], 3) is start
    assert climb(lambda x: (-float(x[0] ** 2), -2 * x), start, [(-5, 5)], 10)[0] == pytest.approx(0, abs=1e-6)


def test_the_kernel_learns_the_length_that_made_the_labels() -> None:
    """Labels that flip every 1 and every 8: the longer the waves, the longer the length."""
    x = np.linspace(-10, 10, 200)[:, None]
    lengths = []
    for wave in (1.0, 8.0):
        labels = np.eye(2)[(np.floor(x[:, 0] / wave) % 2).astype(int)]
        prior = LogisticGP.start(x, rounds=8)
        for _ in range(8):
            prior = prior.update(labels)
        lengths.append(prior.kernel.length)
    assert 0.2 < lengths[0] < 1 < lengths[1] < 10
