"""The work folder: votes encoded once, in shards of whole items, with vocabularies that all shards share.

``store.json`` is written last, so a folder that has it is finished. See `Store` for the files.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from crowdwise.data.encode import vocabulary_array
from crowdwise.errors import InputError, SettingError
from crowdwise.io.stored import load_array
from crowdwise.io.writer import replacing
from crowdwise.kernels.types import Array, Integers
from crowdwise.scale.lock import LOCK

__all__ = ["ShardSizes", "Store", "begin", "check_folder", "finish", "full_disk_named", "reusable"]

_VERSION = 2
_MARK = "unfinished.json"


@dataclass(frozen=True)
class ShardSizes:
    """Items, votes and items with gold of one shard."""

    n_items: int
    n_votes: int
    n_gold: int


@dataclass(frozen=True, eq=False)
class Store:
    """A finished work folder.

    Shard s lies in ``shard-0000s`` as item_ptr.npy [n + 1], annotator.npy [e], label.npy [e],
    items.arrow (sorted ids, column "item") and, where there are any, weight.npy [e] and gold.npy [n].

    Attributes
    ----------
    annotators, classes
        Vocabularies as in `Annotations`.
    item_type
        Type of the item ids in all shards: Int64, String or Boolean.
    n_gold
        Items whose class is known; None where no gold was given, and then there is no gold.npy.
    n_missing
        Votes dropped because their label was missing.
    shards
        Sizes of every shard; a shard may be empty.
    notes
        What to say of the votes, a sentence each.
    """

    folder: Path
    annotators: Array
    classes: Array
    item_type: str
    n_items: int
    n_votes: int
    n_missing: int
    n_gold: int | None
    weighted: bool
    shards: tuple[ShardSizes, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> Store:
        """Open a finished work folder."""
        path = Path(folder)
        facts = _facts(path)
        if facts is None:
            raise InputError(f"{path}: no store.json, so no finished encoding of votes; encode them into this folder first")
        return cls(
            folder=path,
            annotators=vocabulary_array(pl.read_ipc(path / "annotators.arrow")["id"]),
            classes=vocabulary_array(pl.read_ipc(path / "classes.arrow")["id"]),
            shards=tuple(ShardSizes(**sizes) for sizes in facts["shards"]),
            notes=tuple(facts.get("notes", ())),
            **{name: facts[name] for name in ("item_type", "n_items", "n_votes", "n_missing", "n_gold", "weighted")},
        )

    @property
    def n_annotators(self) -> int:
        """Number of annotators, A."""
        return len(self.annotators)

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def votes_per_annotator(self) -> Integers:
        """Votes by each annotator, [A]."""
        counts: Integers = load_array(self.folder / "votes_per_annotator.npy")
        return counts

    def shard_folder(self, index: int) -> Path:
        """Return the folder of one shard."""
        return shard_folder(self.folder, index)


def shard_folder(folder: str | PathLike[str], index: int) -> Path:
    """Return the folder of one shard of a work folder."""
    return Path(folder) / f"shard-{index:05d}"


def reusable(folder: Path, signature: dict[str, Any], n_shards: int | None) -> Store | None:
    """Return the finished store of the same votes, None if there is nothing yet; refuse a folder in other use."""
    check_folder(folder)
    facts = _facts(folder)
    if facts is not None:
        other = [name for name, value in signature.items() if facts["signature"].get(name) != value]
        if n_shards not in (None, len(facts["shards"])):
            other.append(f"{len(facts['shards'])} shards instead of {n_shards}")
        if "files" in other:
            other[other.index("files")] = _changed(facts["signature"].get("files", {}), signature["files"])
        if other:
            raise SettingError(
                f"{folder}: holds an encoding of other votes or with other options (different: {', '.join(other)}); "
                "name another work folder, or delete this one to encode the votes again"
            )
        return Store.open(folder)
    return None


def _changed(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Which files are others than before: the first one by name, and how many more."""
    kinds = {
        "new": [path for path in now if path not in before],
        "gone": [path for path in before if path not in now],
        "changed": [path for path in now if path in before and before[path] != now[path]],
    }
    return ", ".join(
        f"{paths[0]} is {kind}" + (f" and so are {len(paths) - 1} more files" if len(paths) > 1 else "")
        for kind, paths in kinds.items()
        if paths
    )


def check_folder(folder: Path) -> None:
    """Refuse, without leaving anything in it, what is no work folder and cannot become one."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SettingError(f"{folder}: a file, but the work folder must be a folder; name another")
    ours = _facts(folder) is not None or (folder / _MARK).exists()
    if not ours and any(path.name != LOCK for path in folder.iterdir()):
        raise SettingError(f"{folder}: not empty, and not a work folder of crowdwise; name a new or an empty folder")


@contextmanager
def full_disk_named(place: str | PathLike[str]) -> Iterator[None]:
    """Turn what a full disk does to writers of all kinds into one error that says where."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as problem:
        # Polars gives the number in its text, and numpy only how much of an array it could write.
        full = getattr(problem, "errno", None) == errno.ENOSPC
        if not full and not re.search(rf"os error {errno.ENOSPC}\b|requested and \d+ written", str(problem)):
            raise
        raise OSError(f"{place}: the disk is full; make room there, or name a place on a larger disk") from problem


def begin(folder: Path) -> None:
    """Make the folder, or clear what an unfinished run has left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).write_text(json.dumps({"version": _VERSION}))
    for left in [folder / "spill", *folder.glob("shard-*")]:
        shutil.rmtree(left, ignore_errors=True)


def finish(store: Store, signature: dict[str, Any]) -> None:
    """Write store.json, which says that everything else is there."""
    facts = {name: getattr(store, name) for name in ("item_type", "n_items", "n_votes", "n_missing", "n_gold", "weighted")}
    facts |= {"version": _VERSION, "shards": [asdict(sizes) for sizes in store.shards], "signature": signature}
    facts["notes"] = list(store.notes)
    with replacing(store.folder / "store.json") as temporary:
        temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    (store.folder / _MARK).unlink(missing_ok=True)


def _facts(folder: Path) -> dict[str, Any] | None:
    path = folder / "store.json"
    if not path.is_file():
        return None
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        known = facts["version"] == _VERSION
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise SettingError(f"{path}: not written by this version of crowdwise; name another work folder, or delete this one")
    assert isinstance(facts, dict)
    return facts
