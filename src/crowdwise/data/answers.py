"""`Answers`: what all kinds of data have in common.

Answers are integer codes with the vocabularies of items and annotators. They are immutable and in an order of their own, so
that the order of a file's rows changes no bit of a fit. `n_votes` is the number of answers in every kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.encode import codes_of, series_of, tidy, translate, union
from crowdwise.data.storable import pointers, within
from crowdwise.errors import InputError, did_you_mean
from crowdwise.kernels.types import Array

if TYPE_CHECKING:
    import polars as pl
    from typing_extensions import Self

__all__ = ["Answers", "ByItem", "ReadOnly", "frozen"]


class ReadOnly:
    """Base of frozen dataclasses whose arrays, also those in mappings, are made read-only."""

    def __post_init__(self) -> None:
        for value in list(vars(self).values()):
            for part in value.values() if isinstance(value, Mapping) else (value,):
                if isinstance(part, np.ndarray):
                    part.setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickling forgets that arrays are read-only.
        vars(self).update(state)
        self.__post_init__()


def frozen(array: Array) -> Array:
    """Return the array itself, read-only from now on."""
    array.setflags(write=False)
    return array


class Answers(ReadOnly, ABC):
    """Base of data; a kind is a frozen dataclass with the arrays of its own.

    Every kind has `annotator` [E], the vocabularies `items` and `annotators`, perhaps `weight` [E] or None, and `n_missing`,
    the rows that were dropped on entry because they held no answer. Build one with `from_arrays` or `from_frame`; files are
    read by `crowdwise.read`.
    """

    #: What an answer is called in `repr` and messages.
    noun: ClassVar[str] = "votes"

    if TYPE_CHECKING:
        # Fields of the kinds. As properties at run time they would become defaults of the dataclasses' fields.
        @property
        def annotator(self) -> NDArray[np.int32]:
            """Code of who answered, [E]."""

        @property
        def items(self) -> NDArray[Any]:
            """Ids of the items, [N]."""

        @property
        def annotators(self) -> NDArray[Any]:
            """Ids of the annotators, [A]."""

        @property
        def n_missing(self) -> int:
            """Rows dropped on entry because they held no answer."""

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def n_items(self) -> int:
        """Number of items, N, with or without answers."""
        return len(self.items)

    @property
    def n_annotators(self) -> int:
        """Number of annotators, A, with or without answers."""
        return len(self.annotators)

    @property
    def n_votes(self) -> int:
        """Number of answers, E."""
        return len(self.annotator)

    @property
    @abstractmethod
    def votes_per_item(self) -> NDArray[np.int64]:
        """Answers on each item, [N]."""

    @cached_property
    def votes_per_annotator(self) -> NDArray[np.int64]:
        """Answers by each annotator, [A]."""
        return frozen(np.bincount(self.annotator, minlength=self.n_annotators))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weight of every answer, [E]: ones where none were given."""
        given = getattr(self, "weight", None)
        return frozen(np.ones(self.n_votes)) if given is None else given

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the number of answers, where none were given."""
        given = getattr(self, "weight", None)
        return float(self.n_votes if given is None else given.sum())

    @property
    def weight_per_annotator(self) -> NDArray[np.float64]:
        """Weight of each annotator's answers together, [A]."""
        return np.bincount(self.annotator, getattr(self, "weight", None), self.n_annotators).astype(np.float64, copy=False)

    def __len__(self) -> int:
        return self.n_votes

    def __repr__(self) -> str:
        dropped = f"; {self.n_missing} missing {self._missing_noun} dropped" if self.n_missing else ""
        return f"{type(self).__name__}({self.n_votes} {self._described()}{dropped})"

    _missing_noun: ClassVar[str] = "answers"

    def _described(self) -> str:
        return f"{self.noun}: {self.n_items} items, {self.n_annotators} annotators"

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def from_frame(cls, frame: Any, *args: Any, **options: Any) -> Self:
        """Build from a long frame of any library; options name columns and vocabularies."""

    # -- parts ---------------------------------------------------------------------------------

    @abstractmethod
    def take_votes(self, keep: NDArray[Any]) -> Self:
        """Return the answers at these positions (a mask or an index array); vocabularies stay."""

    @abstractmethod
    def take_items(self, keep: NDArray[Any]) -> Self:
        """Return the items at these positions with their answers; annotators stay."""

    def take_annotators(self, keep: NDArray[Any]) -> Self:
        """Return the answers of the annotators at these positions; items stay."""
        new = np.full(self.n_annotators, -1, np.int32)
        new[keep] = np.arange(len(keep), dtype=np.int32)
        votes = self.take_votes(new[self.annotator] >= 0)
        fields: dict[str, Any] = {"annotator": new[votes.annotator], "annotators": self.annotators[keep]}
        return cast("Self", replace(cast("Any", votes), **fields))

    def positions(self, ids: Iterable[Any], what: str = "item") -> NDArray[np.int64]:
        """Return the positions of these ids, ascending; `what` is "item" or "annotator". An unknown id is an error."""
        vocabulary = self.items if what == "item" else self.annotators
        wanted = tidy(series_of([ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else ids)).unique(
            maintain_order=True
        )
        # What is known is looked up among the wanted, for a bootstrap sample of items repeats ids.
        codes = codes_of(tidy(series_of(vocabulary)), wanted)
        found = np.flatnonzero(codes >= 0)
        met = np.bincount(codes[found], minlength=len(wanted)) > 0
        if not met.all():
            unknown = str(wanted[int(met.argmin())])
            example = f"; {what}s are called, for example, {str(vocabulary[0])!r}" if len(vocabulary) else ""
            hint = did_you_mean(unknown, [str(v) for v in vocabulary[:10000]]) or example
            raise InputError(f"no {what} {unknown!r} in these votes{hint}")
        return found

    def select(self, *, items: Iterable[Any] | None = None, annotators: Iterable[Any] | None = None) -> Self:
        """Keep these items and these annotators (by id) and the answers between them.

        Selecting items keeps every annotator in the vocabulary, and the other way round, so
        that codes of the untouched side stay the same.
        """
        votes = self
        if items is not None:
            votes = votes.take_items(votes.positions(items, "item"))
        if annotators is not None:
            votes = votes.take_annotators(votes.positions(annotators, "annotator"))
        return votes

    def drop(self, *, items: Iterable[Any] | None = None, annotators: Iterable[Any] | None = None) -> Self:
        """Remove these items and these annotators (by id) with their answers."""
        votes = self
        if items is not None:
            votes = votes.take_items(np.delete(np.arange(votes.n_items), votes.positions(items, "item")))
        if annotators is not None:
            gone = votes.positions(annotators, "annotator")
            votes = votes.take_annotators(np.delete(np.arange(votes.n_annotators), gone))
        return votes

    def split(self, fraction: float = 0.2, *, by: str = "annotation", random_state: int | None = 0) -> tuple[Self, Self]:
        """Cut into (rest, held out) at random, by single answers or by whole items.

        Cut by annotation, both parts keep all vocabularies; cut by item, each keeps its items.
        """
        if not 0 < fraction < 1:
            raise InputError(f"fraction must lie strictly between 0 and 1, got {fraction}")
        if by not in ("annotation", "item"):
            raise InputError(f"by must be 'annotation' or 'item', got {by!r}")
        rows = self._rows_of_answers()
        size = len(rows) if by == "annotation" else self._n_units
        held = np.zeros(size, bool)
        held[np.random.default_rng(random_state).permutation(size)[: round(fraction * size)]] = True
        if by == "annotation":
            held = np.repeat(held, rows)
            return self.take_votes(~held), self.take_votes(held)
        return self._take_units(np.flatnonzero(~held)), self._take_units(np.flatnonzero(held))

    def _rows_of_answers(self) -> NDArray[np.int64]:
        """Entries of the arrays that belong to each answer: one, unless a kind says otherwise."""
        return np.ones(self.n_votes, np.int64)

    @property
    def _n_units(self) -> int:
        """Number of what `split` by item keeps whole."""
        return self.n_items

    def _take_units(self, keep: NDArray[Any]) -> Self:
        return self.take_items(keep)

    # -- together, and as a table --------------------------------------------------------------

    @abstractmethod
    def concat(self, *others: Self) -> Self:
        """Append the answers of others; vocabularies become unions."""

    @abstractmethod
    def to_frame(self) -> pl.DataFrame:
        """Return a table with one row per answer."""

    @staticmethod
    def _union(parts: tuple[Any, ...], vocabulary: str) -> tuple[NDArray[Any], list[NDArray[np.int32]]]:
        """The sorted union of a vocabulary of all parts, and the new code of every old one by part."""
        every = union([getattr(part, vocabulary) for part in parts], sort=True)
        return every, [translate(getattr(part, vocabulary), every) for part in parts]

    @staticmethod
    def _joined_weights(parts: tuple[Any, ...]) -> NDArray[np.float64] | None:
        if all(part.weight is None for part in parts):
            return None
        return np.concatenate([part.weights for part in parts])


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

    @property
    def weight_per_item(self) -> NDArray[np.float64]:
        """Weight of the votes on each item together, [N]."""
        return np.bincount(self.item, getattr(self, "weight", None), self.n_items).astype(np.float64, copy=False)

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
