"""Whether files of votes, outputs and the work folder get in each other's way: known from their names, before any work."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from crowdwise.cli.inputs import STDIN
from crowdwise.errors import SettingError

__all__ = ["check_places"]


def check_places(
    outputs: Mapping[str, Path | None], paths: Sequence[str], others: Sequence[Path | None], work_dir: Path | None
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
    from crowdwise.scale.inputs import files_at

    read = [*files_at(path for path in paths if path != STDIN), *(str(path) for path in others if path is not None)]
    given = {option: path for option, path in outputs.items() if path is not None and str(path) != STDIN}
    for option, path in given.items():
        for folder in paths:
            if Path(folder).is_dir() and _within(path, folder):
                raise SettingError(f"{option}: {path} lies within {folder}, so it would count as votes; name a place elsewhere")
        for file in read:
            if _within(file, path):
                raise SettingError(f"{option}: {path} {'holds' if path.is_dir() else 'is also'} the input {file}; name another")
        if work_dir is not None and (_within(path, work_dir) or _within(work_dir, path)):
            raise SettingError(f"{option}: {path} and the work folder {work_dir} lie in one another; name a place elsewhere")
        for other, second in given.items():
            if other != option and _within(second, path):
                raise SettingError(f"{other}: {second} is the place of {option}, or lies in it; name another")


def _within(path: str | Path, folder: str | Path) -> bool:
    """Whether a path is a folder, or lies in it, by whatever name."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
