"""What people see: lines, tables and progress. Users' own texts are shown as they are, never as markup or control codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

from crowdwise.report.lines import count, number, one_line, some

if TYPE_CHECKING:
    import polars as pl

__all__ = ["bar", "count", "epochs", "iterations", "number", "one_line", "print_pairs", "print_rows", "print_table", "say"]
__all__ += ["some", "steps"]

# A pipe has no width: wide enough that nothing is cut off.
_PIPE_WIDTH = 400


def say(line: str) -> None:
    """Print a line on stderr, where it never mixes with results."""
    print(line, file=sys.stderr)


# -- tables ------------------------------------------------------------------------------------


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
        Console(highlight=False, **_colours()).print(table)
        return
    text = StringIO()
    Console(file=text, width=_PIPE_WIDTH, color_system=None).print(table)
    print("\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines()))


def _colours() -> dict[str, Any]:
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


def bar(value: float, largest: float, width: int = 12) -> str:
    """Return a bar from the middle: to the right for positive values, to the left for negative ones."""
    size = 0 if largest <= 0 else round(abs(value) / largest * width)
    left, right = ("▇" * size, "") if value < 0 else ("", "▇" * size)
    return f"{left:>{width}}│{right:<{width}}"


# -- progress on stderr, only while a person is watching ---------------------------------------


@contextmanager
def iterations(estimator: Any, quiet: bool) -> Iterator[Callable[[int, float, float], None] | None]:
    """Give the callback of `fit`: iterations so far and how much the posterior still moves."""
    with steps(quiet, estimator.name) as show:
        total = estimator.get_params().get("max_iter")
        yield show and (lambda n, bound, change: show(f"{estimator.name}: change {change:.1e}", n, total))


@contextmanager
def epochs(estimator: Any, quiet: bool) -> Iterator[Callable[[int, float, float], None] | None]:
    """Give the callback of a classifier's `fit`: epochs so far and the score of held-out votes, or how much still moves."""
    with steps(quiet, estimator.name) as show:
        settings = estimator.get_params(deep=False)
        network = "epochs" in settings or getattr(estimator, "has_network", False)
        total = settings.get("epochs", settings.get("max_iter"))

        def text(score: float) -> str:
            # Held out is a loss per vote; without any, as in the last run on all items, it is not a number.
            return "training on all items" if score != score else f"held-out {-score:.4f}" if network else f"change {score:.1e}"

        yield show and (lambda n, objective, score: show(f"{estimator.name}: {text(score)}", n, total))


@contextmanager
def steps(quiet: bool, name: str = "") -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Give a callback for named steps: which is running, and how many are done of how many."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    # stdout may be a pipe whose bytes are the result: it is left alone.
    with Progress(*columns, console=Console(stderr=True, **_colours()), transient=True, redirect_stdout=False) as shown:
        task = shown.add_task(name, total=None)
        yield lambda what, done, total: shown.update(task, description=what, completed=done, total=total)
