"""Locks on open files: held by one process at a time, and let go of by the system when it dies, however it dies."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["hold", "let_go", "try_hold"]

# Windows locks bytes and not files, and nobody can read those: ones that no file has.
_BYTE = 2**62
_PAUSE = 0.001


def try_hold(file: int) -> bool:
    """Take the lock of an open file, unless another process has it; file systems without locks have none to take."""
    try:
        import fcntl
    except ImportError:
        return _try_hold_on_windows(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some network file systems.
        return True
    return True


def let_go(file: int) -> None:
    """Give the lock back; closing the file does the same."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def hold(file: int, seconds: float = 30.0) -> Iterator[bool]:
    """Wait for the lock of an open file; gives False where another process does not let go of it in time."""
    until = time.monotonic() + seconds
    while not (held := try_hold(file)) and time.monotonic() < until:
        time.sleep(_PAUSE)
    try:
        yield held
    finally:
        if held:
            let_go(file)


def _try_hold_on_windows(file: int) -> bool:
    import msvcrt  # type: ignore[import-not-found, unused-ignore]

    before = os.lseek(file, 0, os.SEEK_CUR)
    try:
        os.lseek(file, _BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        return False
    finally:
        os.lseek(file, before, os.SEEK_SET)
    return True
