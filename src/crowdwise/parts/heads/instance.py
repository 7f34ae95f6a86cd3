"""Confusion matrices that depend on the item, with a penalty on their trace (after Zhang et al. 2020).

    T_a(x) = sum_m gate_m(x, a) R_{a,m},    gate(x, a) = softmax_m(G h(x) / sqrt(D) + c_a)
    p(vote y of a | x) = sum_k f(x)_k T_a(x)[k, y]
    loss = -(mean over votes) log p(vote) + strength x (mean over votes) trace T_a(x) + penalties

h(x) are the D features that the network itself computes (what its last linear layer reads). Rows of R_{a,m} are
softmaxes and T is a convex combination of them, so T is stochastic by construction. With u = softmax(G h / sqrt(D))
and v_a = softmax(c_a) the gate is u_m v_am / sum_m u_m v_am, hence

    p(vote) = sum_{m,k} (u_m f_k) (v_am R_{a,m}[k, y]) / sum_m u_m v_am :

mixtures over rows gathered per vote, O(E K M), and no matrix per vote. The gate reads the features without passing
gradients into them: the network learns through f alone and cannot bend its features to explain noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crowdwise.kernels.gated_mixture import gated_surprise
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.confusion import Penalty
from crowdwise.parts.heads.head import Head, mean_of_votes
from crowdwise.parts.heads.penalties import Trace

__all__ = ["InstanceHead", "log_item_gate"]

# Probabilities of a start are kept this far from zero, so that their logits are finite.
_FLOOR = 1e-4
# Logits of the diagonal by which the first component starts above the start's matrix, and the last below it.
_APART = 0.5


class InstanceHead(Head):
    """M confusion matrices per annotator, as logits [A, L, M, K], and a gate between them.

    Parameters
    ----------
    start : [A, K, L]
        Confusion matrices to start from. All components start there, the first a little more accurate and the last a
        little less: equal ones would stay equal.
    width : int
        Number of features that the network computes, D.
    components : int
        M.
    trace : Trace
        Strength of the trace penalty by epoch.
    penalties
        Added to the loss: penalties on the class probabilities (the matrices, which have components, are not shown to them).
    """

    reads_features = True

    def __init__(self, start: Tensor, width: int, components: int, trace: Trace, penalties: Sequence[Penalty] = ()) -> None:
        super().__init__()
        n_annotators, n_classes, _ = start.shape
        apart = torch.linspace(_APART, -_APART, components, dtype=start.dtype) if components > 1 else start.new_zeros(1)
        logits = start.transpose(1, 2).clamp(min=_FLOOR).log()[:, :, None, :].repeat(1, 1, components, 1)
        logits += apart[:, None] * torch.eye(n_classes, dtype=start.dtype)[:, None, :]
        self.logits = nn.Parameter(logits)
        self.direction = nn.Parameter(start.new_zeros(components, width))
        self.offset = nn.Parameter(start.new_zeros(n_annotators, components))
        self.trace, self.penalties = trace, tuple(penalties)

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the mean log-likelihood per vote, plus the mean trace of the votes' matrices and the penalties."""
        log_f = logits.log_softmax(1)
        total = mean_of_votes(self._surprise(log_f, batch, self.trace.at(batch.epoch)), batch)
        for penalty in self.penalties:
            total = total + penalty(log_f, log_f.new_empty(0), batch)
        return total

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """log sum_k f_k T_a(x)[k, vote], [E_b]."""
        return -self._surprise(logits.log_softmax(1), batch)

    def evidence(self, batch: Batch) -> Tensor:
        """log T_a(x)[k, vote] for each true class k, [E_b, K]; judges held-out votes."""
        table = self.logits.softmax(1).flatten(0, 1).index_select(0, batch.entry)
        return torch.einsum("em,emk->ek", self.vote_gate(batch), table).clamp(min=1e-30).log()

    def vote_gate(self, batch: Batch) -> Tensor:
        """Shares of the components in the matrix of every vote, [E_b, M]."""
        item_gate = self._item_gate(batch)
        return (item_gate.index_select(0, batch.position) + self.offset.index_select(0, batch.annotator)).softmax(1)

    def confusion(self) -> Tensor:
        """The components at the gate of an item without features, [A, K, L]."""
        return torch.einsum("am,almk->akl", self.offset.softmax(1), self.logits.softmax(1))

    def _surprise(self, log_f: Tensor, batch: Batch, strength: float = 0.0) -> Tensor:
        """-log sum_k f_k T_a(x)[k, vote] + strength x trace T_a(x), [E_b]."""
        item_gate = self._item_gate(batch)
        return gated_surprise(log_f, self.logits, item_gate, self.offset, batch.position, batch.entry, strength)

    def _item_gate(self, batch: Batch) -> Tensor:
        assert batch.features is not None, "the trainer fills in features for heads that read them"
        return _item_logits(batch.features.detach().to(self.direction.dtype), self.direction)


def log_item_gate(features: Tensor, direction: Tensor) -> Tensor:
    """log u, the item's part of the gate, [B, M], from features [B, D] and G, [M, D]."""
    return _item_logits(features, direction).log_softmax(1)


def _item_logits(features: Tensor, direction: Tensor) -> Tensor:
    # Divided by sqrt(D): a step of the optimiser then moves the gate by as much for wide networks as for narrow ones.
    return nn.functional.linear(features / math.sqrt(direction.shape[1]), direction)
