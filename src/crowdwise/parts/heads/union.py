"""One transition matrix from classes to the labels of all annotators (Wei et al. 2022).

    U[k, (a, l)] = softmax over all pairs (a, l) of logits,     sum over a and l = 1
    loss = -(mean over votes) log sum_k f(x)_k U[k, (a, y)]

The votes of all annotators are one union, and U says which entry of it a vote falls on: who votes, and what. With

    U[k, (a, l)] = S[k, a] R_a[k, l],     S[k, a] = sum_l U[k, (a, l)]

the loss is that of confusion matrices R_a and of S, who votes on which class. Where S is the same for every class it adds a
constant, and the loss is that of `ConfusionHead`; where annotators choose the classes they label, who votes tells of the label
as well. With one annotator S is one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crowdwise.kernels.mixture import log_mixture
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.head import Head

__all__ = ["UnionHead"]

# Probabilities of a start are kept this far from zero, so that their logits are finite.
_FLOOR = 1e-4


class UnionHead(Head):
    """The transition matrix as logits, [A * L, K]: a row is an entry of the union.

    Parameters
    ----------
    start : [A, K, L]
        Confusion matrices to start from.
    share : [A]
        Shares of the annotators in the votes, positive; the same for every class at the start.
    """

    def __init__(self, start: Tensor, share: Tensor) -> None:
        super().__init__()
        n_classes = start.shape[2]
        log_start = start.transpose(1, 2).clamp(min=_FLOOR).log().log_softmax(1) + share.log()[:, None, None]
        self.logits = nn.Parameter(log_start.reshape(-1, n_classes).contiguous())

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """log sum_k f_k U[k, vote], [E_b]: of the vote among those of all annotators."""
        return log_mixture(logits.log_softmax(1), self.logits.log_softmax(0), batch.position, batch.entry)

    def evidence(self, batch: Batch) -> Tensor:
        """log U[k, vote] for each true class k, [E_b, K]; judges held-out votes."""
        return self.logits.log_softmax(0).index_select(0, batch.entry)

    def confusion(self) -> Tensor:
        """R: what an annotator who votes says, [A, K, L]."""
        n_classes = self.logits.shape[1]
        return self.logits.reshape(-1, n_classes, n_classes).softmax(1).transpose(1, 2)

    def annotator_share(self) -> Tensor:
        """S: who votes on items of a class, [K, A]; rows sum to one."""
        n_classes = self.logits.shape[1]
        return torch.logsumexp(self.logits.log_softmax(0).reshape(-1, n_classes, n_classes), 1).exp().T
