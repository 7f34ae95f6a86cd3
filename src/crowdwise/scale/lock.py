"""One run at a time in a work folder."""

from __future__ import annotations

import os
from pathlib import Path

from crowdwise.errors import SettingError

__all__ = ["LOCK", "Lock"]

LOCK = ".lock"


class Lock:
    """A folder held by this process until it lets go or dies; on systems without file locks, nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise SettingError(f"{folder}: another run is using this work folder; wait for it, or name another") from None

    def release(self) -> None:
        """Let others in; more than once does no harm."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
