"""The network and the crowd as two views of the label that shall tell most about each other (MaxMIG).

    h_n = f(x_n),    g_n = softmax(b + sum over votes e on n of w_a[:, y_e]),    D_ij = sum_c h_ic g_jc / p_c
    loss = -(1/B) sum_i (1 + log D_ii) + 1/(B (B - 1)) sum_{i != j} D_ij

Minus the loss is a lower bound of the mutual information of the two views (the dual form of KL); D is at
its best the ratio p(x, votes) / p(x) p(votes). The sum over pairs needs no pair,

    sum_{i != j} D_ij = (sum_i h_i / p) . (sum_j g_j) - sum_i D_ii,

so a batch costs O(E K + B K). Items without votes have no second view and take no part.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crowdwise.kernels.mixture import log_mixture
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.head import Head

__all__ = ["MutualInformationHead"]

# Added to the start's probabilities before the log, as in the published code.
_SMOOTHING = 0.01
# Smallest class share: D divides by the shares.
_LEAST_SHARE = 1e-3
# Smallest ratio of an item's own pair: a log of less is a vote that the network is sure to be wrong, and teaches nothing.
_LEAST_RATIO = 1e-4


class MutualInformationHead(Head):
    """Weights of the votes, [A * L, K], and a bias, [K]: the crowd's classifier.

    Parameters
    ----------
    start : [A, K, L]
        Confusion matrices to start from.
    shares : [K]
        Class shares p; they stay fixed.
    """

    log_shares: Tensor

    def __init__(self, start: Tensor, shares: Tensor) -> None:
        super().__init__()
        n_classes = start.shape[1]
        self.weight = nn.Parameter((start.transpose(1, 2) + _SMOOTHING).log().reshape(-1, n_classes).clone())
        shares = shares.clamp(min=_LEAST_SHARE)
        self.register_buffer("log_shares", (shares / shares.sum()).log())
        self.bias = nn.Parameter(self.log_shares.clone())

    def crowd_log_prob(self, batch: Batch) -> Tensor:
        """log g of every item, [B, K]: what its votes say."""
        # The weight of an item counts once, in the loss; here only the votes' own count.
        own = batch.weight / batch.item_weight.clamp(min=1e-12).index_select(0, batch.position)
        evidence = batch.sum_by_item(self.weight.index_select(0, batch.entry) * own[:, None])
        return (evidence + self.bias).log_softmax(1)

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the lower bound of the mutual information, over the items with votes."""
        voted = torch.zeros_like(batch.item_weight).index_fill_(0, batch.position, 1.0)
        mass = batch.item_weight * voted
        total = mass.sum()
        log_h = logits.log_softmax(1) - self.log_shares
        log_g = self.crowd_log_prob(batch)
        own = (log_h + log_g).exp().sum(1)
        pairs = (mass @ log_h.exp()) @ (mass @ log_g.exp()) - (mass.square() * own).sum()
        n_pairs = total.square() - mass.square().sum()
        joint = (mass * (1 + own.clamp(min=_LEAST_RATIO).log())).sum() / total.clamp(min=1e-12)
        # A batch of one item has no pair.
        return pairs / n_pairs.clamp(min=1e-12) * (voted.sum() > 1) - joint

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """Votes through the matrices that the weights imply, [E_b]."""
        table = self._log_confusion().reshape(-1, batch.n_classes)
        return log_mixture(logits.log_softmax(1), table, batch.position, batch.entry)

    def confusion(self) -> Tensor:
        """exp(w), rows normalised over the observed label, [A, K, L]: exact for annotators who err independently."""
        return self._log_confusion().exp().transpose(1, 2)

    def _log_confusion(self) -> Tensor:
        n_classes = len(self.bias)
        return self.weight.reshape(-1, n_classes, n_classes).log_softmax(1)
