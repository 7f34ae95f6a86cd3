"""One run at a time in a work folder."""

from __future__ import annotations

import os
from pathlib import Path

from crowdwise.errors import SettingError
from crowdwise.io.lock import try_hold

__all__ = ["LOCK", "Lock"]

LOCK = ".lock"


class Lock:
    """A folder held by this process until it lets go or dies; on file systems without locks, nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o666)
        if not try_hold(self._file):
            os.close(self._file)
            raise SettingError(f"{folder}: another run is using this work folder; wait for it, or name another")

    def release(self) -> None:
        """Let others in; more than once does no harm."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
