"""The votes of a minibatch, gathered from the edge list.

One epoch orders the items at random; the votes of a batch are then found in a handful of vector operations, while they are
still in the processor's cache. Memory grows with the votes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdwise.data.annotations import Annotations

__all__ = ["Batch", "Mix", "VoteList", "n_batches"]


@dataclass(frozen=True, eq=False)
class Mix:
    """Rows that are trained on as mixtures of two: ``share`` of the row itself, the rest of its partner.

    Attributes
    ----------
    partner : [B]
        Which of the B rows each is mixed with.
    share : [B]
        How much of the mixture is the row itself.
    """

    partner: Tensor
    share: Tensor

    def of(self, own: Tensor) -> Tensor:
        """Mixtures of one value per row, [B, ...]."""
        return self.between(own, own.index_select(0, self.partner), self.share)

    @staticmethod
    def between(own: Tensor, other: Tensor, share: Tensor) -> Tensor:
        """``share`` of one and the rest of the other, row by row."""
        share = share.to(own.dtype).reshape(-1, *(1 for _ in own.shape[1:]))
        return share * own + (1 - share) * other


@dataclass(frozen=True, eq=False)
class Batch:
    """Items of a step and their votes, as codes.

    Attributes
    ----------
    rows : [B]
        Positions of the items among all items.
    position : [E_b]
        For every vote, which of the B rows it is on; ascending.
    entry : [E_b]
        ``annotator * K + label`` of every vote: a row of a table [A * L, ...].
    vote : [E_b]
        Positions of the votes in the edge list.
    weight : [E_b]
        Weight of every vote, times the weight of its item.
    item_weight : [B]
        Weight of every item (class weights for imbalance; ones without).
    n_classes : int
        K.
    epoch : int
        Epochs finished before this one.
    features : [B, D] or None
        What the network's last linear layer read, for heads that ask for it.
    mix : Mix or None
        Where rows are trained on as mixtures of two.
    """

    rows: Tensor
    position: Tensor
    entry: Tensor
    vote: Tensor
    weight: Tensor
    item_weight: Tensor
    n_classes: int
    epoch: int = 0
    features: Tensor | None = None
    mix: Mix | None = None

    def by_vote(self) -> Batch:
        """The same votes, each on a row of its own."""
        return replace(
            self,
            rows=self.rows.index_select(0, self.position),
            position=torch.arange(len(self.position), device=self.position.device),
            item_weight=self.item_weight.index_select(0, self.position),
        )

    @property
    def annotator(self) -> Tensor:
        """Annotator of every vote, [E_b]."""
        return torch.div(self.entry, self.n_classes, rounding_mode="floor")

    @property
    def label(self) -> Tensor:
        """Label of every vote, [E_b]."""
        return self.entry % self.n_classes

    def sum_by_item(self, values: Tensor) -> Tensor:
        """Sum one row per vote over the votes of each item, [B, ...]."""
        return values.new_zeros((len(self.rows), *values.shape[1:])).index_add_(0, self.position, values)

    def joint_log_prob(self, log_f: Tensor, evidence: Tensor) -> Tensor:
        """Log-probability of all votes of each item, its label summed out, times the weight of the item, [B].

        Parameters
        ----------
        log_f : [B, K]
            Log class probabilities.
        evidence : [E_b, K]
            Log-probability of every vote for each class.
        """
        # The item's weight multiplies the logarithm of the sum; inside it, only the vote's own may stand.
        own = self.weight / self.item_weight.clamp(min=1e-30).index_select(0, self.position)
        joint = (log_f + self.sum_by_item(evidence * own[:, None])).logsumexp(1)
        # Without votes the sum over labels is one: nothing to learn, not even from its rounding error.
        return joint * torch.where(self.sum_by_item(self.weight) > 0, self.item_weight, 0)


class VoteList:
    """The edge list of `Annotations` as tensors."""

    def __init__(self, votes: Annotations, dtype: torch.dtype, device: torch.device, item_weight: Any = None) -> None:
        def tensor(values: Any, kind: torch.dtype) -> Tensor:
            return torch.tensor(np.asarray(values), dtype=kind, device=device)

        self.n_classes = votes.n_classes
        self.n_items = votes.n_items
        self.start = tensor(votes.item_ptr[:-1], torch.int64)
        self.count = tensor(np.diff(votes.item_ptr), torch.int64)
        self.entry = tensor(votes.row, torch.int64)
        self.item_weight = tensor(np.ones(votes.n_items) if item_weight is None else item_weight, dtype)
        weight = None if votes.weight is None else tensor(votes.weight, dtype)
        self.weight = weight

    def batches(self, order: Tensor, size: int, epoch: int = 0) -> Iterator[Batch]:
        """Cut the items of `order` into even batches of at most `size` (see `n_batches`), each with its votes."""
        count, start, item_weight = (array.index_select(0, order) for array in (self.count, self.start, self.item_weight))
        stop = count.cumsum(0)
        n_parts = n_batches(len(order), size)
        cut = [len(order) * number // n_parts for number in range(n_parts + 1)] if n_parts else [0]
        edge = [0, *stop[torch.tensor(cut[1:], dtype=torch.int64, device=order.device) - 1].tolist()]
        # What is to be added to the place of a vote in the new order to find it in the edge list.
        shift = start - (stop - count)
        for number, first in enumerate(cut[:-1]):
            items = slice(first, cut[number + 1])
            own = item_weight[items]
            n_votes = edge[number + 1] - edge[number]
            position = torch.repeat_interleave(count[items], output_size=n_votes)
            vote = torch.arange(edge[number], edge[number + 1], device=order.device)
            vote += shift[items].index_select(0, position)
            weight = own.index_select(0, position)
            if self.weight is not None:
                weight = self.weight.index_select(0, vote) * weight
            yield Batch(order[items], position, self.entry.index_select(0, vote), vote, weight, own, self.n_classes, epoch)


def n_batches(n_items: int, size: int) -> int:
    """Batches of an epoch: as many as `size` asks for, all of about one size.

    A short last batch would stand for all items like the others, with fewer to say so. No item is left alone in one where it
    need not be, because layers that normalise over it cannot train: three items in batches of two are one batch.
    """
    wanted = -(-n_items // size)
    return min(wanted, max(n_items // 2, 1)) if size > 1 else wanted
