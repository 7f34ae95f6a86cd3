"""Standard streams: stdin through a file, stdout to the last byte, and both where the caller has closed them."""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from crowdwise.errors import CrowdwiseError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["from_stdin", "open_streams", "print_csv", "print_json", "settle_stdout", "write_stdout"]

T = TypeVar("T")


def from_stdin(read: Callable[[Path], T]) -> T:
    """What `read` makes of stdin, which goes through a file; messages call that file stdin."""
    from crowdwise.io.leftovers import held_folder
    from crowdwise.io.limits import copied

    with held_folder() as folder:
        # Without a suffix the content decides, so JSON lines and Parquet can be piped in as well.
        file = folder / "stdin"
        with file.open("wb") as copy:
            copied(sys.stdin.buffer, copy, "stdin")
        try:
            return read(file)
        except CrowdwiseError as problem:
            words = re.sub(rf"(crowdwise \w+ ){re.escape(str(file))}", r"\1-", str(problem)).replace(str(file), "stdin")
            raise type(problem)(words) from problem


def write_stdout(data: bytes) -> None:
    """Write bytes on stdout, all of them, after what was printed."""
    sys.stdout.flush()
    rest = memoryview(data)
    # With PYTHONUNBUFFERED, stdout is a raw file, and a raw write may stop half-way without an error.
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]


def print_csv(frame: pl.DataFrame) -> None:
    """Write CSV on stdout, as UTF-8 whatever the locale, some rows at a time."""
    for index, part in enumerate(frame.iter_slices(100_000) if frame.height else [frame]):
        write_stdout(part.write_csv(include_header=index == 0).encode())


def print_json(document: Any) -> None:
    """Write JSON on stdout; numbers that JSON lacks (NaN, infinity) become null."""
    text = json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False)
    write_stdout(text.encode("utf-8", "replace") + b"\n")


def _plain(value: Any) -> Any:
    """Python's own types, all the way down."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def settle_stdout() -> None:
    """Drop what stdout refuses to take: Python would try once more at exit, and complain in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        # A stream without a descriptor (in tests) has no such last attempt.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Closed(io.RawIOBase):
    """Stdout where the caller has closed it: fine as long as nothing is written."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raise OSError("stdout is closed; write to a file with -o, or leave stdout open")


def open_streams() -> None:
    """Stand in for streams that the caller has closed: Python has None for them, and files opened later get their numbers.

    They stay open as long as the program runs.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed(), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        # Otherwise `print(..., file=sys.stderr)` would mix into the results on stdout.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
