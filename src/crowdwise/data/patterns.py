"""`Patterns`: items with the same votes, looked at once.

Where a few annotators answer everything, many items have the same votes of the same annotators. What a model of votes says of
such items is the same, so a fit may look at one of them and count it as often as there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.types import Integers

__all__ = ["Patterns", "patterns_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Patterns(Annotations):
    """Votes of which every item stands for all items with the same votes (and the same known class)."""

    #: How many these are, [N].
    count: NDArray[np.float64] | None = None

    per_item: ClassVar[tuple[str, ...]] = (*Annotations.per_item, "count")

    @property
    def times(self) -> NDArray[np.float64] | None:
        """How many items each item stands for, [N]."""
        return self.count


def patterns_of(votes: Annotations, known: Integers, most: float) -> tuple[Patterns, Integers] | None:
    """The distinct patterns, and which one each item has, [N]; None where more than a share `most` of the votes is left.

    `known` holds a class code per item, -1 where none is known, or is empty. Votes with weights have none in common.

    Examples
    --------
    >>> votes = Annotations.from_arrays(["a", "b", "c"], ["x", "x", "x"], [0, 1, 0])
    >>> patterns, which = patterns_of(votes, np.empty(0, np.int16), most=1)
    >>> patterns.times[which].tolist()
    [2.0, 1.0, 2.0]
    """
    if votes.weight is not None or votes.soft or votes.n_votes == 0:
        return None
    # The sum of a random number per vote: items with the same sum have the same votes, which is made sure of below.
    numbers = np.random.default_rng(0).integers(0, 2**64, votes.n_annotators * votes.n_classes + votes.n_classes, np.uint64)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(numbers[votes.row])])[votes.item_ptr]
    key = np.diff(total)
    if len(known):
        key += np.where(known >= 0, numbers[known - votes.n_classes], np.uint64(0))
    _, first, which, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    if votes.votes_per_item[first].sum() > most * votes.n_votes:
        return None
    bare = replace(votes, items=np.arange(votes.n_items), gold=None, groups=None)
    alone = bare.take_items(first)
    again = alone.take_items(which)
    same = np.array_equal(again.item_ptr, votes.item_ptr) and np.array_equal(again.row, votes.row)
    if not same or (len(known) and not np.array_equal(known[first][which], known)):
        return None
    fields = (alone.item_ptr, alone.annotator, alone.label, alone.items, alone.annotators, alone.classes)
    return Patterns(*fields, count=count.astype(np.float64)), which
