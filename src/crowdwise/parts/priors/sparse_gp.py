"""K Gaussian processes with shared inducing points, whitened, as a label prior that reads features.

    f_k ~ GP(0, kappa),  u_k = f_k(inducing points) = L v_k,  L L' = kappa(inducing, inducing) + jitter
    q(v_k) = N(m_k, S_k);   B = kappa(rows, inducing) L'^-1
    mean_nk = B_n . m_k     variance_nk = kappa(x_n, x_n) - |B_n|^2 + B_n S_k B_n'

One covariance function and one Cholesky factor serve all classes, and B is [B, M]; or every class has its own (`PerClass`), and
B is [K, B, M]. Whitening makes KL(q || p) free of the covariance's parameters and gives natural steps in closed form: with g
the gradient of the expected log-likelihood by means and variances, and lambda = max(-2 g_variance, 0),

    S^-1     = (1 - rate) S^-1 + rate (I + B' diag(lambda) B)
    S^-1 m   = (1 - rate) S^-1 m + rate (B' g_mean + B' diag(lambda) B m)

A diagonal posterior keeps the diagonal of B' diag(lambda) B. Instead of natural steps, m and a root of S can be parameters
that an optimiser moves (`natural=False`).

In training mode the module returns means and variances, [B, 2 K]; in evaluation log class probabilities.

Symbols
-------
precision_kmm : [K, M, M]   S^-1
weighted_km : [K, M]        S^-1 m
root_kmm : [K, M, M]        a triangular root of S: S = root root'
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from crowdwise.errors import DivergedError

__all__ = ["SparseGP", "by_class_of"]

_LEAST_VARIANCE = 1e-10
_JITTERS = (1e-6, 1e-5, 1e-4, 1e-3)


class _Spread(torch.autograd.Function):
    """B_n S_k B_n' of all n and k, [B, K]; the products B S serve both directions."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, s_kmm: Tensor) -> Tensor:
        n_classes, n_inducing, _ = s_kmm.shape
        side_by_side = s_kmm.transpose(0, 1).reshape(n_inducing, n_classes * n_inducing)
        product = (projected @ side_by_side).view(len(projected), n_classes, n_inducing)
        ctx.save_for_backward(projected, product)
        return torch.bmm(product, projected[:, :, None])[:, :, 0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        projected, product = ctx.saved_tensors
        by_projected = 2 * torch.bmm(grad[:, None, :], product)[:, 0]
        return by_projected, _weighted_squares(projected[None], grad) if ctx.needs_input_grad[1] else None


class SparseGP(nn.Module):
    """Inducing points, a covariance and Gaussian posteriors.

    Parameters
    ----------
    covariance : nn.Module
        See `crowdwise.parts.priors.covariance`.
    likelihood : nn.Module
        See `crowdwise.parts.priors.robust_max`.
    inducing : [M, D]
        Where they start.
    diagonal : bool
        Independent inducing values (of a class) in the posterior.
    natural : bool
        The posterior moves by `natural_step`; else it is a parameter.
    """

    precision_kmm: Tensor
    weighted_km: Tensor
    mean_km: Tensor
    root_kmm: Tensor

    def __init__(
        self,
        covariance: nn.Module,
        likelihood: nn.Module,
        inducing: Tensor,
        n_classes: int,
        *,
        diagonal: bool = False,
        natural: bool = True,
    ) -> None:
        super().__init__()
        n_inducing = len(inducing)
        self.covariance, self.likelihood, self.diagonal, self.natural = covariance, likelihood, diagonal, natural
        self.inducing = nn.Parameter(inducing.clone())
        root = torch.eye(n_inducing, dtype=inducing.dtype).repeat(n_classes, 1, 1)
        mean = torch.zeros(n_classes, n_inducing, dtype=inducing.dtype)
        if natural:
            self.register_buffer("precision_kmm", root.clone())
            self.register_buffer("weighted_km", mean.clone())
            self.register_buffer("root_kmm", root)
            self.register_buffer("mean_km", mean)
        else:
            self.root_kmm, self.mean_km = nn.Parameter(root), nn.Parameter(mean)

    def forward(self, rows: Tensor) -> Tensor:
        """[B, 2 K] in training, [B, K] in evaluation."""
        mean, variance = self.moments(rows)
        if self.training:
            return torch.cat([mean, variance], 1)
        answer: Tensor = self.likelihood.log_predictive(mean, variance)  # type: ignore[operator]
        return answer

    def moments(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the latent functions, two of [B, K]; `projected` keeps B of the last rows."""
        self.projected = self._projection(rows)
        by_class = by_class_of(self.projected)
        mean = torch.einsum("kbm,km->bk", by_class, self.mean_km)
        root = self._root()
        if self.diagonal:
            spread = torch.einsum("kbm,km->bk", by_class.square(), root.diagonal(dim1=1, dim2=2).square())
        elif self.projected.ndim == 3:
            spread = (self.projected @ root).square().sum(2).T
        else:
            spread = _Spread.apply(self.projected, root @ root.transpose(1, 2))  # type: ignore[no-untyped-call]
        prior = self.covariance.diagonal(rows)  # type: ignore[operator]
        variance = (prior - by_class.square().sum(2)).T + spread
        return mean, variance.clamp(min=_LEAST_VARIANCE)

    def latent(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the latent functions under the whole posterior, two of [B, K]."""
        return self.moments(rows)

    def expected_log(self, rows: Tensor) -> Tensor:
        """E log nu under the whole posterior, [B, K]."""
        answer: Tensor = self.likelihood.expected_log(*self.moments(rows))  # type: ignore[operator]
        return answer

    def whole_kl(self) -> Tensor:
        """KL of the whole posterior from the prior, summed over classes."""
        return self.kl()

    def joint(self, rows: Tensor) -> Tensor:
        """Covariances of the latent functions between all rows, [K, N, N]; their diagonals are the variances of `latent`."""
        projected = self._projection(rows)
        half = projected @ self._root()
        found = self._unexplained(rows, projected) + half @ half.transpose(1, 2)
        found.diagonal(dim1=1, dim2=2).clamp_(min=_LEAST_VARIANCE)
        return found

    def draw(self, rows: Tensor, n_draws: int, generator: torch.Generator) -> Tensor:
        """Joint draws of the latent functions at rows, [S, N, K]."""
        projected = self._projection(rows)
        means = torch.einsum("knm,skm->snk", by_class_of(projected), self._values(n_draws, generator))
        # Eigenvalues, not a Cholesky factor: at inducing points nothing is left, and rounding may make it less than that.
        size, axes = torch.linalg.eigh(self._unexplained(rows, projected))
        noise = torch.randn(means.shape, dtype=means.dtype, device="cpu", generator=generator).to(means.device)
        root = by_class_of(axes * size.clamp(min=0).sqrt()[..., None, :])
        return means + torch.einsum("kij,sjk->sik", root, noise)

    def _values(self, n_draws: int, generator: torch.Generator) -> Tensor:
        """Draws of the whitened inducing values, [S, K, M]."""
        noise = torch.randn(n_draws, *self.mean_km.shape, dtype=self.mean_km.dtype, device="cpu", generator=generator)
        return self.mean_km + torch.einsum("kij,skj->ski", self._root(), noise.to(self.mean_km.device))

    def _unexplained(self, rows: Tensor, projected: Tensor) -> Tensor:
        """Covariance of a function at rows given its inducing values, [N, N]; with a kernel for every class [K, N, N]."""
        between: Tensor = self.covariance(rows, rows)
        # The function of two tables need not give exactly what it says of single rows.
        between = (between + between.mT) / 2
        between.diagonal(dim1=-2, dim2=-1).copy_(self.covariance.diagonal(rows))  # type: ignore[operator]
        return between - projected @ projected.mT

    def kl(self) -> Tensor:
        """KL of the posterior from the prior, summed over classes."""
        root = self._root()
        log_det = 2 * root.diagonal(dim1=1, dim2=2).abs().log().sum()
        return (root.square().sum() + self.mean_km.square().sum() - self.mean_km.numel() - log_det) / 2

    def _root(self) -> Tensor:
        """The root of S, of which an optimiser may move the lower triangle alone, or the diagonal."""
        if self.natural:
            return self.root_kmm
        return self.root_kmm.diagonal(dim1=1, dim2=2).diag_embed() if self.diagonal else self.root_kmm.tril()

    @torch.no_grad()
    def natural_step(self, projected: Tensor, mean: Tensor, by_mean: Tensor, by_variance: Tensor, rate: float) -> None:
        """Move q(v) along its natural gradient.

        Parameters
        ----------
        projected : [B, M] or [K, B, M]
        mean, by_mean, by_variance : [B, K]
            Means, and the gradient of the (scaled) expected log-likelihood by means and variances.
        """
        weight, by_class = (-2 * by_variance).clamp(min=0), by_class_of(projected)
        if self.diagonal:
            own = torch.einsum("bk,kbm->km", weight, by_class.square())
            shown, gained = torch.einsum("bk,kbm->km", by_mean, by_class) + own * self.mean_km, own.diag_embed()
        else:
            shown = torch.einsum("bk,kbm->km", by_mean + weight * mean, by_class)
            gained = _weighted_squares(by_class, weight)
        self.precision_kmm.lerp_(gained, rate).diagonal(dim1=1, dim2=2).add_(rate)
        self.weighted_km.lerp_(shown, rate)
        factor, failed = torch.linalg.cholesky_ex(self.precision_kmm)
        if bool(failed.any()):
            raise DivergedError(
                "a natural step left no posterior of the inducing values: use a rate of at most 0.5, or precision='float64'"
            )
        identity = torch.eye(factor.shape[1], dtype=factor.dtype, device=factor.device).expand_as(factor)
        self.root_kmm.copy_(torch.linalg.solve_triangular(factor, identity, upper=False).transpose(1, 2))
        self.mean_km.copy_((self.root_kmm @ (self.root_kmm.transpose(1, 2) @ self.weighted_km[:, :, None]))[:, :, 0])

    def _projection(self, rows: Tensor) -> Tensor:
        """B, [B, M] or [K, B, M]."""
        between = self.covariance(self.inducing, self.inducing)
        identity = torch.eye(len(self.inducing), dtype=between.dtype, device=between.device)
        size = between.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
        for jitter in _JITTERS:
            factor, failed = torch.linalg.cholesky_ex(between + jitter * size * identity)
            if not bool(failed.any()):
                across = self.covariance(rows, self.inducing)
                projected: Tensor = torch.linalg.solve_triangular(factor, across.mT, upper=False).mT
                return projected
        raise DivergedError(
            "the covariance of the inducing points is singular even with a jitter of 0.001: use fewer inducing points, "
            "a lower learning_rate or precision='float64'"
        )


def by_class_of(values: Tensor) -> Tensor:
    """[K, ...] of values that every class has of its own, [1, ...] of a matrix that all share: einsum takes it for every k."""
    return values if values.ndim == 3 else values[None]


def _weighted_squares(by_class: Tensor, weight: Tensor) -> Tensor:
    """sum_n weight_nk B_kn' B_kn, [K, M, M]."""
    projected = by_class.transpose(0, 1)
    return torch.einsum("bkm,bkj->kmj", weight[:, :, None] * projected, projected)
