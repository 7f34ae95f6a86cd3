"""A kernel of its own for every class: against the shared one where they are equal, and dense formulas where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.engines.gradient.helpers import batch_of, even, votes_on  # noqa: E402

from crowdwise.parts.heads.process import ProcessHead  # noqa: E402
from crowdwise.parts.priors.covariance import PerClass, covariance  # noqa: E402
from crowdwise.parts.priors.flow_gp import FlowGP  # noqa: E402
from crowdwise.parts.priors.robust_max import RobustMax, Softmax  # noqa: E402
from crowdwise.parts.priors.sparse_gp import SparseGP  # noqa: E402

# Variance and length scales of the classes.
OWN = ((1.5, (0.7, 1.1)), (0.4, (2.0, 0.3)), (2.5, (1.2, 1.3)))


def rows(seed: int, n_rows: int) -> Any:
    return torch.tensor(np.random.default_rng(seed).normal(size=(n_rows, 2)))


def process(kernel: str, *, own: bool, flows: bool = False, **more: Any) -> SparseGP:
    made = covariance(kernel, 2, lengthscale=0.9, variance=1.5, ard=True).double()
    made = PerClass(made, 3) if own else made
    if flows:
        torch.manual_seed(0)
        return FlowGP(made, RobustMax(), rows(5, 4), 3, n_layers=2, n_draws=4, **more)
    return SparseGP(made, RobustMax(), rows(5, 4), 3, **more)


def taught(made: SparseGP) -> SparseGP:
    """After natural steps towards arbitrary gradients."""
    rng = np.random.default_rng(3)
    for seed in range(3):
        mean = made.moments(rows(seed, 20))[0].detach()
        by_mean, by_variance = (torch.tensor(rng.normal(size=(20, 3)) - shift) for shift in (0, 1))
        made.natural_step(made.projected.detach(), mean, by_mean, by_variance, 0.3)
    return made


def different(made: SparseGP) -> SparseGP:
    assert isinstance(made.covariance, PerClass)
    for kernel, (variance, scales) in zip(made.covariance.of_class, OWN, strict=True):
        kernel.log_variance.data = torch.tensor(variance, dtype=torch.float64).log()
        kernel.log_lengthscale.data = torch.tensor(scales, dtype=torch.float64).log()
    return made


@pytest.mark.parametrize("kernel", ["rbf", "matern", "linear", "rbf+linear*matern"])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("flows", [False, True])
@torch.no_grad()
def test_kernels_that_are_equal_are_the_shared_one(kernel: str, diagonal: bool, flows: bool) -> None:
    shared, own = (taught(process(kernel, own=own, diagonal=diagonal, flows=flows)) for own in (False, True))
    for one in (shared, own):
        if flows:
            for parameter in one.flows.parameters():  # type: ignore[union-attr]
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
            one.flowing.fill_(True)  # type: ignore[operator]
    close = {"rtol": 1e-10, "atol": 1e-10}
    assert own._projection(rows(9, 6)).shape == (3, 6, 4)
    for name in ("precision_kmm", "weighted_km", "mean_km", "root_kmm"):
        torch.testing.assert_close(getattr(own, name), getattr(shared, name), **close)
    for found, expected in zip(own.latent(rows(9, 6)), shared.latent(rows(9, 6)), strict=True):
        torch.testing.assert_close(found, expected, **close)
    torch.testing.assert_close(own.whole_kl(), shared.whole_kl(), **close)
    torch.testing.assert_close(own.expected_log(rows(9, 6)), shared.expected_log(rows(9, 6)), **close)
    torch.testing.assert_close(own.joint(rows(9, 6)), shared.joint(rows(9, 6)), **close)
    torch.testing.assert_close(own.eval()(rows(9, 6)), shared.eval()(rows(9, 6)), **close)


def dense(made: SparseGP, x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of function k: K_xu K_uu^-1 m_u and K_xx - K_xu K_uu^-1 (K_uu - S_u) K_uu^-1 K_ux."""
    variance, scales = OWN[k]

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return variance * np.exp(-(((a[:, None] - b) / np.array(scales)) ** 2).sum(axis=2) / 2)

    points = made.inducing.detach().numpy()
    k_uu, k_xu = kernel(points, points) + 1e-6 * variance * np.eye(len(points)), kernel(x, points)
    factor, solve = np.linalg.cholesky(k_uu), k_xu @ np.linalg.inv(k_uu)
    root = factor @ made.root_kmm[k].detach().numpy()
    return solve @ factor @ made.mean_km[k].detach().numpy(), kernel(x, x) - solve @ (k_uu - root @ root.T) @ solve.T


@pytest.mark.parametrize("options", [{}, {"diagonal": True}, {"natural": False}], ids=["full", "diagonal", "optimiser"])
@torch.no_grad()
def test_moments_and_covariances_are_those_of_dense_formulas_class_by_class(options: dict[str, bool]) -> None:
    made, x = different(process("rbf", own=True, **options)), rows(9, 6)
    if made.natural:
        taught(made)
    else:
        made.mean_km.copy_(rows(1, 6).view(3, 4))
        made.root_kmm.copy_((torch.eye(4) + 0.1 * rows(2, 24).view(3, 4, 4)).tril())
    (mean, variance), joint = made.latent(x), made.joint(x)
    for k in range(3):
        expected, between = dense(made, x.numpy(), k)
        np.testing.assert_allclose(mean[:, k], expected, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(joint[k], between, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(variance[:, k], np.diag(between), rtol=1e-8, atol=1e-9)


@torch.no_grad()
def test_draws_have_the_moments_of_every_class() -> None:
    made, x = taught(different(process("rbf", own=True))), rows(9, 3)
    drawn = made.draw(x, 40_000, torch.Generator().manual_seed(0)).numpy()
    assert drawn.shape == (40_000, 3, 3)
    for k in range(3):
        mean, between = dense(made, x.numpy(), k)
        size = np.sqrt(np.diag(between))
        # Four standard errors of a mean, and of a covariance.
        assert (np.abs(drawn[:, :, k].mean(axis=0) - mean) < 4 * size / 200).all()
        assert (np.abs(np.cov(drawn[:, :, k].T) - between) < 4 * np.sqrt(2) * np.outer(size, size) / 200).all()


def test_a_natural_step_of_size_one_solves_gaussian_regression_in_every_class() -> None:
    made, x, noise = different(process("rbf", own=True)), rows(9, 20), 0.3
    y = rows(4, 30).view(20, 3)
    mean = made.moments(x)[0].detach()
    made.natural_step(made.projected.detach(), mean, (y - mean) / noise, torch.full_like(mean, -0.5 / noise), 1.0)
    found, _ = made.moments(x)
    points = made.inducing.detach().numpy()
    for k, (variance, scales) in enumerate(OWN):
        distance = [((side[:, None] - points) / np.array(scales)) ** 2 for side in (x.numpy(), points)]
        k_xu, k_uu = (variance * np.exp(-part.sum(axis=2) / 2) for part in distance)
        k_uu += 1e-6 * variance * np.eye(4)
        expected = k_xu @ np.linalg.solve(noise * k_uu + k_xu.T @ k_xu, k_xu.T @ y[:, k].numpy())
        np.testing.assert_allclose(found[:, k].detach(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("natural", [True, False])
def test_the_gradient_of_every_class_is_that_of_central_differences(natural: bool) -> None:
    """Of the loss in the warm-up, where labels are given, by every parameter."""
    votes = votes_on(np.arange(12) % 3, even(3, 3, 0.8), share=1.0)
    made = different(process("rbf", own=True, natural=natural))
    made.likelihood = Softmax(3)
    if natural:
        taught(made)
    else:
        made.mean_km.data = rows(1, 6).view(3, 4)
    start = torch.tensor(np.eye(3)[np.arange(12) % 3] * 0.7 + 0.1)
    head, batch, x = (
        ProcessHead(votes, np.ones((1, 3, 3)), start, made, rate=0.1, warmup=1, frozen=0),
        batch_of(votes),
        rows(8, 12),
    )
    made.train()
    head.loss(made(x), batch).backward()
    seen = set()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        flat = parameter.data.view(-1)
        for i, gradient in enumerate(parameter.grad.reshape(-1).tolist()):
            ends, kept = [], float(flat[i])
            for step in (1e-5, -1e-5):
                flat[i] = kept + step
                ends.append(float(head.loss(made(x), batch).detach()))
            flat[i] = kept
            assert gradient == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-7), f"{name}[{i}]"
            if "of_class" in name:
                assert abs(gradient) > 1e-6, name
                seen.add(f"{name}[{i}]")
    assert len(seen) == 3 * 3


def test_kernels_go_together_until_they_part() -> None:
    made = PerClass(covariance("rbf", 2, lengthscale=1.0).double(), 3)
    made.part(False)
    assert made(rows(0, 4), rows(1, 5)).shape == (4, 5)
    assert made.diagonal(rows(0, 4)).shape == (4,)
    assert [parameter.requires_grad for parameter in made.parameters()] == [True] * 2 + [False] * 4
    made.of_class[0].log_lengthscale.data.fill_(0.5)
    assert [kernel.log_lengthscale.item() for kernel in made.kernels] == [0.5] * 3
    made.part(True)
    assert [kernel.log_lengthscale.item() for kernel in made.of_class] == [0.5] * 3
    assert all(parameter.requires_grad for parameter in made.parameters())
    made.of_class[0].log_lengthscale.data.fill_(0.7)
    made.part(True)
    assert [kernel.log_lengthscale.item() for kernel in made.kernels] == [0.7, 0.5, 0.5]


def test_one_singular_covariance_of_several_is_met_with_jitter() -> None:
    made = different(process("rbf", own=True))
    assert isinstance(made.covariance, PerClass)
    made.covariance.of_class[1].log_lengthscale.data.fill_(20.0)
    assert all(torch.isfinite(part).all() for part in made.moments(rows(0, 3)))
