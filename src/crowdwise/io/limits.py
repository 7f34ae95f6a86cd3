"""How much a compressed file may unfold to: counted before it is kept, so that a few megabytes cannot take all memory.

A plain file is as large as it looks. Gzip, zip archives, Parquet and stdin are not, so all readers ask here. The limit holds
for a block (`limited`), which is what ``max_bytes=`` and ``--max-bytes`` set.
"""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import IO, Any

import numpy as np

from crowdwise.errors import InputError, SettingError

__all__ = [
    "DEFAULT",
    "bytes_of",
    "check_archive",
    "check_npy",
    "check_rows",
    "copied",
    "limit",
    "limited",
    "npy_of",
    "unfolded",
]

DEFAULT = 2**30
_LIMIT: ContextVar[int] = ContextVar("max_bytes", default=DEFAULT)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_CHUNK = 2**20
# Votes, even sorted ones, compress a few dozen times; a table beyond this is made to unfold.
_RATIO = 200


@contextmanager
def limited(max_bytes: int | None) -> Iterator[None]:
    """Within this block, compressed files may unfold to so many bytes; None leaves the limit as it is."""
    if max_bytes is None:
        yield
        return
    if type(max_bytes) is not int or max_bytes < 1:
        raise SettingError(f"max_bytes must be a whole number of bytes above 0; got {max_bytes!r}")
    token = _LIMIT.set(max_bytes)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def limit() -> int:
    """The limit in force, in bytes."""
    return _LIMIT.get()


def bytes_of(text: str) -> int:
    """From "500MB", "2GiB" or "1000000" to bytes."""
    found = _SIZE.fullmatch(text.strip())
    size = 0 if found is None else int(float(found[1]) * (1024 if found[3] else 1000) ** " kmgt".index(found[2].lower() or " "))
    if size < 1:
        raise SettingError(f"--max-bytes must be a size such as 4GB or 500000000; got {text!r}")
    return size


def too_large(name: str, what: str) -> InputError:
    """The error of a file that unfolds to more than the limit."""
    return InputError(
        f"{name}: {what} more than {limit():,} bytes, the limit for files that may come from strangers; "
        "if you trust it, allow more with --max-bytes 8GB or max_bytes=..."
    )


def unfolded(data: bytes, name: str) -> bytes:
    """Unzip gzip data, in memory only once it is known to stay within the limit."""
    try:
        return _in_steps(data, name)
    except (zlib.error, EOFError) as error:
        raise InputError(f"{name}: the gzip data are damaged ({error}); download or compress it again") from None


def _in_steps(data: bytes, name: str, count_first: bool | None = None) -> bytes:
    """Unzip and keep; data that compress too well to be votes are counted to the end before they are kept."""
    parts: list[bytes] = []
    size = 0
    for consumed, part in _pieces(data):
        size += len(part)
        if size > limit():
            raise too_large(name, "unzips to")
        if count_first is None and size > 2**26 and size > 100 * consumed:
            count_first = True
            parts.clear()
        if not count_first:
            parts.append(part)
    return _in_steps(data, name, count_first=False) if count_first else b"".join(parts)


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield how much was read so far, and what it unzips to, at most a few megabytes at a time."""
    view, start = memoryview(data), 0
    while start < len(data):
        unzip = zlib.decompressobj(31)
        rest: Any = b""
        while not unzip.eof:
            if not rest:
                if start >= len(data):
                    raise EOFError("the file ends early")
                rest = view[start : start + _CHUNK]
                start += len(rest)
            part = unzip.decompress(rest, 4 * _CHUNK)
            rest = unzip.unconsumed_tail
            yield start, part
        start -= len(unzip.unused_data)
        # Padding after the last member; another member begins with its mark.
        while start < len(data) and data[start] == 0:
            start += 1


def check_archive(archive: zipfile.ZipFile, size: int, name: str, *, stored: bool = False) -> None:
    """Refuse an archive whose members unfold to more than the limit, or, where all are `stored`, to more than the file."""
    members = archive.infolist()
    if stored and any(each.compress_type != zipfile.ZIP_STORED or each.file_size != each.compress_size for each in members):
        raise ValueError("a compressed member, which could grow without bounds")
    total = sum(each.file_size for each in members)
    if stored and total > size:
        raise ValueError(f"its members claim {total:,} bytes, and the file has {size:,}")
    if not stored and total > max(limit(), size):
        raise too_large(name, "unzips to")


def check_rows(n_rows: int, n_columns: int, declared: int, size: int, name: str) -> None:
    """Refuse a table of a few bytes that says it has billions of rows, or pages of gigabytes.

    A cell takes at least sixteen bytes in memory. Honest tables compress too, so that more than the limit is refused only where
    it is more than a few hundred times the file's size.
    """
    needed = max(n_rows * max(n_columns, 1) * 16, declared)
    if needed > limit() and needed > _RATIO * size:
        raise too_large(name, f"its {n_rows:,} rows unfold to")


def check_npy(file: IO[bytes], size: int) -> None:
    """Refuse a ``.npy`` member whose header claims more than its `size`: numpy would take that memory before it reads."""
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size or math.prod(shape) > size:
        raise ValueError(f"an array of shape {shape} in {size:,} bytes")


def npy_of(content: bytes) -> Any:
    """The array of a ``.npy`` file's content; one of objects is refused unopened."""
    check_npy(BytesIO(content), len(content))
    return np.lib.format.read_array(BytesIO(content), allow_pickle=False)


def copied(stream: IO[bytes], target: IO[bytes], name: str) -> None:
    """Copy a stream, whose length nobody knows, up to the limit."""
    size = 0
    while part := stream.read(_CHUNK):
        size += len(part)
        if size > limit():
            raise too_large(name, "it is")
        target.write(part)
