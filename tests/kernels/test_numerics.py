"""Shared numerics against scipy, high precision and hand computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from crowdwise.errors import SettingError
from crowdwise.kernels.numerics import (
    best_class,
    clamp,
    dirichlet_kl,
    expected_log,
    generator,
    harden,
    log_floored,
    log_sigmoid,
    softmax_into,
)

NONE_KNOWN = np.empty(0, np.int16)
parameters = st.lists(st.floats(0.05, 50), min_size=1, max_size=5)


def test_log_floored_is_finite_at_zero_and_exact_elsewhere() -> None:
    values = np.array([0.0, 1e-310, 1e-300, 1e-12, 0.5, 1.0])
    np.testing.assert_allclose(log_floored(values), [math.log(1e-300)] * 3 + [math.log(1e-12), math.log(0.5), 0.0])


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=4))
def test_softmax_equals_scipy_and_reports_its_normaliser(rows: list[list[float]]) -> None:
    scores = np.array(rows)
    before = np.full(scores.shape, 1 / 3)
    posterior = before.copy()
    evidence, change = softmax_into(scores.copy(), NONE_KNOWN, posterior)
    np.testing.assert_allclose(posterior, special.softmax(scores, axis=1), atol=1e-14)
    assert evidence == pytest.approx(special.logsumexp(scores, axis=1).sum(), rel=1e-12, abs=1e-12)
    # The share of probability that moved: what rows gained, which is what they lost.
    assert change == pytest.approx(np.maximum(posterior - before, 0).sum(), abs=1e-12)


def test_softmax_fixes_known_rows_and_counts_their_joint_probability() -> None:
    scores = np.log([[0.1, 0.3], [0.2, 0.6]])
    posterior = np.zeros((2, 2))
    evidence, _ = softmax_into(scores, np.array([-1, 0], np.int16), posterior)
    np.testing.assert_allclose(posterior, [[0.25, 0.75], [1, 0]])
    assert evidence == pytest.approx(math.log(0.4) + math.log(0.2))


@given(parameters)
def test_expected_log_equals_the_derivative_of_the_dirichlet_normaliser(values: list[float]) -> None:
    # d/da_i log B(a) = E[log p_i] for the Dirichlet, an exponential family.
    a = np.array(values)

    def log_normaliser(x: np.ndarray) -> float:
        return float(special.gammaln(x).sum() - special.gammaln(x.sum()))

    for i, expected in enumerate(expected_log(a, 0)):
        h = 1e-5 * a[i]
        step = np.eye(len(a))[i] * h
        slope = (log_normaliser(a + step) - log_normaliser(a - step)) / (2 * h)
        assert slope == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("p", "q"), [((2.0, 3.0), (1.0, 1.0)), ((0.7, 4.0), (5.0, 2.0)), ((30.0, 2.0), (1.5, 0.8))])
def test_dirichlet_kl_equals_its_integral(p: tuple[float, float], q: tuple[float, float]) -> None:
    p_density, q_density = stats.beta(*p), stats.beta(*q)
    expected, _ = integrate.quad(lambda x: p_density.pdf(x) * (p_density.logpdf(x) - q_density.logpdf(x)), 0, 1, limit=200)
    assert dirichlet_kl(np.array([p]), np.array([q]), 1) == pytest.approx(expected, rel=1e-6)


def test_dirichlet_kl_sums_over_all_rows_and_spreads_a_shared_prior() -> None:
    rng = np.random.default_rng(0)
    beta, prior = rng.random((3, 4, 2)) + 0.5, rng.random((1, 4, 2)) + 0.5
    one_by_one = sum(dirichlet_kl(beta[a, :, k], prior[0, :, k], 0) for a in range(3) for k in range(2))
    assert dirichlet_kl(beta, prior, 1) == pytest.approx(one_by_one)
    assert dirichlet_kl(beta, beta, 1) == pytest.approx(0.0, abs=1e-12)


@given(st.floats(-1e4, 1e4))
def test_log_sigmoid_equals_scipy_without_overflow(x: float) -> None:
    assert log_sigmoid(np.array([x]))[0] == pytest.approx(float(special.log_expit(x)), rel=1e-12, abs=1e-300)


def test_ties_go_to_the_larger_prior_then_to_the_lowest_index() -> None:
    posterior = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3], [0.4, 0.4 + 1e-12, 0.2], [0.3, 0.3, 0.4]])
    assert best_class(posterior, np.array([0.3, 0.2, 0.5])).tolist() == [0, 2, 2, 0, 2]
    assert best_class(posterior, np.full(3, 1 / 3)).tolist() == [0, 1, 0, 0, 2]
    # A prior that differs by rounding only does not decide.
    assert best_class(posterior[:1], np.array([0.3, 0.3 + 1e-13, 0.4])).tolist() == [0]


def test_harden_and_clamp() -> None:
    posterior = np.array([[0.2, 0.8], [0.5, 0.5]])
    np.testing.assert_array_equal(harden(posterior), [[0, 1], [1, 0]])
    clamp(posterior, np.array([-1, 1], np.int16))
    np.testing.assert_array_equal(posterior, [[0.2, 0.8], [0, 1]])


def test_a_generator_repeats_by_its_seed_and_wrong_seeds_are_named() -> None:
    assert generator(3).random() == generator(3).random() != generator(4).random()
    generator(None).random()
    for wrong in (-1, 0.5, "seed"):
        with pytest.raises(SettingError, match="random_state must be None or a whole number"):
            generator(wrong)
