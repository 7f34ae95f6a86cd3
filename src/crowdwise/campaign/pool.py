"""Who may be asked about what: the items of a campaign, its annotators, and the limits that people and money set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, TypedDict

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import codes_of, series_of, tidy, translate, vocabulary_array
from crowdwise.errors import InputError, SettingError
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["Limits", "Pool", "extended"]


# Stands for "as many as you like".
_ENDLESS = 2**40


class Limits(TypedDict, total=False):
    """What `Pool.of` takes beside the votes, for those who pass it on."""

    items: Iterable[Any] | None
    capacity: Mapping[Any, int] | int | None
    cost: Mapping[Any, float] | float
    per_item: int
    least: int
    most: int | None
    repeats: bool
    allowed: Annotations | None


@dataclass(frozen=True, eq=False)
class Pool:
    """Items, annotators and limits, as positions in the vocabularies of some votes.

    Attributes
    ----------
    items : [P]
        Those that may be asked about.
    capacity : [A]
        Answers that every annotator can still give; 0 for who is not available.
    cost : [A]
        Of one answer.
    per_item : int
        Most answers to ask for about one item at a time.
    least, most : int
        Items with fewer votes than `least` come before all others; none is to get more than `most`.
    repeats : bool
        Whether an annotator may be asked twice about an item.
    allowed : ([N + 1], [M]) or None
        The only pairs that may be asked: those of item n are the annotators ``allowed[1][allowed[0][n]:allowed[0][n + 1]]``.
        None for all pairs.
    open_item, open_annotator : [O]
        Questions that were asked before and have no answer yet. They are not asked again, and count among the votes of
        their items; capacities are those beside them.
    """

    items: Integers
    capacity: Integers
    cost: Floats
    per_item: int = 1
    least: int = 0
    most: int = _ENDLESS
    repeats: bool = False
    allowed: tuple[Integers, Integers] | None = None
    open_item: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    open_annotator: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(
        cls,
        votes: Annotations,
        *,
        items: Iterable[Any] | None = None,
        capacity: Mapping[Any, int] | int | None = None,
        cost: Mapping[Any, float] | float = 1.0,
        per_item: int = 1,
        least: int = 0,
        most: int | None = None,
        repeats: bool = False,
        allowed: Annotations | None = None,
    ) -> Pool:
        """By names: all items and annotators of the votes unless named; who has no capacity is left out.

        `allowed` are votes whose pairs of item and annotator may be asked, whatever their labels: it costs memory for these
        pairs, never for items x annotators.
        """
        for name, value, low in (("per_item", per_item, 1), ("least", least, 0), ("most", most, 1)):
            if value is not None and (not _is_whole(value) or value < low):
                raise SettingError(f"{name} must be a whole number, at least {low}; got {value!r}")
        chosen = np.arange(votes.n_items) if items is None else votes.positions(items, "item")
        room = _by_name(votes.annotators, capacity, _ENDLESS, 0, "capacity")
        room = np.minimum(room, _ENDLESS)
        if (room != np.floor(room)).any() or (room < 0).any():
            raise SettingError("capacity holds whole numbers of answers, 0 or more")
        prices = _by_name(votes.annotators, cost, 1.0, 1.0, "cost")
        if not ((prices > 0) & np.isfinite(prices)).all():
            raise SettingError("cost must be a number above 0 for every annotator")
        if most is not None and most < least:
            raise SettingError(f"most ({most}) is below least ({least}): no number of votes is both")
        pairs = None if allowed is None else _pairs_of(votes, allowed)
        return cls(chosen, room.astype(np.int64), prices, per_item, least, _ENDLESS if most is None else most, repeats, pairs)

    @property
    def limited(self) -> bool:
        """Whether anybody who is available can give only so many answers."""
        return bool((self.capacity[self.capacity > 0] < _ENDLESS // 2).any())

    def after(self, annotators: Integers) -> Pool:
        """The pool once these annotators, by position, have been asked once more each."""
        used = np.bincount(annotators, minlength=len(self.capacity))
        return replace(self, capacity=np.maximum(self.capacity - used, 0))

    def waiting(self, items: Integers, annotators: Integers) -> Pool:
        """The pool beside these questions, by position, which wait for their answers."""
        return replace(self.after(annotators), open_item=items, open_annotator=annotators)


def extended(votes: Annotations, items: Iterable[Any] = (), annotators: Iterable[Any] = ()) -> Annotations:
    """The same votes beside items nobody has seen yet, and annotators who have not answered yet."""
    new_items, new_annotators = _new(votes.items, items, "item"), _new(votes.annotators, annotators, "annotator")
    if new_items is votes.items and new_annotators is votes.annotators:
        return votes
    added = len(new_items) - votes.n_items
    gold = votes.gold
    if gold is not None and added:
        gold = np.concatenate([gold, np.full(added, -1, gold.dtype)])
    pointer = np.concatenate([votes.item_ptr, np.full(added, votes.item_ptr[-1], votes.item_ptr.dtype)])
    return replace(votes, items=new_items, annotators=new_annotators, item_ptr=pointer, gold=gold)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _pairs_of(votes: Annotations, allowed: Annotations) -> tuple[Integers, Integers]:
    """Allowed annotators of every item of `votes`; pairs of unknown items or annotators are left out."""
    item, annotator = translate(allowed.items, votes.items)[allowed.item], translate(allowed.annotators, votes.annotators)
    who = annotator[allowed.annotator]
    known = (item >= 0) & (who >= 0)
    keys = np.unique(item[known].astype(np.int64) * votes.n_annotators + who[known])
    counts = np.bincount(keys // max(votes.n_annotators, 1), minlength=votes.n_items)
    return np.concatenate([[0], np.cumsum(counts)]), keys % max(votes.n_annotators, 1)


def _new(known: Array, more: Iterable[Any], what: str) -> Array:
    """The vocabulary with names that it lacks, in their order."""
    listed = tidy(series_of(more)).drop_nulls()
    # Ids in other clothes ("7" beside 7) are found by the lookup, which compares texts where types differ.
    names = vocabulary_array(listed.filter(codes_of(listed, tidy(series_of(known))) < 0).unique(maintain_order=True))
    if not len(names):
        return known
    if len(known) and known.dtype != names.dtype:
        kinds = [type(name).__name__ for name in (known.tolist()[0], names.tolist()[0])]
        raise InputError(f"{what} {names[0]!r} is {kinds[1]}, but those of the votes are {kinds[0]}")
    return np.concatenate([known, names]) if len(known) else names


def _by_name(names: Array, given: Any, default: float, absent: float, what: str) -> Floats:
    """A number for every name, [A]: one for all, or by name with `absent` for those not named."""
    if given is None:
        return np.full(len(names), default)
    if not isinstance(given, Mapping):
        try:
            return np.full(len(names), float(given))
        except (TypeError, ValueError):
            raise SettingError(f"{what} is a number, or annotator -> number; got {given!r}") from None
    known = set(names.tolist())
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(
            f"{what} names {len(unknown)} unknown annotators, such as {unknown[0]!r}; make new ones known with "
            "crowdwise.campaign.pool.extended(votes, annotators=...)"
        )
    return np.array([float(given.get(name, absent)) for name in names.tolist()])
