"""What an automatic choice tells a person: one line, and on request the table behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.options import FLAG
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ExplainChoice", "check_explainable", "tell_choice"]

ExplainChoice = Annotated[
    bool, typer.Option("--explain-choice", metavar=FLAG, help="Print the comparison behind --method auto, on stderr.")
]


def check_explainable(estimator: Any, asked: bool) -> None:
    """Refuse --explain-choice before any work where nothing is chosen."""
    if asked and not hasattr(type(estimator), "choice_"):
        raise SettingError(f"--explain-choice needs --method auto; {estimator.name} chooses nothing")


def tell_choice(estimator: Any, asked: bool, quiet: bool) -> None:
    """Say what was chosen and why; the table goes to stderr too, as stdout is for labels."""
    from crowdwise.cli.text import say

    if not hasattr(type(estimator), "choice_"):
        return
    if not quiet:
        say(f"chose {estimator.reason_}")
    if asked:
        for line in _lines(estimator.choice_):
            say(line)


def _lines(table: pl.DataFrame) -> list[str]:
    """The table as aligned text."""
    from crowdwise.cli.text import one_line

    def shown(value: Any) -> str:
        return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else one_line(value)

    rows = [table.columns, *([shown(value) for value in row] for row in table.rows())]
    widths = [max(len(row[k]) for row in rows) for k in range(table.width)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
