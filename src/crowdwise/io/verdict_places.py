"""Which of two answers stood first where a file names neither, and verdicts as judges write them.

A column says that the two were swapped (swapped: true), or in which order they stood (order: BA). A verdict is a place: A,
[[A]] as in MT-Bench's prompts, Assistant A, first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from crowdwise.data.encode import as_text, tidy

__all__ = ["PLACES", "are_places", "as_places", "turn_column", "turned"]

PLACES = ("a", "b", "first", "second", "left", "right", "1", "2", "tie", "draw", "equal")
_FLAGS = ("swapped", "is_swapped", "swap", "order_swapped", "reversed", "is_reversed", "flipped", "is_flipped")
_ORDERS = ("order", "answer_order", "presentation_order", "position_order")
_YES = ("1", "1.0", "true", "yes", "y")
_AS_NAMED = ("ab", "afirst", "original", "normal", "forward", "unchanged", "notswapped")
_TURNED = ("ba", "bfirst", "swapped", "swap", "reversed", "reverse", "flipped", "inverted")
# Words before a place: Assistant A, response_b.
_WHOSE = r"^(?:answer|response|assistant|model|option|output|completion|candidate)[ _-]*"


def turn_column(names: Sequence[str], column: Callable[[str], pl.Series]) -> str | None:
    """The column that says which rows have the two in the other order; `column` reads one."""
    usual = {name.lower(): name for name in names}
    flag = next((usual[name] for name in _FLAGS if name in usual), None)
    if flag is not None:
        return flag
    for name in (usual[name] for name in _ORDERS if name in usual):
        said = _letters(column(name)).drop_nulls().unique().to_list()
        # An order of another kind, such as a number, is none.
        if not {*_TURNED}.isdisjoint(said) and {*said} <= {*_TURNED, *_AS_NAMED}:
            return name
    return None


def turned(cells: pl.Series) -> pl.Series:
    """Whether the two stood in the other order, row by row."""
    text = as_text(tidy(cells)).str.strip_chars().str.to_lowercase()
    return (text.is_in(_YES) | _letters(cells).is_in(_TURNED)).fill_null(False)


def as_places(cells: pl.Series) -> pl.Series:
    """Verdicts without what judges write around a place; what is no place stays as it is."""
    text = as_text(tidy(cells))
    bare = text.str.strip_chars().str.to_lowercase()
    inside = bare.str.strip_chars("[] ").str.replace(_WHOSE, "")
    # The C of [[C]] is a tie; without brackets it may be a third answer.
    inside = inside.to_frame("x").select(
        pl.when((pl.col("x") == "c") & pl.lit(bare.str.starts_with("[["))).then(pl.lit("tie")).otherwise("x").alias("x")
    )["x"]
    rows = pl.DataFrame({"text": text, "place": inside})
    return rows.select(pl.when(pl.col("place").is_in(PLACES)).then("place").otherwise("text").alias(cells.name))[cells.name]


def are_places(cells: pl.Series) -> bool:
    """Whether all verdicts are places."""
    said = as_places(cells).drop_nulls()
    return bool(said.is_in(PLACES).all())


def _letters(cells: pl.Series) -> pl.Series:
    return as_text(tidy(cells)).str.to_lowercase().str.replace_all(r"[^a-z]", "")
