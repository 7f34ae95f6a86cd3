from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from crowdwise.kernels.gamma import digamma, log_gamma
from crowdwise.kernels.types import Floats


@pytest.fixture
def points() -> Floats:
    rng = np.random.default_rng(0)
    wide, usual = 10 ** rng.uniform(-300, 30, 5000), 10 ** rng.uniform(-6, 6, 5000)
    # Where one of the two is near zero, and where halves and whole numbers have closed forms.
    return np.concatenate([wide, usual, rng.uniform(0.9, 2.1, 5000), np.arange(1, 200) / 2])


def test_both_agree_with_scipy(points: Floats) -> None:
    for ours, theirs in ((digamma, special.digamma), (log_gamma, special.gammaln)):
        expected = theirs(points)
        assert (np.abs(ours(points) - expected) <= 1e-14 * np.maximum(1, np.abs(expected))).all()


def test_closed_forms() -> None:
    half, whole = np.array([0.5]), np.arange(1.0, 20.0)
    harmonic = np.array([math.fsum(1 / i for i in range(1, int(n))) for n in whole])
    np.testing.assert_allclose(digamma(half), -np.euler_gamma - 2 * math.log(2), rtol=1e-15)
    np.testing.assert_allclose(digamma(whole), harmonic - np.euler_gamma, rtol=0, atol=4e-15)
    np.testing.assert_allclose(log_gamma(half), math.log(math.pi) / 2, rtol=0, atol=1e-14)
    np.testing.assert_allclose(log_gamma(whole), [math.lgamma(n) for n in whole], rtol=1e-14, atol=1e-14)


def test_shapes_are_kept_and_input_is_left_alone() -> None:
    x = np.full((2, 3, 1), 2.5)
    assert digamma(x).shape == log_gamma(x).shape == (2, 3, 1)
    assert digamma(np.float64(2.5)).shape == ()
    assert digamma(np.empty((0, 2))).shape == (0, 2)
    assert (x == 2.5).all()
