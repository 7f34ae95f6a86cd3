"""Results on stdout: tables, pairs, CSV and JSON. Users' own texts are shown as they are, never as markup or control codes."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import number, one_line

if TYPE_CHECKING:
    import polars as pl

__all__ = ["colours", "print_csv", "print_json", "print_pairs", "print_rows", "print_table"]

# A pipe has no width: wide enough that nothing is cut off.
_PIPE_WIDTH = 400


def print_table(frame: pl.DataFrame, title: str | None = None, limit: int | None = None) -> None:
    """Print the first `limit` rows of a frame; numbers are rounded and set to the right."""
    right = [name for name, dtype in frame.schema.items() if dtype.is_numeric()]
    print_rows(frame.columns, [list(row) for row in frame.head(limit or frame.height).rows()], title, right)


def print_rows(names: list[str], rows: list[list[Any]], title: str | None = None, right: list[str] | None = None) -> None:
    """Print rows below their column names."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title and Text(one_line(title)), box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in names:
        table.add_column(Text(one_line(name)), justify="right" if name in (right or []) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(number(cell)) for cell in row))
    if sys.stdout.isatty():
        Console(highlight=False, **colours()).print(table)
        return
    text = StringIO()
    Console(file=text, width=_PIPE_WIDTH, color_system=None).print(table)
    print("\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines()))


def colours() -> dict[str, Any]:
    """Options of a console."""
    # rich keeps bold type under NO_COLOR; people who set it want plain text.
    return {"color_system": None if os.environ.get("NO_COLOR") else "auto"}


def print_pairs(pairs: dict[str, Any], indent: str = "") -> None:
    """Print names and values, a line each; nested pairs are indented below their name."""
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        if isinstance(value, dict):
            print(f"{indent}{one_line(name)}")
            print_pairs(value, indent + "  ")
        else:
            print(f"{indent}{one_line(name):<{width}}  {number(value) or '-'}")


def print_csv(frame: pl.DataFrame) -> None:
    """Write CSV on stdout, as UTF-8 whatever the locale, some rows at a time."""
    from crowdwise.io.writer import rounded

    frame = rounded(frame)
    for index, part in enumerate(frame.iter_slices(100_000) if frame.height else [frame]):
        _write_stdout(part.write_csv(include_header=index == 0).encode())


def print_json(document: Any) -> None:
    """Write JSON on stdout; numbers that JSON lacks (NaN, infinity) become null."""
    text = json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False)
    _write_stdout(text.encode("utf-8", "replace") + b"\n")


def _write_stdout(data: bytes) -> None:
    sys.stdout.flush()
    rest = memoryview(data)
    # With PYTHONUNBUFFERED, stdout is a raw file, and a raw write may stop half-way without an error.
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]


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
