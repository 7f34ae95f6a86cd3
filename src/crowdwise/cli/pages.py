"""The page of commands whose answers are not one class per item."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.report import Intervals

__all__ = ["interval_rows", "write_answers_page"]


def write_answers_page(
    page: Path | None,
    quiet: bool,
    *,
    title: str,
    estimator: Any,
    facts: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
    notes: Sequence[str] = (),
    intervals: Intervals | None = None,
) -> None:
    """Write the page, if one is asked for, and say so; see `crowdwise.report.answers`."""
    if page is None:
        return
    from crowdwise import __version__
    from crowdwise.cli.outputs import wrote
    from crowdwise.report import write_answers

    made = {
        "Command": shlex.join(["crowdwise", *sys.argv[1:]]),
        "Method with its settings": repr(estimator),
        "crowdwise": __version__,
    }
    write_answers(
        page, title=title, method=estimator.name, facts=facts, tables=tables, notes=notes, intervals=intervals, made=made
    )
    wrote(page, quiet)


def interval_rows(frame: pl.DataFrame, title: str, unit: str, name: str, columns: tuple[str, str, str]) -> Intervals:
    """The rows of a frame as a picture: the column of names, and those of lower ends, estimates and upper ends."""
    from crowdwise.report import Intervals

    low, middle, high = (frame[column].cast(float).to_numpy() for column in columns)
    return Intervals(title, unit, frame[name].to_list(), low, middle, high)
