"""Votes of which nobody knows who gave them: counts per class, or labels without names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable

__all__ = ["AnonymousVotes"]


@storable
@dataclass(frozen=True, eq=False, repr=False)
class AnonymousVotes(Annotations):
    """Votes for classes with an annotator each, because nobody knows who gave them.

    Labels, confidence and agreement are as of any votes; methods that learn about annotators refuse them.

    Examples
    --------
    >>> AnonymousVotes.from_arrays(["a", "a", "b"], [0, 1, 2], ["cat", "dog", "cat"])
    AnonymousVotes(3 votes: 2 items, 2 classes)
    """

    anonymous: ClassVar[bool] = True

    def _described(self) -> str:
        return f"{self.noun}: {self.n_items} items, {self.n_classes} classes"
