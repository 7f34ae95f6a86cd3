"""The crowd behind votes in shards: what is known of all of them in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines.shards import Shard, Tally
from crowdwise.kernels.types import Array, Floats, Integers

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.scale.store import Store

__all__ = ["ShardedCrowd", "answers"]


@dataclass(frozen=True, eq=False)
class ShardedCrowd:
    """Sizes, vocabularies and who gave which label how often: all that a method may ask of votes in shards.

    Attributes
    ----------
    annotators, classes
        Vocabularies, as in `Annotations`.
    answers : [A, K]
        Weight of the votes of each annotator for each class.
    votes_per_annotator : [A]
    n_items, n_votes, n_missing, n_gold, n_unvoted : int
        `n_unvoted` items have no votes.
    n_shards : int
    """

    annotators: Array
    classes: Array
    answers: Floats
    votes_per_annotator: Integers
    n_items: int
    n_votes: int
    n_missing: int
    n_gold: int
    n_unvoted: int
    n_shards: int

    @property
    def n_annotators(self) -> int:
        """Number of annotators, A."""
        return len(self.annotators)

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def answers_per_annotator(self) -> Integers:
        """Votes of each annotator, [A]; in shards none is a distribution."""
        return self.votes_per_annotator

    @classmethod
    def of(cls, votes: Annotations | Store, counted: Tally, n_shards: int) -> ShardedCrowd:
        """Put together what is known of votes and what `answers` counted in their shards."""
        table, given, rest = counted.sums
        return cls(
            votes.annotators,
            votes.classes,
            table,
            given.astype(np.int64),
            votes.n_items,
            votes.n_votes,
            votes.n_missing,
            int(rest[0]),
            int(rest[1]),
            n_shards,
        )


def answers(shard: Shard) -> Tally:
    """Count labels and votes by annotator, gold items, and items without votes."""
    votes = shard.votes
    rest = np.array([(shard.known >= 0).sum(), (votes.votes_per_item == 0).sum()], float)
    return Tally((votes.answers, votes.votes_per_annotator.astype(float), rest))
