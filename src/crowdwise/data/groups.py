"""Whom an item is about: one group per item, from a mapping, a table or a column of the votes' own file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.answers import ReadOnly
from crowdwise.data.encode import (
    Where,
    codes_of,
    encode,
    find_column,
    missing_mask,
    series_of,
    tidy,
    to_polars,
    translate,
    union,
)
from crowdwise.data.storable import storable, within
from crowdwise.errors import InputError
from crowdwise.kernels.types import Array, Integers

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations

__all__ = ["Groups", "encode_groups", "groups_of", "joined_groups"]


@storable
@dataclass(frozen=True, eq=False)
class Groups(ReadOnly):
    """A group for every item.

    Attributes
    ----------
    codes : [N]
        Position of the item's group in `names`.
    names : [G]
        The groups, sorted.
    """

    codes: Integers
    names: Array

    def sound(self) -> bool:
        """Whether the arrays of saved groups agree with each other."""
        return self.codes.ndim == 1 and within(self.codes, 0, self.n_groups)

    @property
    def n_groups(self) -> int:
        """G."""
        return len(self.names)

    @property
    def sizes(self) -> Integers:
        """Items of each group, [G]."""
        return np.bincount(self.codes, minlength=self.n_groups)

    @property
    def of_items(self) -> pl.Series:
        """The name of every item's group, [N]."""
        return series_of(self.names)[self.codes].alias("group")

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, positions: Any) -> Groups:
        """Groups of the items at these positions; the names stay."""
        return replace(self, codes=self.codes[positions])

    def __repr__(self) -> str:
        return f"Groups({', '.join(f'{name}: {size}' for name, size in zip(self.names, self.sizes, strict=True))})"


def groups_of(votes: Annotations, groups: Any) -> Groups:
    """Bring groups of any usual shape into the order of the votes' items.

    Parameters
    ----------
    votes : Annotations
    groups : mapping, frame, Series or sequence
        ``{item: group}``, a frame with columns item and group, a pandas Series indexed by item, or N groups in the order of
        ``votes.items``. Every item needs one; those of other items are left aside.

    Examples
    --------
    >>> from crowdwise.data.annotations import Annotations
    >>> votes = Annotations.from_arrays(["a", "b", "c"], ["x", "x", "y"], ["no", "yes", "no"])
    >>> groups_of(votes, {"a": "old", "b": "young", "c": "old"})
    Groups(old: 2, young: 1)
    """
    if isinstance(groups, Groups):
        if len(groups.codes) != votes.n_items:
            raise InputError(f"{len(groups.codes)} items have a group and {votes.n_items} have votes; make both from the same")
        return groups
    if not hasattr(groups, "__len__"):
        raise InputError(f"groups must be a mapping item -> group, a frame or one per item; got {type(groups).__name__}")
    where = Where("the groups")
    if isinstance(groups, Mapping) and not any(isinstance(v, list | tuple | np.ndarray) for v in groups.values()):
        item, group = series_of(list(groups)), series_of(list(groups.values()))
    elif hasattr(groups, "columns") or isinstance(groups, Mapping):
        frame = to_polars(groups)
        item, group = (frame[find_column(frame, role, None, where)] for role in ("item", "group"))
    elif hasattr(groups, "index") and hasattr(groups, "to_numpy"):
        item, group = series_of(groups.index), series_of(groups.to_numpy())
    else:
        if len(groups) != votes.n_items:
            raise InputError(f"{len(groups)} groups for {votes.n_items} items; give one per item, or a mapping item -> group")
        item, group = series_of(votes.items), series_of(groups)
    return encode_groups(votes, item, group, where)


def encode_groups(votes: Annotations, item: pl.Series, group: pl.Series, where: Where) -> Groups:
    """Groups of the votes' items from two columns, a row per item or per vote; errors name the row."""
    item, group = tidy(item), tidy(group)
    everyone = tidy(series_of(votes.items))
    # A bootstrap sample of items repeats ids.
    distinct = everyone.unique(maintain_order=True)
    position = codes_of(item, distinct)
    wanted = np.flatnonzero(position >= 0)
    empty = wanted[missing_mask(group, ()).to_numpy()[wanted]]
    if len(empty):
        raise InputError(
            f"{where.row(int(empty[0]))}: item {item[int(empty[0])]!r} has no group; "
            "fill it in, or name a group such as 'unknown'"
        )
    codes, names = encode(group.gather(wanted))
    first = np.full(len(distinct), -1)
    # Backwards, so that the first row of an item stays.
    first[position[wanted][::-1]] = np.arange(len(wanted))[::-1]
    lost = np.flatnonzero(first < 0)
    if len(lost):
        raise InputError(
            f"{where.source}: no group for {len(lost):,} of {len(distinct):,} items, such as {distinct[int(lost[0])]!r}; "
            "add their rows, or leave these items out"
        )
    of_item = codes[first]
    conflict = np.flatnonzero(of_item[position[wanted]] != codes)
    if len(conflict):
        row = int(wanted[conflict[0]])
        earlier = int(wanted[first[position[row]]])
        raise InputError(
            f"{where.row(row)}: item {item[row]!r} is in group {group[row]!r}, "
            f"and in {group[earlier]!r} at {where.row(earlier)}; an item has one group "
            f"({len(conflict):,} rows contradict an earlier one)"
        )
    return Groups(of_item[codes_of(everyone, distinct)].astype(np.int64), names)


def joined_groups(parts: Sequence[Annotations], items: Array) -> Groups | None:
    """Groups of several sets of votes for the union of their items; None where no part has groups.

    An item with votes in a part without groups needs its group from another part; two different groups of an item are an error.
    """
    if all(part.groups is None for part in parts):
        return None
    having = [(part, part.groups) for part in parts if part.groups is not None]
    names = union([groups.names for _, groups in having], sort=True)
    codes = np.full(len(items), -1, np.int64)
    for part, groups in having:
        position, code = translate(part.items, items), translate(groups.names, names)[groups.codes]
        conflict = np.flatnonzero((codes[position] >= 0) & (codes[position] != code))
        if len(conflict):
            raise InputError(f"item {part.items.tolist()[conflict[0]]!r} is in two groups; an item has one group")
        codes[position] = code
    lost = np.flatnonzero(codes < 0)
    if len(lost):
        raise InputError(
            f"no group for {len(lost):,} of {len(items):,} items, such as {items.tolist()[lost[0]]!r}; "
            "attach groups to all votes, or remove them with with_groups(None)"
        )
    return Groups(codes, names)
