"""From shards back into memory, for what needs all votes in one place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import codes_of, vocabulary_array
from crowdwise.scale.store import Store

__all__ = ["collected"]


def collected(store: Store) -> Annotations:
    """All votes of a store, as reading one file of them would give."""
    folders = [store.shard_folder(index) for index in range(len(store.shards))]
    ids = [pl.read_ipc(folder / "items.arrow")["item"] for folder in folders]
    items = pl.concat(ids).sort()
    places = [codes_of(part, items) for part in ids]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([np.load(folder / f"{name}.npy") for folder in folders])

    sizes = [np.diff(np.load(folder / "item_ptr.npy")) for folder in folders]
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
