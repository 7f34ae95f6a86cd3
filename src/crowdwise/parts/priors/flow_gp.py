"""A sparse Gaussian process whose posterior over inducing values is bent by planar flows.

    v0_k = m_k + root_k (shift_k + scale_k e),  e ~ N(0, I)      the base
    v_k  = flow_k(v0_k)                                          whitened inducing values; their prior is N(0, I)
    KL   = KL(base || N(0, I)) + E [ (|v|^2 - |v0|^2) / 2 - log |det flow'| ]
    E log nu_k(f_n) = mean over draws of that under f_n ~ N(B_n v, kappa(x_n, x_n) - |B_n|^2)

At first the flows rest, and the process is `SparseGP` with its natural steps, which leave m and root. Once `flowing`, these
stay, and the optimiser moves shift, scale and flows: in units of the posterior found so far, which one rate suits.
Draws come in pairs e, -e. Half of the KL is in closed form: what is left for the draws vanishes with the flows.

In training mode a flowing process returns E log nu, [B, K], and keeps the KL of the same draws as `divergence`; a resting one
returns means and variances, [B, 2 K]. In evaluation both return log class probabilities.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from crowdwise.parts.priors.flows import PlanarFlows
from crowdwise.parts.priors.sparse_gp import SparseGP, by_class_of

__all__ = ["FlowGP"]

_LEAST_VARIANCE = 1e-10
# Draws of a prediction, always the same: a row's probabilities are its own, whatever rows come with it.
_JUDGING = 64


class FlowGP(SparseGP):
    """Inducing points, a covariance and bent Gaussian posteriors.

    Parameters
    ----------
    n_layers : int
        Layers of every flow.
    n_draws : int
        Draws of a training step; an odd number is rounded up.
    """

    flowing: Tensor

    def __init__(
        self,
        covariance: nn.Module,
        likelihood: nn.Module,
        inducing: Tensor,
        n_classes: int,
        n_layers: int,
        n_draws: int,
        *,
        diagonal: bool = False,
    ) -> None:
        super().__init__(covariance, likelihood, inducing, n_classes, diagonal=diagonal)
        shape = (n_classes, len(inducing))
        self.n_draws = n_draws
        self.flows = PlanarFlows(n_layers, *shape).to(inducing.dtype)
        self.shift_km = nn.Parameter(torch.zeros(shape, dtype=inducing.dtype))
        self.log_scale_km = nn.Parameter(torch.zeros(shape, dtype=inducing.dtype))
        self.register_buffer("flowing", torch.tensor(False))

    def forward(self, rows: Tensor) -> Tensor:
        """[B, K]; [B, 2 K] in training at rest."""
        if not bool(self.flowing):
            return super().forward(rows)
        noise = self._noise(self.n_draws, None) if self.training else self._judging()
        bent = self.bent(noise)
        means, variance = self._given(rows, bent[1])
        if self.training:
            self.divergence = self.divergence_of(*bent)
            # The quadrature's arrays are computed again in the backward pass: those of all draws would not fit.
            return torch.stack([self._once(mean, variance) for mean in means]).mean(0)
        answers = [self.likelihood.log_predictive(mean, variance) for mean in means]  # type: ignore[operator]
        return torch.stack(answers).logsumexp(0) - math.log(len(answers))

    def latent(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """By the draws of predictions."""
        if not bool(self.flowing):
            return super().latent(rows)
        means, variance = self._given(rows, self.bent(self._judging())[1])
        return means.mean(0), variance + means.var(0, correction=0)

    def expected_log(self, rows: Tensor) -> Tensor:
        """By the draws of predictions."""
        if not bool(self.flowing):
            return super().expected_log(rows)
        means, variance = self._given(rows, self.bent(self._judging())[1])
        answers = [self.likelihood.expected_log(mean, variance) for mean in means]  # type: ignore[operator]
        return torch.stack(answers).mean(0)

    def whole_kl(self) -> Tensor:
        """By the draws of predictions."""
        return self.divergence_of(*self.bent(self._judging())) if bool(self.flowing) else super().whole_kl()

    def joint(self, rows: Tensor) -> Tensor:
        """By the draws of predictions."""
        if not bool(self.flowing):
            return super().joint(rows)
        means, _ = self._given(rows, self.bent(self._judging())[1])
        apart = (means - means.mean(0)).permute(2, 1, 0)
        own = self._unexplained(rows, self.projected)
        own.diagonal(dim1=-2, dim2=-1).clamp_(min=_LEAST_VARIANCE)
        return own + apart @ apart.transpose(1, 2) / len(means)

    def _values(self, n_draws: int, generator: torch.Generator) -> Tensor:
        if not bool(self.flowing):
            return super()._values(n_draws, generator)
        noise = torch.randn(n_draws, *self.mean_km.shape, dtype=self.mean_km.dtype, device="cpu", generator=generator)
        return self.bent(noise.to(self.mean_km.device))[1]

    def _given(self, rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Means [S, B, K] and variances [B, K] of the functions given inducing values [S, K, M]."""
        self.projected = self._projection(rows)
        prior = self.covariance.diagonal(rows)  # type: ignore[operator]
        by_class = by_class_of(self.projected)
        variance = (prior - by_class.square().sum(2)).clamp(min=_LEAST_VARIANCE).T.expand(-1, len(self.mean_km))
        return torch.einsum("kbm,skm->sbk", by_class, values), variance

    def bent(self, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Base and bent values [S, K, M] and log-determinants [S, K] for standard normal noise [S, K, M]."""
        inner = self.shift_km + self.log_scale_km.exp() * noise
        base = self.mean_km + torch.einsum("kij,skj->ski", self.root_kmm, inner)
        values, log_det = self.flows(base)
        return base, values, log_det

    def divergence_of(self, base: Tensor, values: Tensor, log_det: Tensor) -> Tensor:
        """KL of the bent posterior from the prior by draws, summed over classes."""
        square = values.square().sum(2) - base.square().sum(2)
        return self.base_kl() + (square / 2 - log_det).mean(0).sum()

    def base_kl(self) -> Tensor:
        """KL of the base from the prior in closed form, summed over classes."""
        root = self.root_kmm * self.log_scale_km.exp()[:, None, :]
        mean = self.mean_km + (self.root_kmm @ self.shift_km[:, :, None])[:, :, 0]
        # Roots are triangular.
        log_det = 2 * root.diagonal(dim1=1, dim2=2).abs().log().sum()
        return (root.square().sum() + mean.square().sum() - mean.numel() - log_det) / 2

    def _once(self, mean: Tensor, variance: Tensor) -> Tensor:
        answer: Tensor = checkpoint(self.likelihood.expected_log, mean, variance, use_reentrant=False)
        return answer

    def _judging(self) -> Tensor:
        return self._noise(_JUDGING, torch.Generator("cpu").manual_seed(0))

    def _noise(self, n_draws: int, generator: torch.Generator | None) -> Tensor:
        """Standard normal draws in pairs of opposite sign, [S, K, M]."""
        # On the processor, so that every device has the same draws.
        shape = (-(-n_draws // 2), *self.mean_km.shape)
        half = torch.randn(shape, dtype=self.mean_km.dtype, device="cpu", generator=generator)
        return torch.cat([half, -half]).to(self.mean_km.device)
