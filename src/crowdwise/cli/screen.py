"""Results on stdout: tables, pairs, CSV and JSON. Users' own texts are shown as they are, never as markup or control codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from typing import Any

from crowdwise.io.streams import print_csv, print_json
from crowdwise.report.text import Table, number, one_line

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
