"""Annotators as groups of a vote: a group has one voice, its most voted class.

Inside a group on an item, the class with the largest weight wins (tied classes share the voice);
across groups, every voice counts the same. Annotators without a group are groups of their own.
With weights, a voice is as strong as the mean weight of the members who voted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable, within
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import taken
from crowdwise.parts.annotators.weights import VoteShares

__all__ = ["GroupVotes"]


# Weights that sum to the same in another order differ by less than this.
_TIE = 1e-9


@storable
@dataclass(frozen=True, eq=False)
class GroupVotes(VoteShares):
    """A group and a weight >= 0 inside it per annotator; `typical` is the weight of one never seen."""

    shapes: ClassVar[dict[str, str]] = {"weight": "a"}
    group_a: Integers
    weight: Floats
    typical: float = 1.0

    def fits(self, votes: Annotations) -> bool:
        """Whether every annotator read from a file has a group."""
        return within(self.group_a, -1, votes.n_annotators + 1)

    @classmethod
    def start(cls, group_a: Integers, weight: Floats, typical: float) -> GroupVotes:
        """Give everybody with the code -1 a group of their own."""
        alone = group_a < 0
        first = int(group_a.max(initial=-1)) + 1
        return cls(np.where(alone, first + np.cumsum(alone) - 1, group_a), weight, typical)

    def voices(self, votes: Annotations) -> Floats:
        """Voices of the groups for every class, [N, K]."""
        return votes.by_class(self._voice_of_votes(votes, np.arange(votes.n_votes)))

    def shares(self, votes: Annotations, prior: Floats, voices: Floats | None = None) -> Floats:
        """Share of the groups' voices, [N, K]; items without any get the class prior."""
        mass = self.voices(votes) if voices is None else voices
        total = mass.sum(axis=1, keepdims=True)
        return np.where(total > 0, mass / np.where(total > 0, total, 1.0), prior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """What each vote adds to the share of each class, [len(index), K]; the outvoted of a group add nothing."""
        voice = self._voice_of_votes(votes, index)
        total = segment_sum(votes.item[index], voice, votes.n_items)[votes.item[index]]
        rows = np.zeros((len(voice), votes.n_classes))
        rows[np.arange(len(voice)), votes.label[index]] = voice / np.where(total > 0, total, 1.0)
        return rows

    def aligned(self, index: Integers, item_index: Integers) -> GroupVotes:
        """Reorder; an annotator never seen has the typical weight and a group of its own."""
        index = np.asarray(index)
        group = np.append(self.group_a, 0)[index]
        strange = index < 0
        group[strange] = int(self.group_a.max(initial=-1)) + 1 + np.arange(int(strange.sum()))
        return replace(self, group_a=group, weight=taken(self.weight, index, self.typical))

    def _voice_of_votes(self, votes: Annotations, index: Integers) -> Floats:
        """Each vote's part in its group's voice, [len(index)]: voters for the winning class split it by weight."""
        n_classes, n_groups = votes.n_classes, int(self.group_a.max(initial=0)) + 1
        item, label, who = votes.item[index].astype(np.int64), votes.label[index], votes.annotator[index].astype(np.int64)
        weight = self.weight[who] if votes.weight is None else self.weight[who] * votes.weight[index]
        key, pair = np.unique(item * n_groups + self.group_a[who], return_inverse=True)
        count_pl = segment_sum(pair * n_classes + label, weight, len(key) * n_classes).reshape(-1, n_classes)
        top = count_pl.max(axis=1, keepdims=True, initial=0.0)
        wins_pl = (count_pl >= top * (1 - _TIE)) & (top > 0)
        # A voice is as strong as the mean member who voted: one, unless votes or annotators have weights.
        present = np.sort((pair * len(self.group_a) + who)[weight > 0])
        present = present[np.diff(present, prepend=-1) > 0] // max(len(self.group_a), 1)
        members = np.maximum(segment_sum(present, None, len(key)), 1.0)
        voice_p = count_pl.sum(axis=1) / members / np.maximum(wins_pl.sum(axis=1), 1)
        count = count_pl[pair, label]
        return np.where(wins_pl[pair, label], voice_p[pair] * weight / np.where(count > 0, count, 1.0), 0.0)
