"""Confusion matrices that depend on the item, with a penalty on their trace (after Zhang et al. 2020).

    T_a(x) = sum_m gate_m(x, a) R_{a,m},    gate(x, a) = softmax_m(G h(x) / sqrt(D) + c_a)
    p(vote y of a | x) = sum_k f(x)_k T_a(x)[k, y]
    loss = -(mean over votes) log p(vote) + strength x (mean over votes) trace T_a(x)

h(x) are the D features that the network itself computes (what its last linear layer reads). Rows of R_{a,m} are
softmaxes and T is a convex combination of them, so T is stochastic by construction. With u = softmax(G h / sqrt(D))
and v_a = softmax(c_a) the gate is u_m v_am / sum_m u_m v_am, hence

    p(vote) = sum_{m,k} (u_m f_k) (v_am R_{a,m}[k, y]) / sum_m u_m v_am :

mixtures over rows gathered per vote, O(E K M), and no matrix per vote. The gate reads the features without passing
gradients into them: the network learns through f alone and cannot bend its features to explain noise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from crowdwise.engines.gradient.batch import Batch
from crowdwise.engines.gradient.head import Head, mean_of_votes
from crowdwise.heads.penalties import Trace
from crowdwise.kernels.mixture import log_mixture

__all__ = ["InstanceHead"]

# Probabilities of a start are kept this far from zero, so that their logits are finite.
_FLOOR = 1e-4
# Logits of the diagonal by which the first component starts above the start's matrix, and the last below it.
import os
_APART = float(os.environ.get('APART','0.5'))
_SCALE = float(os.environ.get('SCALE','1'))


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
    trace
        Strength of the trace penalty by epoch.
    """

    reads_features = True
    gate_mean: Tensor

    def __init__(self, start: Tensor, width: int, components: int, trace: Trace) -> None:
        super().__init__()
        n_annotators, n_classes, _ = start.shape
        logits = start.transpose(1, 2).clamp(min=_FLOOR).log()[:, :, None, :].repeat(1, 1, components, 1)
        apart = torch.linspace(_APART, -_APART, components, dtype=start.dtype) if components > 1 else start.new_zeros(1)
        logits += apart[:, None] * torch.eye(n_classes, dtype=start.dtype)[:, None, :]
        self.logits = nn.Parameter(logits)
        self.direction = nn.Parameter(start.new_zeros(components, width))
        self.offset = nn.Parameter(start.new_zeros(n_annotators, components))
        self.trace = trace
        self.register_buffer("means", start.new_zeros(n_classes, width)); self.register_buffer("sums", start.new_zeros(n_classes, width)); self.register_buffer("mass", start.new_zeros(n_classes))
        self.register_buffer("gate_mean", start.new_full((n_annotators, components), 1 / components))

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the mean log-likelihood per vote, plus the mean trace of the votes' matrices."""
        if os.environ.get("PROJ"):
            with torch.no_grad():
                f = logits.softmax(1)
                self.sums.mul_(.95).add_(f.T @ (batch.features / math.sqrt(self.direction.shape[1]))); self.mass.mul_(.95).add_(f.sum(0))
                self.means.copy_(self.sums / self.mass[:, None].clamp(min=1e-6))
        log_r, log_u, log_v = self.logits.log_softmax(1), self._item_gate(batch.features), self.offset.log_softmax(1)
        annotator = batch.annotator
        log_gate_mass = log_mixture(log_u, log_v, batch.position, annotator)
        total = mean_of_votes(log_gate_mass - self._log_joint(logits, batch, log_r, log_u, log_v), batch)
        strength = self.trace.at(batch.epoch)
        if strength > 0:
            log_trace = log_r.diagonal(dim1=1, dim2=3).logsumexp(2)
            log_traced = log_mixture(log_u, log_v + log_trace, batch.position, annotator)
            total = total + strength * mean_of_votes((log_traced - log_gate_mass).exp(), batch)
        if os.environ.get("VOL"):
            from crowdwise.heads.penalties import PredictionVolume
            total = total + PredictionVolume(float(os.environ["VOL"]), 5, 5, balanced=bool(int(os.environ["BAL"])))(logits.log_softmax(1), None, batch)
        return total

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """log sum_k f_k T_a(x)[k, vote], [E_b]."""
        log_r, log_u, log_v = self.logits.log_softmax(1), self._item_gate(batch.features), self.offset.log_softmax(1)
        joint = self._log_joint(logits, batch, log_r, log_u, log_v)
        return joint - log_mixture(log_u, log_v, batch.position, batch.annotator)

    def evidence(self, batch: Batch) -> Tensor:
        """log T_a(x)[k, vote] for each true class k, [E_b, K]; judges held-out votes."""
        table = self.logits.softmax(1).flatten(0, 1).index_select(0, batch.entry)
        return torch.einsum("em,emk->ek", self.vote_gate(batch), table).clamp(min=1e-30).log()

    def vote_gate(self, batch: Batch) -> Tensor:
        """Shares of the components in the matrix of every vote, [E_b, M]."""
        log_u = self._item_gate(batch.features)
        return (log_u.index_select(0, batch.position) + self.offset.index_select(0, batch.annotator)).softmax(1)

    def gate(self, features: Tensor) -> Tensor:
        """Shares of the components for every row and annotator, [B, A, M]."""
        return (self._item_gate(features)[:, None, :] + self.offset).softmax(2)

    def confusion_of(self, features: Tensor, annotators: Tensor) -> Tensor:
        """T_a(x) for every row and the annotators at these positions, [B, A', K, L]."""
        return torch.einsum("bam,almk->bakl", self.gate(features)[:, annotators], self.logits[annotators].softmax(1))

    def confusion(self) -> Tensor:
        """T_a averaged with the gate's mean over the votes of each annotator, [A, K, L]."""
        return torch.einsum("am,almk->akl", self.gate_mean, self.logits.softmax(1))

    @torch.no_grad()
    def remember(self, features: Tensor, batch: Batch) -> Tensor:
        """Sum of the gates over the batch's votes of each annotator, [A, M]."""
        log_u, log_v, annotator = self._item_gate(features), self.offset.log_softmax(1), batch.annotator
        gate = (log_u.index_select(0, batch.position) + log_v.index_select(0, annotator)).softmax(1)
        return torch.zeros_like(log_v).index_add_(0, annotator, gate * batch.weight[:, None])

    def _item_gate(self, features: Tensor | None) -> Tensor:
        """log u, [B, M]."""
        assert features is not None, "the trainer fills in features for heads that read them"
        # Divided by sqrt(D): a step of the optimiser then moves the gate by as much for wide networks as for narrow ones.
        features = features.detach().to(self.direction.dtype) / math.sqrt(self.direction.shape[1])
        if os.environ.get("PROJ"):
            m = self.means - self.means.mean(0)
            gram = m @ m.T
            solve = torch.linalg.solve(gram + 1e-6 * gram.trace() * torch.eye(len(m), dtype=m.dtype) + 1e-12 * torch.eye(len(m), dtype=m.dtype), m)
            d = self.direction - (self.direction @ m.T) @ solve
            return (_SCALE * (features @ d.T)).log_softmax(1)
        return (_SCALE * (features @ self.direction.T)).log_softmax(1)

    def _log_joint(self, logits: Tensor, batch: Batch, log_r: Tensor, log_u: Tensor, log_v: Tensor) -> Tensor:
        """log sum_{m,k} u_m f_k v_am R_{a,m}[k, vote], [E_b]."""
        log_uf = (log_u[:, :, None] + logits.log_softmax(1)[:, None, :]).flatten(1)
        table = (log_r + log_v[:, None, :, None]).flatten(2).flatten(0, 1)
        return log_mixture(log_uf, table, batch.position, batch.entry)
