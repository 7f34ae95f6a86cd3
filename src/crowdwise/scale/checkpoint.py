"""A fit on its way, in a file: what an interrupted run resumes.

Posteriors are not kept. They follow from the parts, so one pass over the votes brings them back.
"""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path
from typing import Any

from crowdwise.engines.shards import Kept
from crowdwise.errors import InputError
from crowdwise.estimator.codec import pack, unpack
from crowdwise.estimator.storage import npy_bytes
from crowdwise.io.limits import check_archive, npy_of
from crowdwise.io.writer import replacing
from crowdwise.scale.store import full_disk_named

__all__ = ["Checkpoints", "Resumable"]

_ROLES = ("prior", "annotators")
# A file that takes more seconds than this is written only while all of them take less than this share of the time.
_CHEAP, _SHARE = 0.03, 0.1


class Checkpoints:
    """Fits on their way in a folder, for one method with its settings; those of another are deleted.

    Parameters
    ----------
    folder : path
    run : mapping
        What makes a run the same: method, settings, votes. JSON can hold it.
    every : int
        Iterations between two files; more where a file would take more than a tenth of the time.
    """

    def __init__(self, folder: str | Path, run: dict[str, Any], every: int = 1) -> None:
        self.folder, self.every, self._since = Path(folder), every, 0
        self._took = self._written = 0.0
        described = json.dumps(run, sort_keys=True, default=str)
        note = self.folder / "run.json"
        if not note.exists() or note.read_bytes() != described.encode():
            self.clear()
            with replacing(note) as partial:
                partial.write_text(described, encoding="utf-8")

    def clear(self) -> None:
        """Forget every fit."""
        for path in self.folder.glob("fit-*.zip"):
            path.unlink()

    def keep(self, name: str, kept: Kept, last: bool = False) -> None:
        """Write a fit, whole or not at all, if it is time for that or its `last` round."""
        self._since += 1
        started = time.monotonic()
        early = self._since < self.every or (self._took > _CHEAP and started - self._written < self._took / _SHARE)
        if early and not last:
            return
        self._since = 0
        meta: dict[str, Any] = {}
        arrays: dict[str, Any] = {"rows": kept.rows}
        for role in _ROLES:
            meta[role] = pack(getattr(kept, role), role, arrays)
        meta["arrays"] = list(arrays)
        path = self._path(name)
        with full_disk_named(self.folder), replacing(path) as partial, zipfile.ZipFile(partial, "w") as archive:
            archive.writestr("meta.json", json.dumps(meta))
            for field, array in arrays.items():
                archive.writestr(f"{field}.npy", npy_bytes(array))
        self._written = time.monotonic()
        self._took = self._written - started

    def kept(self, name: str) -> Kept | None:
        """The fit kept under this name."""
        path = self._path(name)
        if not path.exists():
            return None
        try:
            with zipfile.ZipFile(path) as archive:
                check_archive(archive, path.stat().st_size, str(path), stored=True)
                meta = json.loads(archive.read("meta.json"))
                arrays = {field: npy_of(archive.read(f"{field}.npy")) for field in meta["arrays"]}
            parts = {role: unpack(meta[role], arrays) for role in _ROLES}
            return Kept(rows=arrays["rows"], **parts)
        except Exception as problem:  # whatever a damaged file does to the readers is its fault, not theirs
            raise InputError(f"{path}: cannot be read ({problem}); delete it to start the fit from scratch") from problem

    def _path(self, name: str) -> Path:
        return self.folder / f"fit-{name}.zip"


class Resumable:
    """Base of shards whose fits are kept, where there is a folder to keep them in."""

    def __init__(self, checkpoints: Checkpoints | None) -> None:
        self._checkpoints = checkpoints

    @property
    def keeps(self) -> bool:
        """Whether there is a work folder."""
        return self._checkpoints is not None

    def keep(self, name: str, kept: Kept, last: bool = False) -> None:
        """Write a checkpoint where there is a work folder."""
        if self._checkpoints is not None:
            self._checkpoints.keep(name, kept, last)

    def kept(self, name: str) -> Kept | None:
        """What an interrupted run has kept."""
        return None if self._checkpoints is None else self._checkpoints.kept(name)
