"""Which of K Gaussians is the largest: against draws, a fine grid, finite differences and hand formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from scipy.stats import norm

from crowdwise.parts.priors.robust_max import RobustMax, Softmax, largest_probability


def some(seed: int, n_rows: int, n_classes: int, ratio: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Means, and variances whose standard deviations differ by up to `ratio`."""
    rng = np.random.default_rng(seed)
    sd = np.exp(rng.uniform(0, math.log(ratio), (n_rows, n_classes)))
    return torch.tensor(rng.normal(size=(n_rows, n_classes))), torch.tensor(sd**2)


def by_grid(mean: np.ndarray, variance: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
    """P(largest) by the trapezoid rule on the points `x`, 20,001 even ones by default."""
    sd = np.sqrt(variance)
    if x is None:
        x = np.linspace((mean - 9 * sd).min(), (mean + 9 * sd).max(), 20_001)
    below = ndtr((x - mean[:, None]) / sd[:, None])
    density = [norm.pdf(x, m, s) for m, s in zip(mean, sd, strict=True)]
    return np.array([np.trapezoid(density[k] * np.delete(below, k, axis=0).prod(axis=0), x) for k in range(len(mean))])


@pytest.mark.slow
@pytest.mark.parametrize(("ratio", "error"), [(1.0, 1e-6), (3.0, 1e-6), (10.0, 1e-6), (100.0, 1e-6)])
@pytest.mark.parametrize("n_classes", [3, 6, 15])
def test_quadrature_agrees_with_a_fine_grid(n_classes: int, ratio: float, error: float) -> None:
    mean, variance = some(n_classes, 12, n_classes, ratio)
    expected = np.stack([by_grid(m, v) for m, v in zip(mean.numpy(), variance.numpy(), strict=True)])
    np.testing.assert_allclose(largest_probability(mean, variance), expected, atol=error)


def test_two_classes_have_the_closed_form() -> None:
    mean, variance = torch.tensor([[1.0, -0.5]], dtype=torch.float64), torch.tensor([[2.0, 7.0]], dtype=torch.float64)
    assert largest_probability(mean, variance)[0, 0].item() == pytest.approx(norm.cdf(1.5 / 3), abs=1e-14)


def test_one_class_is_certain() -> None:
    assert largest_probability(torch.zeros(2, 1), torch.ones(2, 1)).tolist() == [[1.0], [1.0]]


def test_draws_agree_within_their_error() -> None:
    mean, variance = some(0, 3, 5)
    draws = np.random.default_rng(1).normal(mean.numpy(), np.sqrt(variance.numpy()), (200_000, 3, 5)).argmax(axis=2)
    share = np.stack([(draws == k).mean(axis=0) for k in range(5)], axis=1)
    np.testing.assert_allclose(largest_probability(mean, variance), share, atol=5 * math.sqrt(0.25 / 200_000))


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_gradient_is_that_of_finite_differences(n_classes: int) -> None:
    mean, variance = some(n_classes, 4, n_classes)
    assert torch.autograd.gradcheck(largest_probability, (mean.requires_grad_(), variance.requires_grad_()), atol=1e-6)


def test_far_apart_means_are_certain_and_finite() -> None:
    mean = torch.tensor([[1e4, 0.0, -1e4]], dtype=torch.float64, requires_grad=True)
    p = largest_probability(mean, torch.full((1, 3), 1e-10, dtype=torch.float64))
    np.testing.assert_allclose(p.detach(), [[1, 0, 0]], atol=1e-12)
    p[0, 0].backward()
    assert torch.isfinite(mean.grad).all()


def test_robust_max_gives_the_rest_to_the_others() -> None:
    mean, variance = some(3, 4, 4)
    p, likelihood = largest_probability(mean, variance), RobustMax(0.01)
    np.testing.assert_allclose(likelihood.expected_log(mean, variance), p * math.log(0.99) + (1 - p) * math.log(0.01 / 3))
    np.testing.assert_allclose(likelihood.log_predictive(mean, variance).exp(), p * 0.99 + (1 - p) * 0.01 / 3, atol=1e-12)


@pytest.mark.slow
def test_softmax_draws_agree_with_many() -> None:
    mean, variance = some(4, 3, 4)
    draws = np.random.default_rng(0).normal(mean.numpy(), np.sqrt(variance.numpy()), (400_000, 3, 4))
    log_p = draws - np.log(np.exp(draws).sum(axis=2, keepdims=True))
    likelihood = Softmax(4)
    np.testing.assert_allclose(likelihood.expected_log(mean, variance), log_p.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(likelihood.log_predictive(mean, variance).exp(), np.exp(log_p).mean(axis=0), atol=0.01)
    np.testing.assert_allclose(likelihood.log_predictive(mean, variance).exp().sum(1), 1, atol=1e-12)
