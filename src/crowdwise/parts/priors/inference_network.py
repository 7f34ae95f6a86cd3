"""Gaussian processes by inference networks: a posterior that is a small Bayesian network, held to the prior on finite sets.

    q: f_k(x) = phi(x) . w_k,   w_k ~ N(m_k, root_k root_k'),   phi(x) = sqrt(variance / H) [cos(x F), sin(x F)]
    p: f_k ~ GP(0, kappa)

Weights with a Gaussian prior have natural steps in closed form, as inducing values do (`sparse_gp`); a few of them on the
labels of the start bring q near its place, from which the optimiser continues with everything at once.

The columns of F are draws from the spectral density of kappa, so that q starts near p; they are trained. Frequencies are
shared by the classes, as kappa is. On a finite set both are Gaussian, and KL(q || p) is in closed form: O(K n^3).

q has rank 2 H: on more points its covariance is singular, and KL(q || p) a matter of jitter. Hence no more than 2 H points
are ever compared: the measurement set, and as many rows of the batch as there is room for. The likelihood takes all.

Symbols
-------
mean_kf : [K, 2 H]           m
root_kff : [K, 2 H, 2 H]     root, lower triangular (what lies above the diagonal is not read)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from crowdwise.errors import DivergedError

__all__ = ["InferenceNetwork", "RandomFeatures", "gaussian_kl"]

_LEAST_VARIANCE = 1e-10
_JITTERS = (1e-6, 1e-5, 1e-4, 1e-3)
# Spread of m at the start.
_START = 1e-3
# Natural steps on the labels of the start. Steps above 0.6 need not raise the bound.
_FIRST_STEPS, _FIRST_RATE = 5, 0.3


class RandomFeatures(nn.Module):
    """K Gaussian weight vectors on shared random features.

    Parameters
    ----------
    kind : str
        "rbf" or "matern": whose spectral density the frequencies are drawn from.
    n_hidden : int
        H; there are 2 H features.
    """

    def __init__(self, kind: str, n_columns: int, n_classes: int, n_hidden: int, lengthscale: float = 1.0) -> None:
        super().__init__()
        frequency = torch.randn(n_columns, n_hidden)
        if kind == "matern":
            # A Matern of smoothness 5/2 has a multivariate t with 5 degrees of freedom.
            frequency = frequency / (torch.randn(5, n_hidden).square().mean(0)).sqrt()
        self.frequency_dh = nn.Parameter(frequency)
        self.log_lengthscale = nn.Parameter(torch.full((n_columns,), lengthscale).log())
        self.log_variance = nn.Parameter(torch.zeros(()))
        self.mean_kf = nn.Parameter(_START * torch.randn(n_classes, 2 * n_hidden))
        self.root_kff = nn.Parameter(torch.eye(2 * n_hidden).repeat(n_classes, 1, 1))

    def features(self, rows: Tensor) -> Tensor:
        """phi, [B, 2 H]."""
        angle = (rows * (-self.log_lengthscale).exp()) @ self.frequency_dh
        return torch.cat([angle.cos(), angle.sin()], 1) * (self.log_variance / 2).exp() / math.sqrt(angle.shape[1])

    def moments(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances, two of [B, K]."""
        phi = self.features(rows)
        spread = torch.matmul(phi, self.root_kff.tril()).square().sum(2).T
        return phi @ self.mean_kf.T, spread.clamp(min=_LEAST_VARIANCE)

    def joint(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means [K, B] and Cholesky factors [K, B, B] of the joint distribution on these rows."""
        phi = self.features(rows)
        half = torch.matmul(phi, self.root_kff.tril())
        return self.mean_kf @ phi.T, _factor(half @ half.transpose(1, 2), self.log_variance.exp())

    @torch.no_grad()
    def natural_step(self, phi: Tensor, by_mean: Tensor, by_variance: Tensor, rate: float) -> None:
        """Move q(w), whose prior is N(0, I), along its natural gradient.

        Parameters
        ----------
        phi : [B, 2 H]
        by_mean, by_variance : [B, K]
            Gradient of the (scaled) expected log-likelihood by means and variances.
        """
        root = self.root_kff.tril()
        identity = torch.eye(root.shape[1], dtype=root.dtype, device=root.device)
        before = torch.cholesky_inverse(root)
        weight = (-2 * by_variance).clamp(min=0)
        fresh = (phi * weight.T[:, :, None]).transpose(1, 2) @ phi + identity
        precision = (1 - rate) * before + rate * fresh
        pulled = (by_mean + weight * (phi @ self.mean_kf.T)).T @ phi
        natural = (1 - rate) * (before @ self.mean_kf[:, :, None])[:, :, 0] + rate * pulled
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(precision))
        self.root_kff.copy_(torch.linalg.cholesky((inverse + inverse.transpose(1, 2)) / 2))
        self.mean_kf.copy_((inverse @ natural[:, :, None])[:, :, 0])


class InferenceNetwork(nn.Module):
    """The posterior, its prior and its likelihood.

    In training mode it returns E log nu, [B, K], and keeps the points to compare on as `points`; in evaluation log class
    probabilities.

    Parameters
    ----------
    posterior : RandomFeatures
    covariance, likelihood : nn.Module
        See `crowdwise.parts.priors.covariance` and `crowdwise.parts.priors.robust_max`.
    n_measured : int
        Points of the measurement set, drawn again for every batch.
    pool : [P, D]
        Training rows to draw them from; not saved with the model.
    """

    pool: Tensor

    def __init__(
        self, posterior: RandomFeatures, covariance: nn.Module, likelihood: nn.Module, n_measured: int, pool: Tensor
    ) -> None:
        super().__init__()
        self.posterior, self.covariance, self.likelihood, self.n_measured = posterior, covariance, likelihood, n_measured
        self.register_buffer("pool", pool, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """[B, K]."""
        mean, variance = self.posterior.moments(rows)
        if not self.training:
            answer: Tensor = self.likelihood.log_predictive(mean, variance)  # type: ignore[operator]
            return answer
        measured = self.pool[torch.randperm(len(self.pool), device="cpu")[: self.n_measured].to(self.pool.device)]
        room = self.posterior.mean_kf.shape[1] - len(measured)
        # Rows of a batch are in random order.
        self.points = torch.cat([rows[:room], measured])
        expected: Tensor = self.likelihood.expected_log(mean, variance)  # type: ignore[operator]
        return expected

    def latent(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the latent functions, two of [B, K]."""
        return self.posterior.moments(rows)

    def joint(self, rows: Tensor) -> Tensor:
        """Covariances of the latent functions between all rows, [K, N, N]; their diagonals are the variances of `latent`."""
        half = torch.matmul(self.posterior.features(rows), self.posterior.root_kff.tril())
        found = half @ half.transpose(1, 2)
        found.diagonal(dim1=1, dim2=2).clamp_(min=_LEAST_VARIANCE)
        return found

    def draw(self, rows: Tensor, n_draws: int, generator: torch.Generator) -> Tensor:
        """Joint draws of the latent functions at rows, [S, N, K]."""
        mean = self.posterior.mean_kf
        noise = torch.randn(n_draws, *mean.shape, dtype=mean.dtype, device="cpu", generator=generator).to(mean.device)
        weight = mean + torch.einsum("kij,skj->ski", self.posterior.root_kff.tril(), noise)
        return torch.einsum("nf,skf->snk", self.posterior.features(rows), weight)

    def expected_log(self, rows: Tensor) -> Tensor:
        """E log nu, [B, K]."""
        expected: Tensor = self.likelihood.expected_log(*self.posterior.moments(rows))  # type: ignore[operator]
        return expected

    def learn(self, rows: Tensor, target: Tensor, scale: float) -> None:
        """Take a few natural steps on labels [B, K] of these rows, which stand for `scale` times as many."""
        with torch.no_grad():
            phi = self.posterior.features(rows)
        for _ in range(_FIRST_STEPS):
            mean, variance = (value.detach().requires_grad_() for value in self.posterior.moments(rows))
            total = scale * (target * self.likelihood.expected_log(mean, variance)).sum()  # type: ignore[operator]
            by_mean, by_variance = torch.autograd.grad(total, (mean, variance))
            self.posterior.natural_step(phi, by_mean, by_variance, _FIRST_RATE)

    def divergence(self, points: Tensor, before: RandomFeatures | None = None) -> tuple[Tensor, Tensor]:
        """KL from the prior and from `before` (zero if None) on the points, each summed over classes."""
        mean, factor = self.posterior.joint(points)
        prior = _factor(self.covariance(points, points), self.covariance.diagonal(points).mean())  # type: ignore[operator]
        from_prior = gaussian_kl(mean, factor, torch.zeros_like(mean), prior)
        if before is None:
            return from_prior, torch.zeros_like(from_prior)
        return from_prior, gaussian_kl(mean, factor, *before.joint(points))


def gaussian_kl(mean: Tensor, factor: Tensor, other_mean: Tensor, other_factor: Tensor) -> Tensor:
    """KL of K Gaussians from others, summed: means [K, n], Cholesky factors [K, n, n] (the others' may be one for all)."""
    ratio = torch.linalg.solve_triangular(other_factor, factor, upper=False)
    shift = torch.linalg.solve_triangular(other_factor, (other_mean - mean)[:, :, None], upper=False)
    log_det, other_log_det = (
        each.diagonal(dim1=-2, dim2=-1).log().sum(-1).expand(len(mean)) for each in (factor, other_factor)
    )
    total: Tensor = (ratio.square().sum() + shift.square().sum() - mean.numel()) / 2 + (other_log_det - log_det).sum()
    return total


def _factor(matrix: Tensor, size: Tensor) -> Tensor:
    """Cholesky factor of a covariance with a jitter in units of `size`."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    factor: Tensor
    for jitter in _JITTERS:
        factor, failed = torch.linalg.cholesky_ex(matrix + jitter * size * identity)
        if not bool(failed.any()):
            return factor
    raise DivergedError(
        "the covariance of the measured points is singular even with a jitter of 0.001: use a lower learning_rate, a smaller "
        "`measured`, or precision='float64'"
    )
