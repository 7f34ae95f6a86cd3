from __future__ import annotations

import numpy as np
import pytest

from crowdwise.trust.audit.exponent import update_exponent


def tempered(n: int, gamma: float, shift: list[float], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posteriors of a model and classes drawn from them after tempering by L^gamma and a shift of the classes."""
    rng = np.random.default_rng(seed)
    votes = rng.integers(1, 12, n)
    log_q = rng.normal(size=(n, len(shift))) * votes[:, None]
    model = np.exp(log_q - log_q.max(axis=1, keepdims=True))
    model /= model.sum(axis=1, keepdims=True)
    score = np.log(np.maximum(model, 1e-300)) / votes[:, None] ** gamma + np.array(shift)
    q = np.exp(score - score.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    truth = np.array([rng.choice(len(shift), p=row) for row in q])
    return model, votes, truth


def test_without_checks_the_prior_stays() -> None:
    model, votes, _ = tempered(50, 0.5, [0, 0], 0)
    found = update_exponent(model, votes, np.array([], int), np.array([], int), mean=0.6, sd=0.1)
    assert found.mean == pytest.approx(0.6, abs=1e-3)
    assert found.sd == pytest.approx(0.1, abs=1e-3)
    assert found.posterior.sum(axis=1) == pytest.approx(1)
    assert (found.intercept == 0).all()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_many_checks_find_the_exponent(gamma: float) -> None:
    model, votes, truth = tempered(2000, gamma, [0, 0, 0], 1)
    found = update_exponent(model, votes, np.arange(2000), truth)
    assert abs(found.mean - gamma) < 0.1
    assert found.sd < 0.05


def test_the_mean_over_the_grid_is_bayes_rule() -> None:
    """One class each with few checks: no intercepts, so the posterior of gamma is likelihood times prior, summed by hand."""
    model, votes, truth = tempered(8, 0.5, [0, 0], 2)
    found = update_exponent(model, votes, np.arange(8), truth)
    grid = np.linspace(-0.2, 1.4, 4001)
    density = np.exp(-0.5 * ((grid - 0.55) / 0.2) ** 2)
    for g, gamma in enumerate(grid):
        q = model ** (1 / votes[:, None] ** gamma)
        q /= q.sum(axis=1, keepdims=True)
        density[g] *= q[np.arange(8), truth].prod()
    density /= density.sum()
    assert found.mean == pytest.approx(density @ grid, abs=2e-3)


def test_a_class_that_is_predicted_too_rarely_gets_an_intercept() -> None:
    model, votes, truth = tempered(1500, 0.5, [0.0, 0.8], 3)
    found = update_exponent(model, votes, np.arange(1500), truth)
    assert found.intercept[1] - found.intercept[0] == pytest.approx(0.8, abs=0.3)


def test_one_class_alone_and_hard_zeros() -> None:
    found = update_exponent(np.ones((3, 1)), np.array([1, 2, 0]), np.array([0]), np.array([0]))
    assert found.posterior.tolist() == [[1], [1], [1]]
    hard = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = update_exponent(hard, np.array([3, 3]), np.array([0]), np.array([1]))
    assert np.isfinite(found.posterior).all()
