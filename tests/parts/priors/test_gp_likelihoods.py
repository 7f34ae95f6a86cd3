"""Both likelihoods of the Gaussian processes, where variances are alike (a million draws) and where they are not (a fine grid).

`test_robust_max.py` has the integral itself; here are the numbers that the bound and the predictions take.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra.numpy import arrays  # noqa: E402
from tests.parts.priors.test_robust_max import by_grid  # noqa: E402

from crowdwise.parts.priors.robust_max import RobustMax, Softmax, largest_probability  # noqa: E402

N_DRAWS = 1_000_000
EPS = 1e-3


def likelihood_named(name: str, n_classes: int, n_draws: int = 32) -> torch.nn.Module:
    return RobustMax(EPS) if name == "robust-max" else Softmax(n_classes, n_draws, n_draws)


def row_of(seed: int, n_classes: int, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Means, and variances of which the largest is `ratio` times the smallest."""
    rng = np.random.default_rng(seed)
    exponent = rng.permutation(np.linspace(0, 1, n_classes))
    return rng.normal(size=n_classes), ratio ** (exponent - 0.5)


def log_share(name: str, mean: np.ndarray, variance: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of log nu, and of nu, over N_DRAWS draws: two of [2, K]."""
    rng, n_classes = np.random.default_rng(seed), len(mean)
    log_nu, nu = [], []
    for _ in range(10):
        f = rng.normal(mean, np.sqrt(variance), (N_DRAWS // 10, n_classes))
        if name == "robust-max":
            largest = f.argmax(axis=1)[:, None] == np.arange(n_classes)
            block = np.where(largest, math.log(1 - EPS), math.log(EPS / (n_classes - 1)))
        else:
            block = f - f.max(axis=1, keepdims=True)
            block = block - np.log(np.exp(block).sum(axis=1, keepdims=True))
        log_nu.append(np.stack([block.mean(axis=0), block.var(axis=0)]))
        shares = np.exp(block)
        nu.append(np.stack([shares.mean(axis=0), shares.var(axis=0)]))
    return np.mean(log_nu, axis=0), np.mean(nu, axis=0)


def answers(likelihood: torch.nn.Module, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E log nu and the predictive probabilities of one row."""
    m, v = torch.tensor(mean[None]), torch.tensor(variance[None])
    return likelihood.expected_log(m, v)[0].numpy(), likelihood.log_predictive(m, v)[0].exp().numpy()


# Between these the largest variance is 10,000 times the smallest.
WIDE = 1e4


# -- quadrature against draws and a grid ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 15])
@pytest.mark.parametrize("ratio", [1.0, 16.0])
def test_robust_max_is_the_mean_of_a_million_draws(n_classes: int, ratio: float) -> None:
    mean, variance = row_of(n_classes, n_classes, ratio)
    (expected, spread), (nu, nu_spread) = log_share("robust-max", mean, variance, 1)
    got, predicted = answers(RobustMax(EPS), mean, variance)
    np.testing.assert_array_less(np.abs(got - expected), 4.5 * np.sqrt(spread / N_DRAWS) + 1e-4)
    np.testing.assert_array_less(np.abs(predicted - nu), 4.5 * np.sqrt(nu_spread / N_DRAWS) + 1e-5)


def is_right(mean: np.ndarray, variance: np.ndarray) -> None:
    """A thousandth; every function has points of the grid of its own, however narrow it is."""
    p = by_grid(mean, variance, np.unique(mean[:, None] + np.sqrt(variance)[:, None] * np.linspace(-9, 9, 2001)))
    assert p.sum() == pytest.approx(1, abs=1e-4)
    expected = (1 - EPS) * p + EPS / (len(p) - 1) * (1 - p)
    np.testing.assert_allclose(answers(RobustMax(EPS), mean, variance)[1], expected, atol=1e-3)


# Means and variances of three functions; P(largest) by hand where it has a simple form.
UNEVEN = {
    # One of the three is all but a constant: it wins if both others are below it, a quarter of the time.
    "one narrow": ([0.0, 0.0, 0.0], [1.0, 1.0, 1e-4]),
    # Two are: the wide one wins half of the time.
    "two narrow": ([0.0, 0.0, 0.0], [1e-4, 1e-4, 1.0]),
    "narrow in front": ([1.0, 0.0, -5.0], [1e-4, 1.0, 1e-4]),
    "one wide": ([0.5, 0.0, 0.3], [1e4, 1.0, 1.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNEVEN)
def test_robust_max_holds_for_three_variances_that_differ_ten_thousandfold(name: str) -> None:
    mean, variance = (np.array(part) for part in UNEVEN[name])
    is_right(mean, variance)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 15, 40])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_robust_max_holds_for_variances_spread_over_ten_thousandfold(n_classes: int, seed: int) -> None:
    mean, variance = row_of(seed, n_classes, WIDE)
    is_right(mean, variance)


@pytest.mark.slow
def test_robust_max_holds_for_many_narrow_functions_below_a_wide_one() -> None:
    """Thirty nearly constant functions at different heights: more steps than a rule that follows the narrowest few sees."""
    mean, variance = np.linspace(-2, 2, 31), np.full(31, 1e-4)
    # Half of them so much narrower that they are the first to be followed, though the highest are not among them.
    variance[:16] = 1e-8
    variance[30] = 1.0
    mean[30] = 0.0
    is_right(mean, variance)
    # And where those that count are as high as each other.
    mean[14:30] = 1.8
    is_right(mean, variance)


@pytest.mark.slow
def test_robust_max_holds_where_the_narrowest_functions_do_not_count() -> None:
    rng = np.random.default_rng(0)
    mean = np.concatenate([rng.uniform(0.0, 0.5, 20), rng.uniform(0.6, 0.7, 10), [0.0, 0.3]])
    variance = np.concatenate([np.full(20, 1e-9), np.full(10, 1e-5), [1.0, 4.0]])
    is_right(mean, variance)


def test_a_constant_between_two_wide_functions_wins_a_quarter_of_the_time() -> None:
    """The limit by hand, without draws."""
    p = largest_probability(torch.zeros(1, 3).double(), torch.tensor([[1.0, 1.0, 1e-8]]).double())
    np.testing.assert_allclose(p[0], [0.375, 0.375, 0.25], atol=1e-3)


def test_a_constant_in_front_of_a_wide_function_wins_as_often_as_that_one_stays_behind() -> None:
    """Of f = 1 and f ~ N(0, 1) the first is larger with Phi(1) = 0.841; a third is far behind."""
    mean, variance = torch.tensor([[1.0, 0.0, -5.0]]).double(), torch.tensor([[1e-8, 1.0, 1e-8]]).double()
    np.testing.assert_allclose(largest_probability(mean, variance)[0], [0.8413, 0.1587, 0.0], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 15])
@pytest.mark.parametrize("ratio", [1.0, WIDE])
def test_softmax_is_the_mean_of_a_million_draws(n_classes: int, ratio: float) -> None:
    """Its own draws have an error too: that of plain draws is the most that quasi-random ones may have."""
    mean, variance = row_of(n_classes, n_classes, ratio)
    (expected, spread), (nu, nu_spread) = log_share("softmax", mean, variance, 1)
    for n_draws in (32, 2**14):
        got, predicted = answers(Softmax(n_classes, n_draws, n_draws), mean, variance)
        np.testing.assert_array_less(np.abs(got - expected), 4.5 * np.sqrt(spread * (1 / n_draws + 1 / N_DRAWS)) + 1e-9)
        np.testing.assert_array_less(np.abs(predicted - nu), 4.5 * np.sqrt(nu_spread * (1 / n_draws + 1 / N_DRAWS)) + 1e-9)


# -- what holds for any means and variances ---------------------------------------------------


@st.composite
def rows(draw: st.DrawFn, most: float = 1e4) -> tuple[np.ndarray, np.ndarray]:
    """Means up to `most`, and variances from the least that the process knows to a hundred million."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 6)))
    mean = draw(arrays(np.float64, shape, elements=st.floats(-most, most)))
    return mean, 10 ** draw(arrays(np.float64, shape, elements=st.floats(-10, 8)))


both = pytest.mark.parametrize("name", ["robust-max", "softmax"])


@pytest.mark.slow
@both
@settings(max_examples=60)
@given(rows())
def test_predictions_sum_to_one_and_gradients_are_finite(name: str, row: tuple[np.ndarray, np.ndarray]) -> None:
    mean, variance = (torch.tensor(part, requires_grad=True) for part in row)
    likelihood = likelihood_named(name, mean.shape[1])
    log_p, expected = likelihood.log_predictive(mean, variance), likelihood.expected_log(mean, variance)
    np.testing.assert_allclose(log_p.detach().exp().sum(1), 1, atol=1e-9)
    assert torch.isfinite(expected).all()
    assert (expected <= 1e-9).all()
    for value in torch.autograd.grad((expected * torch.arange(mean.shape[1])).sum(), (mean, variance)):
        assert torch.isfinite(value).all()


@pytest.mark.slow
@both
@settings(max_examples=60)
@given(rows(most=20))
def test_the_mean_of_the_logarithm_is_below_the_logarithm_of_the_mean(name: str, row: tuple[np.ndarray, np.ndarray]) -> None:
    mean, variance = (torch.tensor(part) for part in row)
    likelihood = likelihood_named(name, mean.shape[1])
    assert (likelihood.expected_log(mean, variance) <= likelihood.log_predictive(mean, variance) + 1e-9).all()


@pytest.mark.slow
@settings(max_examples=60)
@given(rows(most=20), st.floats(-50, 50), st.floats(-3, 3), st.randoms(use_true_random=False))
def test_which_is_largest_depends_on_neither_origin_nor_unit_nor_order(
    row: tuple[np.ndarray, np.ndarray], shift: float, log_unit: float, random: object
) -> None:
    mean, variance = (torch.tensor(part) for part in row)
    order = list(range(mean.shape[1]))
    random.shuffle(order)  # type: ignore[attr-defined]
    p, unit = largest_probability(mean, variance), math.exp(log_unit)
    np.testing.assert_allclose(largest_probability(mean[:, order], variance[:, order]), p[:, order], atol=1e-9)
    np.testing.assert_allclose(largest_probability(mean * unit, variance * unit**2), p, atol=1e-7)
    # Standard deviations of 1e-5 beside means of 50: the shift itself rounds at 1e-14.
    np.testing.assert_allclose(largest_probability(mean + shift, variance), p, atol=1e-5)


@both
@pytest.mark.parametrize("n_classes", [2, 3, 15])
def test_the_gradient_of_what_the_bound_takes_is_that_of_finite_differences(name: str, n_classes: int) -> None:
    mean, variance = (torch.tensor(part[None], requires_grad=True) for part in row_of(n_classes, n_classes, 9.0))
    assert torch.autograd.gradcheck(likelihood_named(name, n_classes).expected_log, (mean, variance), eps=1e-5, atol=2e-6)


@both
@pytest.mark.parametrize("n_classes", [2, 3, 30])
def test_single_precision_says_the_same(name: str, n_classes: int) -> None:
    mean, variance = (torch.tensor(part[None]) for part in row_of(n_classes, n_classes, 4.0))
    likelihood = likelihood_named(name, n_classes)
    double, single = (likelihood.expected_log(mean.to(kind), variance.to(kind)) for kind in (torch.float64, torch.float32))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, double, atol=1e-4)


def test_robust_max_sees_a_function_wider_than_sixteen_others() -> None:
    """It is above them for sure, hence the largest unless the one wide function is: Phi(0.06)."""
    mean = torch.tensor([[0.0] * 16 + [0.06, 0.0]]).double()
    variance = torch.tensor([[1e-10] * 16 + [1e-4, 1.0]]).double()
    np.testing.assert_allclose(largest_probability(mean, variance)[0, -2:], [0.5239, 0.4761], atol=1e-3)


@pytest.mark.parametrize("mean", [1e2, 1e4])
def test_single_precision_is_sure_of_narrow_functions_far_from_zero(mean: float) -> None:
    p = largest_probability(torch.tensor([[mean, 0.0, 1.0]]), torch.full((1, 3), 1e-10))
    np.testing.assert_allclose(p, [[1, 0, 0]], atol=1e-6)
