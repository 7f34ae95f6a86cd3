"""Training on class probabilities: as a method of its own, and as the warm-up of the others."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crowdwise.kernels.mixture import log_mixture
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.head import Head

__all__ = ["SoftTargets", "WarmStart", "soft_cross_entropy"]


class SoftTargets(Head):
    """Ordinary training on class probabilities: cross-entropy with a row of `target` per item.

    `confusion` is what the targets imply and is not trained.
    """

    target: Tensor
    fixed_confusion: Tensor

    def __init__(self, target: Tensor, confusion: Tensor) -> None:
        super().__init__()
        self.register_buffer("target", target)
        self.register_buffer("fixed_confusion", confusion)

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of the items."""
        return soft_cross_entropy(logits, self.target.index_select(0, batch.rows), batch.item_weight)

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """Votes through the fixed confusion matrices."""
        table = self.fixed_confusion.transpose(1, 2).reshape(-1, batch.n_classes)
        return log_mixture(logits.log_softmax(1), table.log(), batch.position, batch.entry)

    def confusion(self) -> Tensor:
        """[A, K, L]."""
        return self.fixed_confusion


class WarmStart(Head):
    """Train on soft targets for some epochs, then by the votes: later epochs start from a sensible network."""

    def __init__(self, head: Head, target: Tensor, epochs: int) -> None:
        super().__init__()
        self.head = head
        self.epochs = epochs
        self.register_buffer("target", target)
        self.reads_features, self.uses_gold = head.reads_features, head.uses_gold

    target: Tensor

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy first, the head's own loss after."""
        if batch.epoch < self.epochs:
            self.head.watch(logits, batch)
            return soft_cross_entropy(logits, self.target.index_select(0, batch.rows), batch.item_weight)
        return self.head.loss(logits, batch)

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """The head's."""
        return self.head.vote_log_prob(logits, batch)

    def evidence(self, batch: Batch) -> Tensor:
        """The head's."""
        return self.head.evidence(batch)

    def confusion(self) -> Tensor:
        """The head's."""
        return self.head.confusion()

    def mixed(self, batch: Batch) -> Batch:
        """The head's after the warm-up."""
        return batch if batch.epoch < self.epochs else self.head.mixed(batch)

    def begin_epoch(self, epoch: int, log_prob: Callable[[], Tensor]) -> None:
        """The head's turn comes after the warm-up."""
        if epoch >= self.epochs:
            self.head.begin_epoch(epoch, log_prob)

    def end_epoch(self) -> dict[str, float]:
        """The head's, of the warm-up as well."""
        return self.head.end_epoch()


def soft_cross_entropy(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean of -sum_k target_k log softmax(logits)_k."""
    per_item = torch.nn.functional.cross_entropy(logits, target, reduction="none")
    return (per_item * weight).sum() / weight.sum().clamp_(min=1e-12)
