"""Annotators as weights of a vote: majority (all one), Wawa and zero-based skill.

The posterior is the weighted share of votes, not a probability model; there is no bound.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import overwrite, segment_sum, vote_shares
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import SetByMethod, taken

__all__ = ["VoteShares", "VoteWeights"]


class VoteShares(SetByMethod):
    """Base of models whose posterior is a share of votes."""

    additive_in: ClassVar[str] = "share"

    @abstractmethod
    def shares(self, votes: Annotations, prior: Floats) -> Floats:
        """Share of every class, [N, K]; items without votes that count get the class prior."""

    @abstractmethod
    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """What each vote adds to the share of each class, [len(index), K]; votes of one item sum to its shares."""

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """Overwrite `posterior` with the shares; a share has no evidence."""
        return 0.0, overwrite(posterior, self.shares(votes, np.exp(log_prior[0])), known)

    def counts(self, votes: Annotations, posterior: Floats, class_shares: Floats) -> Floats:
        """Expected confusion counts, [A, L, K], in which no vote counts as evidence for itself.

        A vote is compared with what the votes of others on its item decide (ties are split), or with the class shares where
        there are none: compared with their own, annotators who always vote alone would never be wrong. Known labels stay known.
        """
        rows = np.arange(votes.n_votes)
        _, by = np.unique(votes.pair, return_inverse=True)
        said = self.log_lik(votes, rows)
        own = np.stack([segment_sum(by, said[:, k], votes.n_votes)[by] for k in range(votes.n_classes)], axis=1)
        others = np.maximum(posterior[votes.item], 0.0)
        open_votes = rows[~votes.is_known[votes.item]]
        others[open_votes] -= own[open_votes]
        rest = others[open_votes]
        alone = rest.sum(axis=1, keepdims=True) < 1e-9
        first = rest >= rest.max(axis=1, keepdims=True, initial=0.0) - 1e-9
        others[open_votes] = np.where(alone, class_shares, first / first.sum(axis=1, keepdims=True))
        weight = votes.weights
        n_rows = votes.n_annotators * votes.n_classes
        counts = np.stack([segment_sum(votes.row, weight * share, n_rows) for share in others.T], axis=1)
        return counts.reshape(votes.n_annotators, votes.n_classes, votes.n_classes)


@storable
@dataclass(frozen=True, eq=False)
class VoteWeights(VoteShares):
    """One weight >= 0 per annotator; `typical` is the weight of one never seen."""

    shapes: ClassVar[dict[str, str]] = {"weight": "a"}
    weight: Floats
    typical: float = 1.0

    def shares(self, votes: Annotations, prior: Floats) -> Floats:
        """Weighted vote shares, [N, K]; items without (weighted) votes get the class prior."""
        weight = self._weight_of_votes(votes)
        posterior = vote_shares(votes.item_ptr, votes.label, weight, votes.n_classes)
        posterior[self.per_item(votes) <= 0] = prior
        return posterior

    def per_item(self, votes: Annotations) -> Floats:
        """Total weight of the votes on each item, [N]."""
        total, voted = np.zeros(votes.n_items), np.flatnonzero(votes.votes_per_item)
        if len(voted):
            # Votes are sorted by item; an item of every vote would take more memory than the votes.
            total[voted] = np.add.reduceat(self._weight_of_votes(votes), votes.item_ptr[voted])
        return total

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """What each vote adds to the share of each class, [len(index), K]; votes of one item sum to its shares."""
        weight = self._weight_of_votes(votes)[index]
        total = segment_sum(votes.item[index], weight, votes.n_items)[votes.item[index]]
        rows = np.zeros((len(index), votes.n_classes))
        rows[np.arange(len(index)), votes.label[index]] = weight / np.where(total > 0, total, 1.0)
        return rows

    def aligned(self, index: Integers, item_index: Integers) -> VoteWeights:
        """Reorder; an annotator never seen has the typical weight."""
        return replace(self, weight=taken(self.weight, index, self.typical))

    def _weight_of_votes(self, votes: Annotations) -> Floats:
        weight = self.weight[votes.annotator]
        return weight if votes.weight is None else weight * votes.weight
