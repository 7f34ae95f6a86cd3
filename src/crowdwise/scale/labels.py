"""Labels of many shards: a folder of Parquet files, or one file made from them without holding it."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from crowdwise.errors import SettingError
from crowdwise.io.writer import replacing
from crowdwise.scale.lock import LOCK, Lock
from crowdwise.scale.store import full_disk_named

__all__ = ["check_target", "gather_labels"]

_SINKS: dict[str, Callable[..., Any]] = {
    ".parquet": pl.LazyFrame.sink_parquet,
    ".csv": pl.LazyFrame.sink_csv,
    ".tsv": lambda frame, path: frame.sink_csv(path, separator="\t"),
    ".arrow": pl.LazyFrame.sink_ipc,
    ".jsonl": pl.LazyFrame.sink_ndjson,
}


def check_target(target: Path) -> None:
    """Refuse what could not be written, before any work."""
    suffix = target.suffix.lower()
    if suffix not in ("", *_SINKS):
        raise SettingError(f"{target}: labels go into a folder (no suffix) or a file that ends in {', '.join(_SINKS)}")
    if not target.absolute().parent.is_dir():
        raise SettingError(f"the folder {str(target.parent)!r} does not exist; create it first")
    if not os.access(target.absolute().parent, os.W_OK):
        raise SettingError(f"you may not write into the folder {str(target.parent)!r}; name another")
    if suffix and target.is_dir():
        raise SettingError(f"{target} is a folder; name a file in it, or a folder without a suffix")
    if not suffix and target.exists() and (not target.is_dir() or _others(target)):
        raise SettingError(f"{target}: holds other files than labels; name a new folder")


def gather_labels(target: Path, write_parts: Callable[[Path], None]) -> int:
    """Have the parts written into a folder beside the target, then put the whole in its place; return the number of rows."""
    check_target(target)
    target = Path(os.path.realpath(target))
    _clear_left(target)
    parts, before = _beside(target), None
    held = [Lock(parts)]
    try:
        with full_disk_named(target.parent):
            write_parts(parts)
            scan = pl.scan_parquet(parts / "part-*.parquet")
            n_rows = int(scan.select(pl.len()).collect().item())
            if target.suffix:
                with replacing(target) as partial:
                    _SINKS[target.suffix.lower()](scan, partial)
                return n_rows
        parts.chmod(0o755)
        # Let go of first: Windows neither deletes an open file nor moves a folder that has one.
        held.pop().release()
        (parts / LOCK).unlink()
        if target.exists():
            before = _beside(target)
            held.append(Lock(before))
            # Moved before it is deleted, so that a run that is killed leaves no part of it.
            target.rename(before / "labels")
        parts.rename(target)
        return n_rows
    finally:
        for lock in held:
            lock.release()
        for left in filter(None, (parts, before)):
            shutil.rmtree(left, ignore_errors=True)


def _beside(target: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))


def _clear_left(target: Path) -> None:
    """Delete the parts that a killed run has left beside the target; those of a run that goes on are locked."""
    for left in target.parent.glob(f".{glob.escape(target.name)}-????????"):
        if not (left / LOCK).exists():
            continue
        try:
            Lock(left).release()
        except (SettingError, OSError):
            continue
        shutil.rmtree(left, ignore_errors=True)


def _others(folder: Path) -> bool:
    return any(not (path.name.startswith("part-") and path.suffix == ".parquet") for path in folder.iterdir())
