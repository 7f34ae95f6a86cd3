"""Confusion matrices, and items that no confusion matrix explains (COINNet).

    p(vote y of a on n) = s_e + t_e,    s_e = sum_k f(x_n)_k R_a[k, y],    t_e = omega_n (1 - s_e)
    loss = -(mean over votes) log(s_e + t_e) + mu (mean over items) (sum_a |e_na|^2 + zeta)^(p/2) + penalties

The published e_na is a free vector per item and annotator that sums to zero. The likelihood sees only its
entry at the vote, so the cheapest e_na that adds t_e there takes t_e / (K - 1) from every other label:
|e_na|^2 = t_e^2 K / (K - 1). (Where another label has less than that to give, the norm is larger, at
most 2 t_e^2.) With t_e = omega_n (1 - s_e) the probability of the vote stays in [0, 1] for omega in [0, 1].

omega_n belongs to one item, so it is not trained: given s_e it is the minimiser of the loss over a grid, for
all items of a batch at once. Nothing is stored per item or vote, O(E) work is added to `ConfusionHead`, and zeta
needs no schedule (trained from e = 0, its power would freeze or blow up the gradient).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdwise.kernels.mixture import log_mixture
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.confusion import ConfusionHead, Penalty
from crowdwise.parts.heads.head import mean_of_votes

__all__ = ["OutlierHead"]

# Below 1, so that an item taken for an outlier still teaches a little and can come back; above 0, so that scores rank them all.
_GRID = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.95)
# Votes of a batch from which a compiled loop pays for loading it.
_COMPILED_FROM = 1_000
# Share of the newest batch in the running mean of omega.
_NEWEST = 0.1


class OutlierHead(ConfusionHead):
    """Confusion matrices plus an outlier share per item.

    Parameters
    ----------
    start : [A, K, L]
        Confusion matrices to start from.
    penalties
        Added to the loss.
    strength, power, zeta : float
        mu, p and zeta of the sparse penalty.
    begin : int
        Epochs in which no item is an outlier yet: an untrained network explains nothing.
    """

    rate: Tensor

    def __init__(
        self,
        start: Tensor,
        penalties: Sequence[Penalty] = (),
        *,
        strength: float,
        power: float = 0.4,
        zeta: float = 1e-4,
        begin: int = 0,
    ) -> None:
        super().__init__(start, penalties)
        self.strength, self.power, self.zeta, self.begin = strength, power, zeta, begin
        self.register_buffer("rate", torch.zeros((), dtype=start.dtype))

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the mean log-likelihood per vote, plus the sparse penalty and the others."""
        log_f, log_r = logits.log_softmax(1), self.log_confusion()
        log_s = log_mixture(log_f, log_r.reshape(-1, batch.n_classes), batch.position, batch.entry)
        if batch.epoch < self.begin:
            total = mean_of_votes(-log_s, batch)
        elif log_s.device.type == "cpu" and len(log_s) >= _COMPILED_FROM:
            loss, share = _OutlierLoss.apply(log_s, batch, self)  # type: ignore[no-untyped-call]
            self.rate.lerp_(share, _NEWEST)
            total = loss
        else:
            missing = 1 - log_s.exp()
            omega = self.outlier_share(missing.detach(), batch)
            self._remember(omega, batch)
            added = omega.index_select(0, batch.position) * missing
            total = mean_of_votes(-(1 - missing + added).log(), batch) + self._sparsity(added, batch)
        for penalty in self.penalties:
            total = total + penalty(log_f, log_r, batch)
        return total

    @torch.no_grad()
    def outlier_share(self, missing: Tensor, batch: Batch, votes_per_item: float | None = None) -> Tensor:
        """omega of every item, [B], that minimises the loss for votes of probability ``1 - missing``, [E_b].

        `votes_per_item` (their mean weight) is the batch's unless given.
        """
        grid = missing.new_tensor(_GRID)
        gain = (1 - missing[:, None] * (1 - grid)).log_() * batch.weight[:, None]
        item_mass = _mass(batch)
        per_item = batch.weight.sum() / item_mass.sum().clamp(min=1e-12) if votes_per_item is None else votes_per_item
        size = self._size(missing, batch)[:, None] * grid.square()
        # The loss times the weight of the votes, item by item.
        cost = (size + self.zeta) ** (self.power / 2) * (self.strength * per_item * item_mass)[:, None]
        return grid[(cost - batch.sum_by_item(gain)).argmin(1)]

    @torch.no_grad()
    def scores(self, logits: Tensor, batch: Batch, votes_per_item: float | None = None) -> Tensor:
        """Outlier score of every item, [B]: the sum of |e|^2 over its votes."""
        missing = 1 - super().vote_log_prob(logits, batch).exp()
        return self._size(missing, batch) * self.outlier_share(missing, batch, votes_per_item).square()

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """Votes on items never trained on, [E_b]: as likely outliers as the others, and then any label alike."""
        s = super().vote_log_prob(logits, batch).exp()
        return ((1 - self.rate) * s + self.rate / batch.n_classes).clamp(min=1e-30).log()

    def evidence(self, batch: Batch) -> Tensor:
        """The same for each true class, [E_b, K]; judges held-out votes."""
        r = super().evidence(batch).exp()
        return ((1 - self.rate) * r + self.rate / batch.n_classes).clamp(min=1e-30).log()

    def _size(self, added: Tensor, batch: Batch) -> Tensor:
        """Sum of |e|^2 over the votes of each item, [B], for votes raised by `added`."""
        # A vote of weight two counts as two; the item's own weight multiplies its penalty instead.
        own = batch.weight / batch.item_weight.clamp(min=1e-30).index_select(0, batch.position)
        return batch.sum_by_item(added.square() * own) * (batch.n_classes / (batch.n_classes - 1))

    def _sparsity(self, added: Tensor, batch: Batch) -> Tensor:
        item_mass = _mass(batch)
        each = (self._size(added, batch) + self.zeta) ** (self.power / 2)
        return self.strength * (each * item_mass).sum() / item_mass.sum().clamp(min=1e-12)

    @torch.no_grad()
    def _remember(self, omega: Tensor, batch: Batch) -> None:
        item_mass = _mass(batch)
        mean = (omega * item_mass).sum() / item_mass.sum().clamp(min=1e-12)
        self.rate.lerp_(mean.to(self.rate.dtype), _NEWEST)


class _OutlierLoss(torch.autograd.Function):
    """The loss at the best shares, and their mean, by one compiled loop that knows the slopes at once."""

    @staticmethod
    def forward(ctx: Any, log_s: Tensor, batch: Batch, head: OutlierHead) -> tuple[Tensor, Tensor]:
        """Return the loss and the mean share, two scalars."""
        from crowdwise.kernels.outlier_loops import outlier_loss

        loss, share, slope = outlier_loss(
            log_s.detach().numpy(),
            batch.position.numpy(),
            batch.weight.numpy(),
            batch.item_weight.numpy(),
            np.array(_GRID),
            head.strength,
            head.power,
            head.zeta,
            batch.n_classes / (batch.n_classes - 1),
        )
        ctx.slope = torch.from_numpy(slope)
        mean_share = log_s.new_tensor(share)
        ctx.mark_non_differentiable(mean_share)
        return log_s.new_tensor(loss), mean_share

    @staticmethod
    def backward(ctx: Any, grad: Tensor, by_share: Tensor) -> tuple[Tensor, None, None]:
        """The shares are given: by them the loss has no slope."""
        return grad * ctx.slope, None, None


def _mass(batch: Batch) -> Tensor:
    """Weight of every item with votes, zero for those without, [B]."""
    return batch.item_weight * torch.zeros_like(batch.item_weight).index_fill_(0, batch.position, 1.0)
