"""Which of K Gaussians is the largest: the robust-max and softmax likelihoods of Gaussian-process classification.

robust-max   nu_k(f) = 1 - eps if f_k is the largest, eps / (K - 1) otherwise
             p_k = P(f_k largest) = int F(x) h_k(x) dx,   F = prod_j Phi(u_j),  h_k = phi(u_k) / (sd_k Phi(u_k)),
                                                          u_j = (x - mean_j) / sd_j
             E log nu_k = p_k log(1 - eps) + (1 - p_k) log(eps / (K - 1))
softmax      nu_k(f) = exp f_k / sum_j exp f_j
             E log nu_k = mean_k - E log sum_j exp f_j,   one number per item, over 128 shared quasi-random draws
             P(class k) = E nu_k over 512

The integral runs over the value of the largest, so that all classes share one set of nodes: O(N G K), where
quadrature in each f_k on its own takes O(N Q K^2). It reaches from the highest "mean - 6 sd" to the highest
"mean + 6 sd": below the one the largest cannot be, above the other nothing is. Every function that can be the largest
reaches across the lower end, hence lies within 12 of its own standard deviations of it: the closer to that end, the
narrower. Equal steps in log(1 + distance / (6 least sd)) therefore suit all functions at once, however uneven, and converge
exponentially, since the integrand vanishes at both ends. p is normalised over k. For two classes
p_1 = Phi((mean_1 - mean_2) / sqrt(v_1 + v_2)) exactly. The gradient is written out: autograd would keep a dozen arrays of
[N, G, K].

Largest errors of the softmax over means from N(0, 2^2) and standard deviations of up to 3: of E log nu 0.02 for K = 2 and 3,
0.09 for K = 10, and 0.05 for K = 50; of probabilities 0.002 for K = 2 and 3, and 0.008 for K = 10 and 50.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
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
# Numbers of a block of rows, 8 MB.
_BLOCK = 1 << 20
# Of the share at which the largest function says nothing, eps is at most as much; and what stands for none.
_MOST_EPS, _NO_EPS = 0.99, 1e-12
# Steps of the searches for eps, and for the temperature: powers between exp(-_MOST_LOG) and exp(_MOST_LOG).
_HALVINGS, _PASSES, _GRID, _MOST_LOG = 40, 4, 17, 3.0


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


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, nodes: Tensor) -> Tensor:
        """E log sum_k exp f_k over nodes [K, 1, S], [N], with its slopes; both in blocks of rows."""
        total, by_mean, by_sd = mean.new_empty(len(mean)), torch.empty_like(mean), torch.empty_like(mean)
        for rows in _row_blocks(mean, nodes):
            f = _functions(mean[rows], variance[rows], nodes)
            most = f.amax(0)
            f.sub_(most).exp_()
            norm = f.sum(0)
            total[rows] = norm.log().add_(most).mean(1)
            f.div_(norm)
            by_mean[rows] = f.mean(2).T
            by_sd[rows] = f.mul_(nodes).mean(2).T
        ctx.save_for_backward(by_mean, by_sd / (2 * variance.sqrt()))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        by_mean, by_variance = ctx.saved_tensors
        return grad[:, None] * by_mean, grad[:, None] * by_variance, None


def _functions(mean: Tensor, variance: Tensor, nodes: Tensor) -> Tensor:
    """Values of the functions, [K, N, S]: classes first, because sums over a short last axis are slow."""
    return torch.addcmul(mean.T[:, :, None], variance.sqrt().T[:, :, None], nodes)


def _row_blocks(mean: Tensor, nodes: Tensor) -> Iterator[slice]:
    """Rows whose functions at all nodes are at most `_BLOCK` numbers, or single rows."""
    step = max(_BLOCK // nodes.numel(), 1)
    return (slice(first, first + step) for first in range(0, len(mean), step))


class RobustMax(nn.Module):
    """The largest wins, but for a share `eps`, which the other classes have in equal parts."""

    eps: Tensor

    def __init__(self, eps: float = 1e-3) -> None:
        super().__init__()
        self.least = eps
        # A buffer: what is learned is saved with the process.
        self.register_buffer("eps", torch.tensor(eps, dtype=torch.float64))

    def expected_log(self, mean: Tensor, variance: Tensor) -> Tensor:
        """E log nu_k, [N, K]."""
        p = largest_probability(mean, variance)
        eps, n_others = float(self.eps), max(mean.shape[1] - 1, 1)
        return p * math.log1p(-eps) + (1 - p) * math.log(eps / n_others)

    def log_predictive(self, mean: Tensor, variance: Tensor) -> Tensor:
        """log P(class), [N, K]."""
        p = largest_probability(mean, variance)
        eps, n_others = float(self.eps), max(mean.shape[1] - 1, 1)
        return (p * (1 - eps) + (1 - p) * eps / n_others).log().log_softmax(1)

    @contextmanager
    def unlearned(self) -> Iterator[None]:
        """Within it, probabilities are those of the functions alone."""
        eps = float(self.eps)
        self.eps.fill_(_NO_EPS)
        try:
            yield
        finally:
            self.eps.fill_(eps)

    def learn(self, log_p: Tensor, told: Tensor) -> None:
        """Take the eps under which votes on other items are most likely, and not less than it was at first.

        Parameters
        ----------
        log_p : [n, K]
            What the functions alone say of items that did not teach them.
        told : [n, K]
            Likelihood of the items' votes by class, up to a factor per item.
        """
        n_classes = log_p.shape[1]
        if n_classes == 1 or len(log_p) == 0:
            return
        # The likelihood of an item's votes is linear in eps, hence its logarithm concave: the slope falls through zero once.
        won = (told * log_p.exp()).sum(1)
        lost = (told.sum(1) - won) / (n_classes - 1)
        low, high = self.least, max(_MOST_EPS * (1 - 1 / n_classes), self.least)
        for _ in range(_HALVINGS):
            eps = (low + high) / 2
            rising = bool(((lost - won) / (won * (1 - eps) + lost * eps)).sum() > 0)
            low, high = (eps, high) if rising else (low, eps)
        self.eps.fill_((low + high) / 2)


class Softmax(nn.Module):
    """Probabilities proportional to exp f; those of predictions to the power 1 / `temperature`."""

    draws: Tensor
    temperature: Tensor

    def __init__(self, n_classes: int, n_draws: int = 512, n_training: int = 128, seed: int = 0) -> None:
        super().__init__()
        from scipy.special import ndtri
        from scipy.stats import qmc

        uniform = qmc.Sobol(n_classes, seed=seed).random(n_draws)
        self.n_training = n_training
        self.register_buffer("draws", torch.from_numpy(ndtri(np.clip(uniform, 1e-9, 1 - 1e-9))))
        self.register_buffer("temperature", torch.ones((), dtype=torch.float64))

    def _nodes(self, mean: Tensor, n_draws: int) -> Tensor:
        """The first draws, [K, 1, S], with mean 0 and variance 1 in every class, as what they stand for."""
        nodes = self.draws[:n_draws].T[:, None, :]
        nodes = nodes - nodes.mean(2, keepdim=True)
        return (nodes / nodes.square().mean(2, keepdim=True).sqrt()).to(mean.dtype)

    def expected_log(self, mean: Tensor, variance: Tensor) -> Tensor:
        """E log nu_k, [N, K]."""
        total: Tensor = _LogSumExp.apply(mean, variance, self._nodes(mean, self.n_training))  # type: ignore[no-untyped-call]
        return mean - total[:, None]

    def log_predictive(self, mean: Tensor, variance: Tensor) -> Tensor:
        """log P(class), [N, K]."""
        nodes = self._nodes(mean, len(self.draws))
        # Made beforehand: results that are made between blocks keep the memory of the blocks from being used again.
        log_p = torch.empty_like(mean)
        for rows in _row_blocks(mean, nodes):
            log_p[rows] = _functions(mean[rows], variance[rows], nodes).log_softmax(0).logsumexp(2).T
        return (log_p / float(self.temperature)).log_softmax(1)

    @contextmanager
    def unlearned(self) -> Iterator[None]:
        """Within it, probabilities are those of the functions alone."""
        temperature = float(self.temperature)
        self.temperature.fill_(1.0)
        try:
            yield
        finally:
            self.temperature.fill_(temperature)

    def learn(self, log_p: Tensor, told: Tensor) -> None:
        """Take the temperature under which votes on other items are most likely; see `RobustMax.learn`.

        As if there were one item more, of another class than the functions find likeliest: from few items that they are right
        about, or whose votes can be wrong as well, nobody may conclude that they always are.
        """
        if log_p.shape[1] == 1 or len(log_p) == 0:
            return
        others = torch.ones_like(log_p).scatter(1, log_p.argmax(1, keepdim=True), 0).bool()

        def fit(powers: Tensor) -> Tensor:
            """Log-likelihood under each power of the probabilities."""
            tempered = (powers[:, None, None] * log_p).log_softmax(2)
            surprise = tempered.masked_fill(~others, -torch.inf).logsumexp(2).mean(1)
            return (tempered.exp() * told).sum(2).log().sum(1) + surprise

        low, high = -_MOST_LOG, _MOST_LOG
        # Every pass leaves two of the steps around the best.
        for _ in range(_PASSES):
            grid = torch.linspace(low, high, _GRID, dtype=log_p.dtype, device=log_p.device)
            best = int(fit(grid.exp()).argmax())
            low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
        self.temperature.fill_(math.exp(-(low + high) / 2))
