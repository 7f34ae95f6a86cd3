"""Where shards come from: slices of votes in memory, or folders of a store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.shards import MOVING, Shard
from crowdwise.errors import InputError
from crowdwise.io.stored import load_array, map_array
from crowdwise.scale.store import Store, full_disk_named

__all__ = ["FolderSource", "MemorySource", "Source", "cut", "folders_of", "stored_array"]

_POSTERIOR = "posterior.npy"


class Source(Protocol):
    """A shard that can be opened here or elsewhere."""

    @property
    def n_votes(self) -> int:
        """Votes in the shard."""
        ...

    @property
    def in_memory(self) -> bool:
        """Whether it holds votes and is not just a place."""
        ...

    def open(self, posterior_in_memory: bool = True) -> Shard:
        """The shard; a posterior that is not in memory is that of the last step."""
        ...


@dataclass(frozen=True, eq=False)
class MemorySource:
    """A slice of votes that are in memory."""

    votes: Annotations
    index: int
    in_memory: ClassVar[bool] = True

    @property
    def n_votes(self) -> int:
        """Votes in the shard."""
        return self.votes.n_votes

    def open(self, posterior_in_memory: bool = True) -> Shard:
        """A shard with a posterior of zeros."""
        return Shard(self.votes, self.votes.known_codes, np.zeros((self.votes.n_items, self.votes.n_classes)), self.index)


@dataclass(frozen=True)
class FolderSource:
    """A folder of a store; opening it maps its files and reads nothing."""

    folder: str
    index: int
    n_items: int
    n_votes: int
    n_annotators: int
    n_classes: int
    in_memory: ClassVar[bool] = False

    def open(self, posterior_in_memory: bool = True) -> Shard:
        """The shard, its posterior in memory or in a file beside the votes."""
        folder = Path(self.folder)

        def mapped(name: str) -> np.ndarray:
            # An empty file cannot be mapped.
            return stored_array(folder, name, "r" if self.n_votes and self.n_items else None)

        item_ptr, annotator, label = mapped("item_ptr"), mapped("annotator"), mapped("label")
        # Vocabularies matter here for their length alone, and this one takes no room.
        nobody, shape = np.broadcast_to(np.int8(0), (max(self.n_annotators, self.n_items),)), (self.n_items, self.n_classes)
        votes = Annotations(
            item_ptr,
            annotator,
            label,
            items=nobody[: self.n_items],
            annotators=nobody[: self.n_annotators],
            classes=np.zeros(self.n_classes, np.int8),
            weight=mapped("weight") if (folder / "weight.npy").exists() else None,
            gold=mapped("gold") if (folder / "gold.npy").exists() else None,
        )
        in_memory = posterior_in_memory or self.n_items == 0
        posterior = np.zeros(shape) if in_memory else _mapped_posterior(folder / _POSTERIOR, shape)
        shard = Shard(votes, votes.known_codes, posterior, self.index, self.folder)
        if not in_memory and (folder / MOVING).exists():
            shard.moving = load_array(folder / MOVING)
        return shard


def stored_array(folder: Path, name: str, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """An array of a shard, read or mapped."""
    path = folder / f"{name}.npy"
    try:
        return np.asarray(map_array(path, mmap_mode) if mmap_mode else load_array(path))
    except (FileNotFoundError, ValueError, EOFError) as problem:
        raise InputError(
            f"{path}: missing or damaged ({problem}); delete the work folder {folder.parent} to encode the votes again"
        ) from problem


def _mapped_posterior(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """The posterior in a file, as the last step left it; zeros where there is none of this shape."""
    if path.exists():
        try:
            kept = map_array(path, "r+")
        except (ValueError, EOFError):
            pass  # A run that was killed left a part of it; what is in there follows from the votes anyway.
        else:
            if kept.shape == shape and kept.dtype == np.float64:
                return kept
    with full_disk_named(path.parent.parent):
        posterior = np.lib.format.open_memmap(path, "w+", np.float64, shape)
        try:
            _take_room(path)
        except OSError:
            path.unlink()
            raise
    return posterior


def _take_room(path: Path) -> None:
    """Give a file with holes all its room; a disk that is full when a mapped hole is filled would end the process."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def cut(votes: Annotations, n_shards: int) -> list[Source]:
    """Cut votes into at most so many slices of items with about equally many votes; empty ones are left out."""
    wanted = np.searchsorted(votes.item_ptr, np.linspace(0, votes.n_votes, max(n_shards, 1) + 1)[1:-1])
    bounds = np.unique([0, *wanted.tolist(), votes.n_items])
    pairs = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)) or [(0, votes.n_items)]
    return [MemorySource(votes[start:stop], index) for index, (start, stop) in enumerate(pairs)]


def folders_of(store: Store) -> list[Source]:
    """The shards of a store."""
    return [
        FolderSource(
            str(store.shard_folder(index)),
            index,
            size.n_items,
            size.n_votes,
            len(store.annotators),
            len(store.classes),
        )
        for index, size in enumerate(store.shards)
    ]
