"""Outputs of a fit to many files, checked before any work, and an orderly end of one that is asked to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.storage import FILE_NAME
from crowdwise.scale.batches import n_votes_of
from crowdwise.scale.inputs import files_at, find_inputs

if TYPE_CHECKING:
    from crowdwise.scale.engine import Engine

__all__ = ["check_places", "ending_in_order", "is_one_file", "rows_of", "running"]


def check_places(
    outputs: Mapping[str, Path | None], paths: Sequence[str], others: Sequence[str | Path | None], work_dir: Path | None
) -> None:
    """Refuse, before any work, outputs that would replace an input, be taken for votes, or lie in each other's folders.

    Parameters
    ----------
    outputs : mapping
        Option -> path.
    paths, others
        Files, folders and patterns of votes; further files that are read.
    work_dir : Path or None
    """
    read = [*files_at(path for path in paths if path != "-"), *(str(path) for path in others if path is not None)]
    given = {name: path for name, path in outputs.items() if path is not None and str(path) != "-"}
    for name, path in given.items():
        for folder in paths:
            if Path(folder).is_dir() and _within(path, folder):
                raise SettingError(f"{name}: {path} lies within {folder}, so it would count as votes; name a place elsewhere")
        for file in read:
            if _within(file, path):
                raise SettingError(f"{name}: {path} {'holds' if path.is_dir() else 'is also'} the input {file}; name another")
        if work_dir is not None and (_within(path, work_dir) or _within(work_dir, path)):
            raise SettingError(f"{name}: {path} and the work folder {work_dir} lie in one another; name a place elsewhere")
        for other, second in given.items():
            if other != name and _within(second, path):
                raise SettingError(f"{other}: {second} is the place of {name}, or lies in it; name another")


def _within(path: str | Path, folder: str | Path) -> bool:
    """Whether a path is a folder, or lies in it, by whatever name."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Leave on SIGTERM as on any error, so that temporary folders are removed."""

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = None
    # Only the main thread may say what a signal does.
    with suppress(ValueError):
        before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def running(name: str, *, shards: int | None, work_dir: Path | None, address: str | None) -> Iterator[Engine]:
    """The engine of this name, local or ray; where it is interrupted, the words say what the work folder keeps."""
    from crowdwise.scale import Local, Ray

    options: dict[str, Any] = {"shards": shards, "work_dir": work_dir}
    with ending_in_order(), Ray(address=address, **options) if name == "ray" else Local(**options) as engine:
        try:
            yield engine
        except KeyboardInterrupt:
            if work_dir is None:
                raise
            done = "the encoded votes and the last iteration" if (work_dir / "store.json").exists() else "nothing yet"
            raise KeyboardInterrupt(f"{work_dir} keeps {done}; the same command resumes there") from None


def is_one_file(paths: Sequence[str]) -> bool:
    """Whether there is nothing to put together: one file, stdin, a saved model, or a platform's folder."""
    path = paths[0]
    if len(paths) > 1 or path == "-" or Path(path).is_file():
        return len(paths) == 1
    if Path(path).is_dir():
        # Folders of JSON are platforms' exports, which have a reader of their own.
        files = [name for _, _, names in os.walk(path) for name in names]
        return FILE_NAME in files or any(name.endswith((".json", ".jsonl")) for name in files)
    return not any(c in path for c in "*?[")


def rows_of(paths: Sequence[str]) -> int:
    """Votes in these files, nearly; 0 for one that is no table, as readers of other formats may know it."""
    one_file = is_one_file(paths)
    if one_file and not Path(paths[0]).is_file():
        return 0
    try:
        return n_votes_of(find_inputs(paths))
    except InputError:
        if one_file:
            return 0
        raise
