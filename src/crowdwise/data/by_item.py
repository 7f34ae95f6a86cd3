"""Answers on single items, sorted by item: the base of `Annotations` and `Ratings`."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.answers import Answers
from crowdwise.data.frozen import frozen
from crowdwise.data.storable import pointers, within

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ByItem"]


class ByItem(Answers):
    """Answers whose votes on item n stand at ``item_ptr[n]:item_ptr[n + 1]``."""

    #: Arrays with an entry per vote, and per item; they follow when votes or items are taken.
    per_vote: ClassVar[tuple[str, ...]] = ("annotator", "weight")
    per_item: ClassVar[tuple[str, ...]] = ("items",)

    if TYPE_CHECKING:

        @property
        def item_ptr(self) -> NDArray[np.int64]:
            """Where the votes of each item begin, [N + 1]."""

    def sound(self) -> bool:
        """Whether the arrays of saved answers agree with each other."""
        return (
            pointers(self.item_ptr, self.n_items, self.n_votes)
            and within(self.annotator, 0, self.n_annotators)
            and all(len(array) == self.n_votes for array in self._arrays(self.per_vote))
            and all(len(array) == self.n_items for array in self._arrays(self.per_item))
        )

    def _arrays(self, names: tuple[str, ...]) -> list[Any]:
        return [array for array in (getattr(self, name) for name in names) if array is not None]

    @cached_property
    def item(self) -> NDArray[np.int32]:
        """Item code of every vote, [E]."""
        return frozen(np.repeat(np.arange(self.n_items, dtype=np.int32), self.votes_per_item))

    @cached_property
    def votes_per_item(self) -> NDArray[np.int64]:
        """Votes on each item, [N]."""
        return frozen(np.diff(self.item_ptr))

    def take_votes(self, keep: NDArray[Any]) -> Self:
        """Return the votes at these positions (a mask or an index array, which is sorted); vocabularies stay."""
        if keep.dtype == bool:
            item_ptr = np.concatenate([[0], np.cumsum(keep)])[self.item_ptr]
        else:
            keep = np.sort(keep)
            item_ptr = np.searchsorted(keep, self.item_ptr)
        return self._with(self.per_vote, keep, item_ptr=item_ptr.astype(np.int64))

    def take_items(self, keep: NDArray[Any]) -> Self:
        """Return the items at these positions, which may repeat, with their votes; annotators stay."""
        counts = self.votes_per_item[keep]
        item_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # Index of every kept vote: each item's start repeated, plus a running offset inside the item.
        index = np.repeat(self.item_ptr[:-1][keep] - item_ptr[:-1], counts) + np.arange(item_ptr[-1])
        return self._with(self.per_vote, index, item_ptr=item_ptr)._with(self.per_item, keep)

    def _with(self, names: tuple[str, ...], index: NDArray[Any], **fields: Any) -> Self:
        """Copy with these arrays indexed; those that are None stay None."""
        for name in names:
            array = getattr(self, name)
            fields[name] = None if array is None else array[index]
        return cast("Self", replace(cast("Any", self), **fields))
