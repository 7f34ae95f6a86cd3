"""Results on stdout: tables, pairs, CSV and JSON. Users' own texts are shown as they are, never as markup or control codes."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from crowdwise.io.streams import write_stdout
from crowdwise.report.text import number, one_line

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.report.text import Table

__all__ = ["colours", "print_answer", "print_csv", "print_json", "print_rows", "print_tables"]

# A pipe has no width: wide enough that nothing is cut off.
_PIPE_WIDTH = 400


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables, each below its title and its column names; numbers are rounded."""
    for title, names, rows, right in tables:
        if title:
            # Not by rich, which would break it at the table's width.
            print(one_line(title))
        print_rows(names, rows, right)


def print_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """Print rows below their column names; columns of `right` stand to the right."""
    from rich import table as rich_table
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.text import Text

    table = rich_table.Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(Text(one_line(name)), justify="right" if name in right else "left", overflow="fold")
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


def print_answer(as_json: bool, document: Callable[[], Any], lines: Callable[[], Iterable[str]]) -> None:
    """Print lines for a person, or a document as JSON."""
    if as_json:
        print_json(document())
    else:
        print("\n".join(lines()))


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
