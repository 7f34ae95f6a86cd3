"""Files and folders that exist only while they are written, and what killed processes have left of them.

Who makes one holds its lock, which the system lets go of when the process ends, however it ends. The next that works at the
same place deletes those that nobody holds. Imports nothing heavy, as `crowdwise.io.writer`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crowdwise.io.lock import try_hold

__all__ = ["HeldFolder", "clear_files", "held_folder", "is_temporary"]

_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp(\.\w+)?")
_LOCK = ".lock"
# Where a file system has no locks, what is older than a day is left over.
_OLD = 24 * 3600


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that `crowdwise.io.writer.replacing` makes."""
    return _TEMPORARY.fullmatch(name) is not None


def clear_files(paths: list[str]) -> None:
    """Delete those of these temporary files that nobody writes any more."""
    for path in paths:
        with suppress(OSError):
            if _is_left(path):
                os.unlink(path)


def _is_left(path: str | Path) -> bool:
    """Whether nobody holds the lock of a file, without which it is old."""
    file = os.open(path, os.O_RDWR)
    try:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except (ImportError, OSError):
            return time.time() - os.fstat(file).st_mtime > _OLD
        return True
    finally:
        os.close(file)


class HeldFolder:
    """A temporary folder, readable by its owner only, that is deleted by `remove` or, after a crash, by the next run."""

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        _clear_folders(prefix, Path(tempfile.gettempdir()) if parent is None else parent)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            self._file = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            # Somebody who clears the place may have been quicker than the lock.
            if try_hold(self._file) and os.fstat(self._file).st_nlink:
                return
            os.close(self._file)

    def let_go(self) -> None:
        """Make an ordinary folder of it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            (self.path / _LOCK).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete it with all it holds; more than once does no harm."""
        self.let_go()
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def held_folder(prefix: str = "crowdwise-", parent: Path | None = None) -> Iterator[Path]:
    """A `HeldFolder` for a block."""
    folder = HeldFolder(prefix, parent)
    try:
        yield folder.path
    finally:
        folder.remove()


def _clear_folders(prefix: str, parent: Path) -> None:
    """Delete folders of this prefix that are ours, have a lock, and are held by nobody."""
    with suppress(OSError), os.scandir(parent) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False)]
        for path in left:
            with suppress(OSError):
                ours = not hasattr(os, "getuid") or os.lstat(path).st_uid == os.getuid()
                if ours and _is_left(Path(path) / _LOCK):
                    shutil.rmtree(path, ignore_errors=True)
