"""A stochastic confusion matrix per annotator, trained with the network.

    p(vote l of a | x) = sum_k f(x)_k R_a[k, l],    R_a[k, :] = softmax(logits)

so rows stay on the simplex by construction. `likelihood="votes"` is the composite likelihood of CCEM
(every vote on its own); `"items"` couples the votes of an item through its label,

    log p(votes of n | x) = log sum_k f(x)_k prod_e R_{a_e}[k, y_e],

which uses the crowd's evidence fully where items have several votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from crowdwise.kernels.mixture import log_mixture
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.head import Head, mean_of_votes

__all__ = ["ConfusionHead", "Penalty", "identity_confusion"]

# Probabilities of a start are kept this far from zero, so that their logits are finite.
_FLOOR = 1e-4


class Penalty(Protocol):
    """What is added to the loss; sees the batch's class probabilities and the confusion matrices."""

    def __call__(self, log_f: Tensor, log_confusion_alk: Tensor, batch: Batch) -> Tensor:
        """Scalar, from log class probabilities [B, K] and log confusion matrices [A, L, K]."""
        ...


class ConfusionHead(Head):
    """Confusion matrices as logits, [A, L, K] (the layout in which a vote reads one row).

    Parameters
    ----------
    start : [A, K, L]
        Confusion matrices to start from.
    penalties
        Added to the loss.
    likelihood : "votes" or "items"
        Votes on their own, or coupled by their item.
    """

    def __init__(self, start: Tensor, penalties: Sequence[Penalty] = (), likelihood: str = "votes") -> None:
        super().__init__()
        self.logits = nn.Parameter(start.transpose(1, 2).clamp(min=_FLOOR).log().contiguous())
        self.penalties = tuple(penalties)
        self.likelihood = likelihood

    def log_confusion(self) -> Tensor:
        """log R, [A, L, K]."""
        return self.logits.log_softmax(1)

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the mean log-likelihood per vote, plus the penalties."""
        log_f, log_r = logits.log_softmax(1), self.log_confusion()
        table = log_r.reshape(-1, batch.n_classes)
        if self.likelihood == "items":
            joint = batch.joint_log_prob(log_f, table.index_select(0, batch.entry))
            total = -joint.sum() / batch.weight.sum().clamp(min=1e-12)
        else:
            total = mean_of_votes(-log_mixture(log_f, table, batch.position, batch.entry), batch)
        for penalty in self.penalties:
            total = total + penalty(log_f, log_r, batch)
        return total

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """log sum_k f_k R[k, vote], [E_b]."""
        table = self.log_confusion().reshape(-1, batch.n_classes)
        return log_mixture(logits.log_softmax(1), table, batch.position, batch.entry)

    def confusion(self) -> Tensor:
        """[A, K, L]."""
        return self.logits.softmax(1).transpose(1, 2)


def identity_confusion(n_annotators: int, n_classes: int, dtype: torch.dtype) -> Tensor:
    """Near-identity matrices, [A, K, L]: logits 1 on and -5 off the diagonal, as Ibrahim et al. start (.978 at K = 10)."""
    logits = torch.full((n_classes, n_classes), -5.0, dtype=dtype)
    logits.fill_diagonal_(1.0)
    return logits.softmax(1).expand(n_annotators, n_classes, n_classes).clone()
