"""Edges between items of shards: items that are connected lie in one shard, and every shard has its edges.

Memory holds the edges, once: two ids and a weight each.
"""

from __future__ import annotations

import heapq
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np
import polars as pl

from crowdwise.data.edges import Edges
from crowdwise.data.encode import codes_of, series_of, tidy
from crowdwise.engines.potts_shards import EDGES
from crowdwise.errors import DataWarning, InputError, listed
from crowdwise.kernels.types import Integers
from crowdwise.scale.spilling import TOGETHER
from crowdwise.scale.store import Store

__all__ = ["digest", "has_edges", "keep_together", "packed", "write_edges"]


def digest(edges: Edges) -> str:
    """What tells edges apart from others."""
    columns = {"source": series_of(edges.source), "target": series_of(edges.target), "weight": edges.weight}
    return sha256(pl.DataFrame(columns).write_csv().encode()).hexdigest()


def keep_together(folder: Path, edges: Edges | None, n_shards: int) -> None:
    """Say for every item with an edge which shard it goes to: components whole, the largest first, each to the emptiest.

    Items without edges are dealt out by a hash of their ids, about equally many to each, so they need not be counted.
    """
    if edges is None:
        return
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ends = [_as_text(column) for column in (edges.source, edges.target)]
    names = pl.concat(ends).unique().sort()
    first, second = (codes_of(column, names) for column in ends)
    links = coo_matrix((np.ones(len(first), np.int8), (first, second)), shape=(len(names), len(names)))
    n_components, component = connected_components(links, directed=False)
    partition = packed(np.bincount(component, minlength=n_components), n_shards)[component]
    (folder / "spill").mkdir(exist_ok=True)
    pl.DataFrame({"item": names, "partition": partition.astype(np.uint16)}).write_ipc(folder / "spill" / TOGETHER)


def packed(sizes: Integers, n_bins: int) -> Integers:
    """The bin of every size, [C]: the largest first, each into the emptiest bin (the lowest of several)."""
    load = [(0, each) for each in range(n_bins)]
    place = np.zeros(len(sizes), np.int64)
    for each in np.argsort(-sizes, kind="stable").tolist():
        filled, where = load[0]
        place[each] = where
        heapq.heapreplace(load, (filled + int(sizes[each]), where))
    return place


def write_edges(store: Store, edges: Edges | None) -> None:
    """Write the edges between the items of every shard beside its votes; others are counted in a warning.

    Edges count as in memory (`Edges.between`), and none joins two shards.
    """
    if edges is None:
        return
    n_joined = n_known = 0
    source, target = (_as_text(column) for column in (edges.source, edges.target))
    own = (source == target).to_numpy()
    for index in range(len(store.shards)):
        folder = store.shard_folder(index)
        items = _as_text(pl.read_ipc(folder / "items.arrow")["item"])
        ends = codes_of(source, items), codes_of(target, items)
        here = (ends[0] >= 0) & (ends[1] >= 0)
        n_joined, n_known = n_joined + int(here.sum()), n_known + int(((ends[0] >= 0) | (ends[1] >= 0)).sum())
        part = Edges(ends[0][here], ends[1][here], edges.weight[here])
        with warnings.catch_warnings():
            # Of edges of an item with itself there is one warning for all shards.
            warnings.simplefilter("ignore", DataWarning)
            low, high, weight = part.between(np.arange(len(items)))
        np.save(folder / EDGES, np.column_stack([low, high, weight]))
    if len(edges) and not n_known and store.n_items > 1:
        raise InputError(
            f"no edge joins two items of these votes: the first is {edges.source.tolist()[0]!r}, "
            f"{edges.target.tolist()[0]!r}, and items are such as {listed([repr(name) for name in _some_items(store)])}; "
            "give the ids that the votes have"
        )
    for n, what in (
        (len(edges) - n_joined, "an item that is not among those of the votes"),
        (int(own.sum()), "an item to itself"),
    ):
        if n:
            warnings.warn(f"{n:,} of {len(edges):,} edges join {what}; they are left out", DataWarning, stacklevel=4)


def has_edges(store: Store) -> bool:
    """Whether the shards of a store were cut along edges."""
    return bool(store.shards) and (store.shard_folder(0) / EDGES).exists()


def _some_items(store: Store) -> list[object]:
    ids = (pl.read_ipc(store.shard_folder(index) / "items.arrow")["item"] for index in range(len(store.shards)))
    return next((part[:3].to_list() for part in ids if len(part)), [])


def _as_text(column: object) -> pl.Series:
    return tidy(column if isinstance(column, pl.Series) else series_of(column)).cast(pl.String)
