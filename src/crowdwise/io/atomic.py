"""Files that appear whole or not at all, whatever stops the writer.

Imports nothing heavy, so that a crash test can start it two hundred times.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write; on success it replaces `path` in one step.

    On any exception, `KeyboardInterrupt` included, the temporary file is removed and `path` stays
    as it was. A killed process leaves `path` entirely old or entirely new.

    Parameters
    ----------
    path : path
        The file to create or replace. A symbolic link is followed, not replaced.

    Yields
    ------
    Path
        A new empty file in the same folder, because a rename is atomic only within a file system.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; name a file in it")
    # The suffix stays last, so that writers that look at it still recognise the format.
    temporary = target.with_name(f".{os.urandom(8).hex()}.tmp{target.suffix}")
    # os.open rather than tempfile: the user's umask decides who may read the result.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o7777)
        _sync(temporary, os.O_RDWR)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    # Without this the rename itself may be lost when the power fails.
    with contextlib.suppress(OSError):
        _sync(target.parent, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
