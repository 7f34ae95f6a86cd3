"""Which of K Gaussians is the largest: the robust-max and softmax likelihoods of Gaussian-process classification.

robust-max   nu_k(f) = 1 - eps if f_k is the largest, eps / (K - 1) otherwise
             p_k = P(f_k largest) = int F(x) h_k(x) dx,   F = prod_j Phi(u_j),  h_k = phi(u_k) / (sd_k Phi(u_k)),
                                                          u_j = (x - mean_j) / sd_j
             E log nu_k = p_k log(1 - eps) + (1 - p_k) log(eps / (K - 1))
softmax      E log softmax(f)_k over a few shared quasi-random draws

The integral runs over the value of the largest, so that all classes share one set of nodes: O(N G K), where
quadrature in each f_k on its own takes O(N Q K^2). It reaches from the highest "mean - 6 sd" to the highest
"mean + 6 sd": below the one the largest cannot be, above the other nothing is. Every function that can be the largest
reaches across the lower end, hence lies within 12 of its own standard deviations of it: the closer to that end, the
narrower. Equal steps in log(1 + distance / (6 least sd)) therefore suit all functions at once, however uneven, and converge
exponentially, since the integrand vanishes at both ends. p is normalised over k. For two classes
p_1 = Phi((mean_1 - mean_2) / sqrt(v_1 + v_2)) exactly. The gradient is written out: autograd would keep a dozen arrays of
[N, G, K].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["LIKELIHOODS", "RobustMax", "Softmax", "largest_probability"]

LIKELIHOODS = ("robust-max", "softmax")
# Steps of the integral: a row takes the first that leaves them no longer than _STEP.
_STEPS = (24, 32, 48, 96, 320)
_STEP = 0.046
# Standard deviations to either side that the integral covers.
_REACH = 6.0
# Keeps a density over its distribution function finite far below every mean, where the mass is nil.
_SQUASH = 1e-15
_DENSITY = 1 / math.sqrt(2 * math.pi)


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """P(f_k is the largest) by nodes and weights [N, G], not normalised, [N, K]."""
        sd = variance.sqrt()
        u = (x[:, :, None] - mean[:, None, :]) / sd[:, None, :]
        cdf = torch.special.ndtr(u).clamp_(min=_SQUASH)
        mass = cdf.prod(2).mul_(weight)
        hazard = u.square().mul_(-0.5).exp_().mul_(_DENSITY).div_(cdf).div_(sd[:, None, :])
        ctx.save_for_backward(u, hazard, mass, sd)
        return torch.einsum("ng,ngk->nk", mass, hazard)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Raising mean_j by dm multiplies F by 1 - h_j dm and h_j by 1 + (u_j / sd_j + h_j) dm."""
        u, hazard, mass, sd = ctx.saved_tensors
        asked = hazard * grad[:, None, :]
        others = asked.sum(2, keepdim=True) - asked
        slope = (asked * (u / sd[:, None, :])).sub_(hazard * others)
        by_mean = torch.einsum("ng,ngk->nk", mass, slope)
        # sd_j enters through u_j alone but for the density's 1 / sd_j.
        slope_sd = slope.mul_(u).sub_(asked / sd[:, None, :])
        by_variance = torch.einsum("ng,ngk->nk", mass, slope_sd) / (2 * sd)
        return by_mean, by_variance, None, None


def largest_probability(mean: Tensor, variance: Tensor) -> Tensor:
    """P(f_k is the largest of independent Gaussians), [N, K]; rows sum to one."""
    n_classes = mean.shape[1]
    if n_classes == 1:
        return torch.ones_like(mean)
    if n_classes == 2:
        first = torch.special.ndtr((mean[:, 0] - mean[:, 1]) / variance.sum(1).sqrt())
        return torch.stack([first, 1 - first], 1)
    # Narrower than the means are exact to, a function has no nodes of its own.
    exact = 4 * torch.finfo(mean.dtype).eps * mean.detach().abs().amax(1, keepdim=True)
    variance = variance.maximum(exact.square())
    with torch.no_grad():
        sd = variance.sqrt()
        highest = mean + _REACH * sd
        low, high = (mean - _REACH * sd).amax(1, keepdim=True), highest.amax(1, keepdim=True)
        # Functions that cannot be the largest may be as narrow as they like.
        unit = 6 * torch.where(highest >= low, sd, torch.inf).amin(1, keepdim=True)
        end = ((high - low) / unit).log1p()
        group = sum((end[:, 0] > _STEP * steps).int() for steps in _STEPS[:-1])
        assert isinstance(group, Tensor)

    def of_rows(rows: Tensor | slice, n_steps: int) -> Tensor:
        step = end[rows] / n_steps
        t = unit[rows] * torch.expm1(step * (torch.arange(n_steps, device=mean.device) + 0.5))
        raw: Tensor = _Largest.apply(mean[rows], variance[rows], low[rows] + t, step * (t + unit[rows]))  # type: ignore[no-untyped-call]
        return raw / raw.sum(1, keepdim=True)

    found = sorted(set(group.tolist()))
    if len(found) == 1:
        return of_rows(slice(None), _STEPS[found[0]])
    p = torch.empty_like(mean)
    for which in found:
        rows = (group == which).nonzero()[:, 0]
        p = p.index_copy(0, rows, of_rows(rows, _STEPS[which]))
    return p


class RobustMax(nn.Module):
    """The largest wins, but for a share `eps`."""

    def __init__(self, eps: float = 1e-3) -> None:
        super().__init__()
        self.eps = eps

    def expected_log(self, mean: Tensor, variance: Tensor) -> Tensor:
        """E log nu_k, [N, K]."""
        p = largest_probability(mean, variance)
        n_others = max(mean.shape[1] - 1, 1)
        return p * math.log1p(-self.eps) + (1 - p) * math.log(self.eps / n_others)

    def log_predictive(self, mean: Tensor, variance: Tensor) -> Tensor:
        """log P(class), [N, K]."""
        p = largest_probability(mean, variance)
        n_others = max(mean.shape[1] - 1, 1)
        return (p * (1 - self.eps) + (1 - p) * self.eps / n_others).log().log_softmax(1)


class Softmax(nn.Module):
    """Probabilities proportional to exp f."""

    draws: Tensor

    def __init__(self, n_classes: int, n_draws: int = 32, seed: int = 0) -> None:
        super().__init__()
        from scipy.special import ndtri
        from scipy.stats import qmc

        uniform = qmc.Sobol(n_classes, seed=seed).random(n_draws)
        self.register_buffer("draws", torch.from_numpy(ndtri(np.clip(uniform, 1e-9, 1 - 1e-9))))

    def _log_softmax(self, mean: Tensor, variance: Tensor) -> Tensor:
        f = mean + variance.sqrt() * self.draws.to(mean.dtype)[:, None, :]
        return f - f.logsumexp(2, keepdim=True)

    def expected_log(self, mean: Tensor, variance: Tensor) -> Tensor:
        """E log nu_k, [N, K]."""
        return self._log_softmax(mean, variance).mean(0)

    def log_predictive(self, mean: Tensor, variance: Tensor) -> Tensor:
        """log P(class), [N, K]."""
        return self._log_softmax(mean, variance).logsumexp(0) - math.log(len(self.draws))
