"""Which items depend on each other: pairs of item ids with weights, from pairs, a table, a file or the features of items."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.answers import ReadOnly
from crowdwise.data.columns import ColumnSource, column_source
from crowdwise.data.encode import (
    ALIASES,
    Where,
    checked_weights,
    codes_of,
    missing_mask,
    plain_name,
    series_of,
    tidy,
    vocabulary_array,
)
from crowdwise.data.storable import storable
from crowdwise.errors import DataWarning, InputError, listed
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["Edges", "is_named", "nearest_edges"]

_NAMES = {
    "source": ("source", "from", "u", "node1", "nodea", "src", *ALIASES["first"]),
    "target": ("target", "to", "v", "node2", "nodeb", "dst", "neighbour", "neighbor", *ALIASES["second"]),
    "weight": (*ALIASES["weight"], "similarity", "strength"),
}
_SHAPES = (
    "pairs of item ids such as [('a', 'b'), ...] (a third entry is a weight), an array [E, 2], or a table with two columns of "
    "item ids (source, target) and perhaps weight"
)


@storable
@dataclass(frozen=True, eq=False, repr=False)
class Edges(ReadOnly):
    """Pairs of items that tend to have the same class, by their ids.

    Edges have no direction. Made by `Edges.of`, which every setting `edges` goes through, or `nearest_edges`.

    Attributes
    ----------
    source, target : [E]
        Ids of the two items of every edge.
    weight : [E]
        How much more the two depend on each other than those of an edge of weight one; above 0.

    Examples
    --------
    >>> Edges.of([("a", "b"), ("b", "c"), ("c", "b")])
    Edges(3 edges)
    """

    source: Array
    target: Array
    weight: Floats

    def sound(self) -> bool:
        """Whether the arrays of saved edges agree with each other."""
        return self.source.shape == self.target.shape == self.weight.shape and bool((self.weight >= 0).all())

    def __len__(self) -> int:
        return len(self.weight)

    def __repr__(self) -> str:
        return f"Edges({len(self):,} edges)"

    def __eq__(self, other: object) -> bool:
        """Whether the same pairs stand in the same order with the same weights."""
        if not isinstance(other, Edges):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("source", "target", "weight"))

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, edges: Any) -> Edges:
        """Make edges of pairs, an array, or a table of any library or file (a `ColumnSource`)."""
        if isinstance(edges, Edges):
            return edges
        if isinstance(edges, dict | ColumnSource) or hasattr(edges, "columns"):
            return cls._of_table(column_source(edges, "the edges"))
        if isinstance(edges, str) or not hasattr(edges, "__len__") or hasattr(edges, "tocoo"):
            raise InputError(f"edges must be {_SHAPES}; got {type(edges).__name__}")
        rows = [tuple(row) if isinstance(row, list | tuple | np.ndarray) else (row,) for row in edges]
        wrong = next((n for n, row in enumerate(rows) if len(row) not in (2, 3)), None)
        if wrong is not None or len({len(row) for row in rows}) > 1:
            raise InputError(f"edges must be {_SHAPES}; edge {wrong or 0} is {edges[wrong or 0]!r:.60}")
        columns = [series_of([row[c] for row in rows]) for c in range(len(rows[0]) if rows else 2)]
        return cls._of_columns(columns, Where("the edges"))

    @classmethod
    def _of_table(cls, source: ColumnSource) -> Edges:
        """Of the columns with usual names; of two columns that are no weights, of these."""
        source.expect(["source", "target"])
        found = _usual(source.names)
        ends = [name for name in source.names if name != found[2]]
        if not (found[0] and found[1]) and len(ends) == 2:
            found = [*ends, found[2]]
        if not (found[0] and found[1]):
            raise InputError(
                f"{source.name}: an edge needs two columns of item ids, such as source and target; "
                f"found {listed(map(repr, source.names)) or 'no columns'}. Rename them, or keep only these and one named weight"
            )
        table, where = source.fetch([name for name in found if name])
        return cls._of_columns([table[name] for name in found if name], where)

    @classmethod
    def _of_columns(cls, columns: list[pl.Series], where: Where) -> Edges:
        ends = [tidy(column) for column in columns[:2]]
        for column in ends:
            absent = missing_mask(column, ())
            if absent.any():
                raise InputError(
                    f"{where.row(int(absent.arg_true()[0]))}: an edge without an item; remove the row or fill it in"
                )
        weight = checked_weights(columns[2], where) if len(columns) > 2 else np.ones(len(ends[0]))
        return cls(vocabulary_array(ends[0]), vocabulary_array(ends[1]), weight)

    def between(self, items: Array) -> tuple[Integers, Integers, Floats]:
        """Positions in `items` of both ends of every edge, the lower one first, and weights, [E'] each.

        Edges of an item with itself say nothing and are left out, with a warning that counts them; so are edges to other
        items. Where no edge begins, or none ends, at one of several items, they are refused. A pair that is there several
        times, either way round, counts once, with its largest weight. Edges of weight 0 are none.
        """
        names = tidy(series_of(items))
        first = names.is_first_distinct().to_numpy()
        known, place = names.filter(pl.Series(first)), np.append(np.flatnonzero(first), -1)
        ends = [place[codes_of(tidy(series_of(column)), known)] for column in (self.source, self.target)]
        lost = (ends[0] < 0) | (ends[1] < 0)
        if len(self) and len(items) > 1 and min(ends[0].max(), ends[1].max()) < 0:
            raise InputError(
                f"no edge joins two items of these votes: the first is {self.source.tolist()[0]!r}, "
                f"{self.target.tolist()[0]!r}, and items are such as {listed([repr(name) for name in items[:3].tolist()])}; "
                "give the ids that the votes have"
            )
        own = ~lost & (ends[0] == ends[1])
        unlabelled = (
            f", and such items ({self._strangers(ends)}) get no label. To have them labelled by their neighbours, add them to "
            "the votes with an empty label"
        )
        for what, found, so in (
            ("join an item that is not among those of the votes", lost, unlabelled),
            ("join an item to itself", own, ""),
        ):
            if found.any():
                words = f"{int(found.sum()):,} of {len(self):,} edges {what}; they are left out{so}"
                warnings.warn(words, DataWarning, stacklevel=7)  # so far up stands the caller of `fit`
        kept = ~lost & ~own & (self.weight > 0)
        low, high = np.minimum(*ends)[kept], np.maximum(*ends)[kept]
        weight = self.weight[kept]
        order = np.lexsort((-weight, high, low))
        low, high, weight = low[order], high[order], weight[order]
        once = np.ones(len(low), bool)
        once[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        return low[once].astype(np.int64), high[once].astype(np.int64), weight[once]

    def _strangers(self, ends: list[Integers]) -> str:
        """Some of the items that the votes do not have, in the order of the edges."""
        rows = np.flatnonzero((ends[0] < 0) | (ends[1] < 0))[:100]
        named = zip(self.source[rows].tolist(), self.target[rows].tolist(), strict=True)
        lost = zip(ends[0][rows] < 0, ends[1][rows] < 0, strict=True)
        found = [name for pair, gone in zip(named, lost, strict=True) for name in itertools.compress(pair, gone)]
        return listed([repr(name) for name in dict.fromkeys(found)], 3)


def is_named(names: Sequence[str]) -> bool:
    """Whether any of these columns has a usual name of an end or of a weight."""
    return any(_usual(names))


def _usual(names: Sequence[str]) -> list[str]:
    """The columns with usual names of source, target and weight; empty where there is none."""
    plain = {name: plain_name(name) for name in names}
    found: list[str] = []
    for usual in _NAMES.values():
        found += [next((name for name in names if plain[name] in usual and name not in found), "")]
    return found


def nearest_edges(features: Any, items: Any, n_neighbours: int = 5) -> Edges:
    """Edges from every item to those whose features are nearest (Euclidean distance), of weight one.

    Parameters
    ----------
    features : [N, D]
        A row of numbers per item; scale columns alike beforehand.
    items : [N]
        Ids of the rows, such as ``votes.items``.
    n_neighbours : int
        Edges from each item; a pair that is near both ways is there twice and counts once.

    Examples
    --------
    >>> edges = nearest_edges([[0.0], [1.0], [1.5]], ["a", "b", "c"], n_neighbours=1)
    >>> list(zip(edges.source, edges.target))
    [('a', 'b'), ('b', 'c'), ('c', 'b')]
    """
    rows, names = np.asarray(features, float), tidy(series_of(items))
    if rows.ndim != 2 or len(rows) != len(names):
        raise InputError(f"features must have a row of numbers per item, {len(names):,} in all; got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise InputError("features must be finite numbers; fill in what is missing")
    if isinstance(n_neighbours, bool) or n_neighbours != int(n_neighbours) or not 0 < n_neighbours < len(names):
        raise InputError(f"n_neighbours must be a whole number from 1 to {len(names) - 1:,}; got {n_neighbours!r}")
    from scipy.spatial import cKDTree

    near = cKDTree(rows).query(rows, k=int(n_neighbours) + 1)[1]
    # An item is its own nearest, unless others have the same features: then it may be missing from its row.
    own = near == np.arange(len(rows))[:, None]
    own[~own.any(axis=1), -1] = True
    target = near[~own]
    ids = vocabulary_array(names)
    return Edges(np.repeat(ids, int(n_neighbours)), ids[target], np.ones(len(target)))
