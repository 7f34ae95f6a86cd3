"""One shard of a work folder, from the votes that all passes have left for it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import codes_of, sorted_votes, vocabulary_array
from crowdwise.data.gold import encode_gold
from crowdwise.errors import InputError
from crowdwise.io.stored import load_array
from crowdwise.scale.spilling import partition_folder
from crowdwise.scale.store import shard_folder

__all__ = ["Making", "build_shard", "map_file"]


@dataclass(frozen=True)
class Making:
    """What all shards have in common. `gold` is none, column or given (as spill/gold.arrow)."""

    source: str
    item_type: str
    sizes: tuple[int, int]
    weighted: bool
    gold: str
    deduplicate: bool


def map_file(folder: str | Path, role: str, index: int) -> Path:
    """Return where the codes of one pass are translated: role is annotator, label or gold."""
    return Path(folder) / "spill" / f"{role}-{index:05d}.npy"


def build_shard(partition: int, folder: str, making: Making) -> dict[str, Any]:
    """Sort the votes of one partition and write its shard; what was collected for it is deleted.

    Returns n_items, n_votes, n_gold, n_known (rows of the given gold that name an item of the
    shard), n_repeats (votes that are an annotator's second or later on an item), n_changed (those with another label than the
    one before) and votes_per_annotator, [A].
    """
    columns = _collected(partition, folder, making)
    item = columns["item"].cast(getattr(pl, making.item_type))
    items = item.unique().sort()
    codes = codes_of(item, items)
    del item, columns["item"]
    gold, n_known = _gold(codes, items, columns, folder, making)
    voted = columns["label"] >= 0
    weight = columns.get("weight")
    votes = sorted_votes(
        codes[voted], columns["annotator"][voted], columns["label"][voted], None if weight is None else weight[voted],
        (len(items), *making.sizes),
    )  # fmt: skip
    if making.deduplicate:
        votes = _distinct(*votes)
    item_ptr, annotator, label, weight = votes
    arrays: dict[str, NDArray[Any] | None] = {
        "item_ptr": item_ptr,
        "annotator": annotator,
        "label": label,
        "weight": weight,
        "gold": gold,
    }
    _write(shard_folder(folder, partition), arrays, items)
    shutil.rmtree(partition_folder(folder, partition), ignore_errors=True)
    return {
        **_repeats(item_ptr, annotator, label),
        "n_items": len(items),
        "n_votes": len(label),
        "n_gold": 0 if gold is None else int((gold >= 0).sum()),
        "n_known": n_known,
        "votes_per_annotator": np.bincount(annotator, minlength=making.sizes[0]),
    }


def _collected(partition: int, folder: str, making: Making) -> dict[str, Any]:
    """Item ids as a series; annotator, label and gold as codes of all votes; and weights."""
    roles = ["annotator", "label", *(["gold"] if making.gold == "column" else [])]
    names = ["item", *roles, *(["weight"] if making.weighted else [])]
    parts: dict[str, list[Any]] = {name: [] for name in names}
    maps: dict[str, NDArray[Any]] = {}
    latest = -1
    for file in sorted(partition_folder(folder, partition).glob("*.arrow")):
        if (index := int(file.name[:5])) != latest:
            maps = {role: load_array(map_file(folder, role, index)) for role in roles}
            latest = index
        frame = pl.read_ipc(file)
        parts["item"].append(frame["item"])
        for role in roles:
            # A local code of -1 takes the entry behind the last.
            parts[role].append(np.append(maps[role], maps[role].dtype.type(-1))[frame[role].to_numpy()])
        if making.weighted:
            parts["weight"].append(frame["weight"].to_numpy())
    if not parts["item"]:
        return {name: np.zeros(0, np.float64 if name == "weight" else np.int32) for name in names} | {
            "item": pl.Series([], dtype=getattr(pl, making.item_type))
        }
    return {name: pl.concat(part) if name == "item" else np.concatenate(part) for name, part in parts.items()}


def _gold(
    codes: NDArray[np.int32], items: pl.Series, columns: dict[str, Any], folder: str, making: Making
) -> tuple[NDArray[np.int16] | None, int]:
    """Return the known class of every item, [n], -1 where unknown, and how many rows of given gold were used."""
    if making.gold == "none":
        return None, 0
    gold = np.full(len(items), -1, np.int16)
    if making.gold == "column":
        known = columns["gold"] >= 0
        gold[codes[known]] = columns["gold"][known]
        conflict = np.flatnonzero(known & (gold[codes] != columns["gold"]))
        if len(conflict):
            raise InputError(f"{making.source}: gold gives item {items[int(codes[conflict[0]])]!r} two different labels")
        return gold, 0
    given = pl.read_ipc(Path(folder) / "spill" / "gold.arrow")
    position = codes_of(given["item"], items)
    here, ours = given.filter(pl.Series(position >= 0)), np.unique(position[position >= 0])
    if not len(ours):
        return gold, 0
    none = np.zeros(0, np.int32)
    classes = vocabulary_array(pl.read_ipc(Path(folder) / "classes.arrow")["id"])
    # Only the items that gold names: a vocabulary of a million names as Python objects is slow to make.
    named = Annotations(
        np.zeros(len(ours) + 1, np.int64), none, none.astype(np.int16), vocabulary_array(items[ours]), none, classes
    )
    gold[ours] = encode_gold(named, here)
    return gold, len(here)


def _distinct(
    item_ptr: NDArray[np.int64], annotator: NDArray[np.int32], label: NDArray[np.int16], weight: NDArray[np.float64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int16], NDArray[np.float64] | None]:
    """Keep the first of equal votes, as `Annotations.deduplicate` does."""
    first = np.ones(len(label), bool)
    first[1:] = (annotator[1:] != annotator[:-1]) | (label[1:] != label[:-1])
    starts = item_ptr[:-1][np.diff(item_ptr) > 0]
    first[starts] = True
    kept = np.concatenate([[0], np.cumsum(first)])
    return kept[item_ptr].astype(np.int64), annotator[first], label[first], None if weight is None else weight[first]


def _repeats(item_ptr: NDArray[np.int64], annotator: NDArray[np.int32], label: NDArray[np.int16]) -> dict[str, int]:
    again = annotator[1:] == annotator[:-1]
    # The first vote on an item repeats none, whoever gave the one before.
    starts = item_ptr[1:-1][(item_ptr[1:-1] > 0) & (item_ptr[1:-1] < len(label))]
    again[starts - 1] = False
    return {"n_repeats": int(again.sum()), "n_changed": int((again & (label[1:] != label[:-1])).sum())}


def _write(folder: Path, arrays: dict[str, NDArray[Any] | None], items: pl.Series) -> None:
    temporary = folder.with_name(f"{folder.name}.{os.urandom(4).hex()}.tmp")
    temporary.mkdir()
    for name, array in arrays.items():
        if array is not None:
            np.save(temporary / f"{name}.npy", array)
    pl.DataFrame({"item": items}).write_ipc(temporary / "items.arrow")
    # A task that was begun twice, on two machines, gives the same shard twice.
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
