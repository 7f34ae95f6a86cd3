"""The sparse Gaussian process against dense formulas, and its natural steps against the exact answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from crowdwise.errors import SettingError
from crowdwise.parts.priors.covariance import covariance
from crowdwise.parts.priors.robust_max import RobustMax
from crowdwise.parts.priors.sparse_gp import SparseGP


def rows(seed: int, n_rows: int, n_columns: int = 2) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).normal(size=(n_rows, n_columns)))


def rbf(variance: float = 1.5, lengthscale: float = 0.7) -> torch.nn.Module:
    return covariance("rbf", 2, lengthscale=lengthscale, variance=variance).double()


# -- covariances ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rbf", "matern", "linear"])
def test_a_covariance_is_its_formula(name: str) -> None:
    made = covariance(name, 2, lengthscale=0.7, variance=1.5).double()
    a, b = rows(0, 3), rows(1, 4)
    for i in range(3):
        for j in range(4):
            x, y = a[i].numpy() / 0.7, b[j].numpy() / 0.7
            r = math.dist(x, y)
            expected = {
                "rbf": 1.5 * math.exp(-(r**2) / 2),
                "matern": 1.5 * (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r),
                "linear": 1.5 * (1 + float(x @ y)),
            }[name]
            assert made(a, b)[i, j].item() == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(made.diagonal(a).detach(), made(a, a).diagonal().detach(), rtol=1e-5)


def test_sums_and_products_are_made_products_first() -> None:
    one, two = (covariance(name, 2, lengthscale=0.7, variance=1.5).double() for name in ("rbf", "linear"))
    a, b = rows(0, 3), rows(1, 4)
    both = covariance("linear+rbf*linear", 2, lengthscale=0.7, variance=1.5).double()
    expected = two(a, b) + one(a, b) * two(a, b)
    np.testing.assert_allclose(both(a, b).detach(), expected.detach(), rtol=1e-6)
    np.testing.assert_allclose(both.diagonal(a).detach(), both(a, a).diagonal().detach(), rtol=1e-6)


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(SettingError, match="kernel must be made of rbf, matern, linear"):
        covariance("rbf+cosine", 2, lengthscale=1.0)
    with pytest.raises(SettingError, match="a name or a GPyTorch kernel"):
        covariance(3, 2, lengthscale=1.0)


def test_one_length_scale_per_column() -> None:
    made = covariance("rbf", 2, lengthscale=1.0, ard=True).double()
    made.log_lengthscale.data = torch.tensor([0.0, math.log(1e6)], dtype=torch.float64)
    a = torch.tensor([[0.0, 0.0], [0.0, 5.0], [1.0, 0.0]], dtype=torch.float64)
    np.testing.assert_allclose(made(a, a)[0].detach(), [1, 1, math.exp(-0.5)], rtol=1e-6)


# -- the process ------------------------------------------------------------------------------


def process(n_inducing: int = 4, n_classes: int = 3) -> SparseGP:
    made = SparseGP(rbf(), RobustMax(), rows(5, n_inducing), n_classes)
    rng = np.random.default_rng(7)
    for k in range(n_classes):
        root = np.tril(rng.normal(size=(n_inducing, n_inducing)))
        root[np.diag_indices(n_inducing)] = np.exp(root[np.diag_indices(n_inducing)] / 3)
        made.root_kmm[k] = torch.tensor(root)
    made.mean_km.copy_(torch.tensor(rng.normal(size=(n_classes, n_inducing))))
    return made


def test_moments_are_those_of_the_dense_formula() -> None:
    """q(f) = N(K_xu K_uu^-1 m_u, K_xx - K_xu K_uu^-1 (K_uu - S_u) K_uu^-1 K_ux) with m_u = L m and S_u = L S L'."""
    made, x = process(), rows(9, 5)
    kernel = rbf()
    k_uu = (kernel(made.inducing, made.inducing) + 1.5e-6 * torch.eye(4)).detach().numpy()
    k_xu, k_xx = kernel(x, made.inducing).detach().numpy(), kernel(x, x).detach().numpy()
    factor, solve = np.linalg.cholesky(k_uu), k_xu @ np.linalg.inv(k_uu)
    mean, variance = (value.detach().numpy() for value in made.moments(x))
    for k in range(3):
        spread = factor @ made.root_kmm[k].numpy() @ made.root_kmm[k].numpy().T @ factor.T
        np.testing.assert_allclose(mean[:, k], solve @ factor @ made.mean_km[k].numpy(), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(variance[:, k], np.diag(k_xx - solve @ (k_uu - spread) @ solve.T), rtol=1e-5, atol=1e-8)


def test_kl_is_that_of_two_gaussians() -> None:
    made = process()
    q = [torch.distributions.MultivariateNormal(made.mean_km[k], made.root_kmm[k] @ made.root_kmm[k].T) for k in range(3)]
    p = torch.distributions.MultivariateNormal(torch.zeros(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64))
    expected = sum(float(torch.distributions.kl_divergence(one, p)) for one in q)
    assert float(made.kl()) == pytest.approx(expected, rel=1e-9)


def test_a_natural_step_of_size_one_solves_gaussian_regression() -> None:
    """For E log N(y; f, noise) the bound is quadratic: one full step lands on the exact posterior of v."""
    made, x, noise = SparseGP(rbf(), RobustMax(), rows(5, 4), 1), rows(9, 20), 0.3
    y = torch.tensor(np.random.default_rng(3).normal(size=(20, 1)))
    mean, _ = made.moments(x)
    by_mean, by_variance = (y - mean.detach()) / noise, torch.full((20, 1), -0.5 / noise, dtype=torch.float64)
    made.natural_step(made.projected.detach(), mean.detach(), by_mean, by_variance, 1.0)
    b = made.projected.detach().numpy()
    precision = np.eye(4) + b.T @ b / noise
    np.testing.assert_allclose(made.precision_kmm[0], precision, rtol=1e-9)
    np.testing.assert_allclose(made.mean_km[0], np.linalg.solve(precision, b.T @ y.numpy()[:, 0] / noise), rtol=1e-8)
    np.testing.assert_allclose((made.root_kmm[0] @ made.root_kmm[0].T), np.linalg.inv(precision), rtol=1e-8)


def test_small_natural_steps_raise_the_bound() -> None:
    """sum_n E log nu_{z_n} - KL under known labels, full batch."""
    made, x = SparseGP(rbf(), RobustMax(), rows(5, 8), 3), rows(9, 60)
    label = (x[:, 0] > 0.3).long() + (x[:, 1] > 0.3).long()
    one_hot = torch.nn.functional.one_hot(label, 3).double()
    bounds = []
    for _ in range(40):
        mean, variance = (value.detach().requires_grad_() for value in made.moments(x))
        total = (one_hot * made.likelihood.expected_log(mean, variance)).sum()
        bounds.append(float(total.detach() - made.kl()))
        by_mean, by_variance = torch.autograd.grad(total, (mean, variance))
        made.natural_step(made.projected.detach(), mean.detach(), by_mean, by_variance, 0.1)
    assert (np.diff(bounds) > -1e-9).all()
    assert bounds[-1] > bounds[0] + 50


def test_duplicate_inducing_points_are_met_with_jitter() -> None:
    made = SparseGP(rbf(), RobustMax(), torch.zeros(5, 2, dtype=torch.float64), 3)
    mean, variance = made.moments(rows(0, 3))
    assert torch.isfinite(mean).all()
    assert (variance > 0).all()


def test_evaluation_answers_with_log_probabilities() -> None:
    made = process().eval()
    np.testing.assert_allclose(made(rows(0, 6)).exp().sum(1).detach(), 1, atol=1e-9)
    assert made.train()(rows(0, 6)).shape == (6, 6)


@pytest.mark.slow
def test_a_diagonal_posterior_is_the_best_independent_one() -> None:
    """For Gaussian regression: the exact mean, and one over the diagonal of the precision as variances."""
    made, x, noise = SparseGP(rbf(), RobustMax(), rows(5, 4), 1, diagonal=True), rows(9, 20), 0.3
    y = torch.tensor(np.random.default_rng(3).normal(size=(20, 1)))
    by_variance = torch.full((20, 1), -0.5 / noise, dtype=torch.float64)
    for _ in range(2000):
        mean = made.moments(x)[0].detach()
        made.natural_step(made.projected.detach(), mean, (y - mean) / noise, by_variance, 0.2)
    b = made.projected.detach().numpy()
    precision = np.eye(4) + b.T @ b / noise
    np.testing.assert_allclose(made.mean_km[0], np.linalg.solve(precision, b.T @ y.numpy()[:, 0] / noise), rtol=1e-6)
    spread = made.root_kmm[0] @ made.root_kmm[0].T
    np.testing.assert_allclose(spread, np.diag(1 / np.diag(precision)), rtol=1e-9)
    _, variance = made.moments(x)
    outside = made.covariance.diagonal(x).detach().numpy() - (b**2).sum(axis=1)
    np.testing.assert_allclose(variance[:, 0].detach(), outside + (b**2) @ spread.diagonal().numpy(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("diagonal", [False, True])
def test_an_optimiser_finds_the_posterior_of_the_natural_steps(diagonal: bool) -> None:
    x = rows(9, 60)
    label = (x[:, 0] > 0.3).long() + (x[:, 1] > 0.3).long()
    one_hot = torch.nn.functional.one_hot(label, 3).double()

    def total(made: SparseGP) -> torch.Tensor:
        return (one_hot * made.likelihood.expected_log(*made.moments(x))).sum()

    natural = SparseGP(rbf(), RobustMax(), rows(5, 6), 3, diagonal=diagonal)
    for _ in range(300):
        mean, variance = (value.detach().requires_grad_() for value in natural.moments(x))
        value = (one_hot * natural.likelihood.expected_log(mean, variance)).sum()
        natural.natural_step(natural.projected.detach(), mean.detach(), *torch.autograd.grad(value, (mean, variance)), 0.1)
    free = SparseGP(rbf(), RobustMax(), rows(5, 6), 3, diagonal=diagonal, natural=False)
    optimiser = torch.optim.LBFGS([free.mean_km, free.root_kmm], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = free.kl() - total(free)
        value.backward()
        return value

    optimiser.step(loss)
    with torch.no_grad():
        assert float(total(free) - free.kl()) == pytest.approx(float(total(natural) - natural.kl()), rel=1e-4)
    if diagonal:
        assert torch.equal(free._root(), free._root().diagonal(dim1=1, dim2=2).diag_embed())
