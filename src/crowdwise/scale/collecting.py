"""From shards back into memory, for what needs all votes in one place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import codes_of, vocabulary_array
from crowdwise.scale.sources import stored_array
from crowdwise.scale.store import Store

__all__ = ["collected"]


def collected(store: Store, most: int | None = None) -> Annotations:
    """All votes of a store, as reading one file of them would give; or those of the first shards that hold `most`.

    Items are dealt to shards by their ids, so that those of a few are a fair sample.
    """
    n_shards = len(store.shards)
    if most is not None:
        before = np.cumsum([0, *(shard.n_votes for shard in store.shards)])[:-1]
        n_shards = max(int((before < most).sum()), 1)
    folders = [store.shard_folder(index) for index in range(n_shards)]
    ids = [pl.read_ipc(folder / "items.arrow")["item"] for folder in folders]
    items = pl.concat(ids).sort()
    places = [codes_of(part, items) for part in ids]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([stored_array(folder, name) for folder in folders])

    sizes = [np.diff(stored_array(folder, "item_ptr")) for folder in folders]
    gold = None
    if store.n_gold is not None:
        gold = np.full(len(items), -1, np.int16)
        gold[np.concatenate(places)] = joined("gold")
    votes = Annotations.from_codes(
        np.concatenate([np.repeat(place, size) for place, size in zip(places, sizes, strict=True)]),
        joined("annotator"),
        joined("label"),
        vocabulary_array(items),
        store.annotators,
        store.classes,
        joined("weight") if store.weighted else None,
        gold,
    )
    return replace(votes, n_missing=store.n_missing)
