"""Labels of many shards: a folder of Parquet files, or one file made from them without holding it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from crowdwise.errors import SettingError
from crowdwise.io.atomic import replacing

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
    if target.suffix not in ("", *_SINKS):
        raise SettingError(f"{target}: labels go into a folder (no suffix) or a file that ends in {', '.join(_SINKS)}")
    if not target.absolute().parent.is_dir():
        raise SettingError(f"the folder {str(target.parent)!r} does not exist; create it first")
    if target.suffix and target.is_dir():
        raise SettingError(f"{target} is a folder; name a file in it, or a folder without a suffix")
    if not target.suffix and target.exists() and (not target.is_dir() or _others(target)):
        raise SettingError(f"{target}: holds other files than labels; name a new folder")


def gather_labels(target: Path, write_parts: Callable[[Path], None]) -> int:
    """Have the parts written into a folder beside the target, then put the whole in its place; return the number of rows."""
    check_target(target)
    target = target.absolute()
    parts = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        write_parts(parts)
        scan = pl.scan_parquet(parts / "part-*.parquet")
        n_rows = int(scan.select(pl.len()).collect().item())
        if target.suffix:
            with replacing(target) as partial:
                _SINKS[target.suffix](scan, partial)
            return n_rows
        parts.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        parts.rename(target)
        return n_rows
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _others(folder: Path) -> bool:
    return any(not (path.name.startswith("part-") and path.suffix == ".parquet") for path in folder.iterdir())
