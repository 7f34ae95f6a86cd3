"""Tables for people, by rich; users' texts are shown as they are, never read as markup."""

from __future__ import annotations

import os
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

from crowdwise.cli.text import number, one_line

if TYPE_CHECKING:
    import polars as pl

__all__ = ["bar", "print_pairs", "print_rows", "print_table"]

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
        # rich keeps bold type under NO_COLOR; people who set it want plain text.
        Console(highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto").print(table)
        return
    text = StringIO()
    Console(file=text, width=_PIPE_WIDTH, color_system=None).print(table)
    print("\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines()))


def print_pairs(pairs: dict[str, Any], indent: str = "") -> None:
    """Print names and values, a line each; nested pairs are indented below their name."""
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        if isinstance(value, dict):
            print(f"{indent}{one_line(name)}")
            print_pairs(value, indent + "  ")
        else:
            print(f"{indent}{one_line(name):<{width}}  {number(value) or '-'}")


def bar(value: float, largest: float, width: int = 12) -> str:
    """Return a bar from the middle: to the right for positive values, to the left for negative ones."""
    size = 0 if largest <= 0 else round(abs(value) / largest * width)
    left, right = ("▇" * size, "") if value < 0 else ("", "▇" * size)
    return f"{left:>{width}}│{right:<{width}}"
