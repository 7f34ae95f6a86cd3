"""The table of checks read back: which drawn items a person has looked at, and what their true labels are."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import Where, as_text, codes_of, plain_name, series_of, tidy, to_polars
from crowdwise.data.gold import TRUE_LABEL, UNCLEAR
from crowdwise.errors import CrowdwiseError, InputError, SettingError, did_you_mean, listed
from crowdwise.estimator.outcome import Result
from crowdwise.io.source import open_source
from crowdwise.kernels.types import Flags, Integers
from crowdwise.trust.audit.plan import DESIGN, DRAW, Plan, parse_design, plan_of

__all__ = ["CheckTable", "Checks", "check_unfilled", "checks_of", "read_checks", "to_fill"]

_BLANK, _UNCLEAR = -1, -2


@dataclass(frozen=True, eq=False)
class CheckTable:
    """A table of checks as found: text columns item, true label, draw and design, and where its rows stand."""

    frame: pl.DataFrame
    where: Where
    seed: int
    error: float

    @property
    def design(self) -> str:
        """The line that names the plan."""
        return str(self.frame[DESIGN][0])


@dataclass(frozen=True, eq=False)
class Checks:
    """Checked labels of a plan.

    Attributes
    ----------
    plan : Plan
    code : [T]
        Of the first T drawn items in order: code of the true class, -1 where nobody looked, -2 where nobody could tell.
    classes : list
        Names of the classes.
    listed : [T]
        Draws that the table has a row of.
    """

    plan: Plan
    code: Integers
    classes: list[str]
    listed: Flags

    @property
    def texts(self) -> list[str | None]:
        """What stands in the table for each drawn item."""
        special: dict[int, str | None] = {_BLANK: None, _UNCLEAR: UNCLEAR}
        return [special[code] if code < 0 else self.classes[code] for code in self.code.tolist()]

    @property
    def item(self) -> Integers:
        """Codes of the drawn items, [T]."""
        return np.asarray(self.plan.strata.item[self.plan.order[: len(self.code)]])

    @property
    def n_usable(self) -> int:
        """Draws before the first that nobody looked at: later ones may be looked at because of what they are."""
        blank = np.flatnonzero(self.code == _BLANK)
        return int(blank[0]) if len(blank) else len(self.code)


def read_checks(source: Any) -> CheckTable:
    """Read a table of checks from a file or a frame, and the seed and error of its plan."""
    if isinstance(source, CheckTable):
        return source
    where: Where
    if isinstance(source, str | PathLike):
        opened = open_source(source)
        name = fspath(source)
        found = _columns(opened.columns, name)
        table = opened.table(list(found.values()))
        frame, where = table.frame, table.where
    else:
        frame, name = to_polars(source), "the table of checks"
        found, where = _columns(frame.columns, name), Where(name)
    frame = frame.select(as_text(tidy(frame[own])).str.strip_chars().alias(column) for column, own in found.items())
    designs = frame[DESIGN].unique(maintain_order=True).to_list()
    parsed = parse_design(designs[0] or "") if designs else None
    if parsed is None:
        raise InputError(f"{name}: the column {DESIGN!r} does not say how the items were drawn; restore it, or draw again")
    if len(designs) > 1:
        row = int(np.flatnonzero((frame[DESIGN].fill_null("") != designs[0]).to_numpy())[0])
        raise InputError(f"{where.row(row)}: drawn otherwise than the rows before; give one table per audit")
    return CheckTable(frame, where, *parsed)


def to_fill(votes: Annotations, items: Integers) -> pl.DataFrame:
    """A table of these items, by position, in which somebody writes their true labels."""
    return pl.DataFrame({"item": series_of(votes.items)[items], TRUE_LABEL: pl.Series([None] * len(items), dtype=pl.String)})


def check_unfilled(path: Path, instead: str = "certify it with --checked, add draws with --more") -> None:
    """Refuse to replace a table into which somebody has written true labels: nothing else brings that work back."""
    if not path.is_file():
        return
    try:
        opened = open_source(path)
        own = _plain_names(opened.columns).get(TRUE_LABEL.replace(" ", ""))
        text = pl.Series([], dtype=pl.String) if own is None else as_text(tidy(opened.table([own]).frame[own]))
    except CrowdwiseError:
        # No table, so none of checks.
        return
    filled = int((text.str.strip_chars().fill_null("") != "").sum())
    if filled:
        words = f"-o: {path} has {filled:,} true label{'s' * (filled > 1)} filled in"
        raise SettingError(f"{words}; {instead}, or name another file")


def _plain_names(columns: list[str]) -> dict[str, str]:
    """Columns by their names without case, spaces and dashes."""
    return {plain_name(column): column for column in columns}


def _columns(columns: list[str], name: str) -> dict[str, str]:
    """The needed columns and what they are called here; case, spaces and dashes do not matter."""
    plain, found = _plain_names(columns), {}
    for column in ("item", TRUE_LABEL, DRAW, DESIGN):
        own = plain.get(column.replace(" ", ""))
        if own is None:
            raise InputError(
                f"{name}: no column {column!r}; found {listed(map(repr, columns))}. Keep all columns of the table that "
                "`crowdwise audit --check N` writes; they say how the items were drawn"
            )
        found[column] = own
    return found


def checks_of(result: Result, source: Any) -> Checks:
    """Match a table of checks with the plan by which its items were drawn; what does not fit is an error that names the row.

    Parameters
    ----------
    result : Result
        The fit from which the items were drawn.
    source : path, frame or Checks
    """
    if isinstance(source, Checks):
        return source
    table = read_checks(source)
    frame, where, votes = table.frame, table.where, result.votes
    item = _codes(frame["item"], series_of(votes.items))
    unknown = np.flatnonzero(item < 0)
    if len(unknown):
        raise InputError(
            f"{where.row(int(unknown[0]))}: item {frame['item'][int(unknown[0])]!r} is not among the votes; give the votes "
            "from which the items were drawn, with unchanged ids"
        )
    plan = plan_of(result, table.error, table.seed)
    if plan.design != table.design:
        raise InputError(
            f"{where.source}: drawn from other votes, or by another method or other options ({table.design!r}; these votes "
            f"and options give {plan.design!r}); use those of the draw, or draw again"
        )
    draw = _draws(frame[DRAW], item, plan, where)
    label = _labels(frame[TRUE_LABEL], result, where)
    code = np.full(int(draw.max(initial=-1)) + 1, _BLANK)
    for row, (place, value) in enumerate(zip(draw.tolist(), label.tolist(), strict=True)):
        if value != _BLANK and code[place] not in (_BLANK, value):
            raise InputError(f"{where.row(row)}: item {frame['item'][row]!r} stands twice with different labels; keep one")
        code[place] = value if value != _BLANK else code[place]
    return Checks(plan, code, [str(name) for name in votes.classes], np.isin(np.arange(len(code)), draw))


def _draws(text: pl.Series, item: Integers, plan: Plan, where: Where) -> Integers:
    """Position in the plan's order of every row, checked against its item."""
    number = text.cast(pl.Int64, strict=False).fill_null(0).to_numpy() - 1
    drawn = plan.strata.item[plan.order]
    inside = (number >= 0) & (number < len(drawn))
    wrong = np.flatnonzero(~inside | (drawn[np.where(inside, number, 0)] != item)) if len(drawn) else np.arange(len(item))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(f"{where.row(row)}: draw {text[row]!r} is of another item; restore the columns item and {DRAW}")
    return np.asarray(number)


def _labels(text: pl.Series, result: Result, where: Where) -> Integers:
    """Class code of every row; -1 where blank, -2 where nobody could tell."""
    names = series_of(result.votes.classes)
    code = _codes(text, names).astype(np.int64)
    blank = (text.is_null() | (text == "")).fill_null(True).to_numpy()
    # A class may be called "?"; then it is that class.
    unclear = ~blank & (code < 0) & (text == UNCLEAR).fill_null(False).to_numpy()
    code[blank], code[unclear] = _BLANK, _UNCLEAR
    unknown = np.flatnonzero((code < 0) & ~blank & ~unclear)
    if len(unknown):
        row, classes = int(unknown[0]), [str(name) for name in result.votes.classes]
        raise InputError(
            f"{where.row(row)}: true label {text[row]!r} is not among the classes {listed(classes)}"
            f"{did_you_mean(str(text[row]), classes)} "
            f"(write {UNCLEAR} where no class fits or nobody can tell: it counts as wrong)"
        )
    return code


def _codes(text: pl.Series, names: pl.Series) -> Integers:
    """Codes of texts among names; a quote that kept a spreadsheet from running a cell is taken off."""
    known = as_text(tidy(names)).str.strip_chars()
    code = codes_of(text, known)
    if len(lost := np.flatnonzero(code < 0)):
        code = code.copy()
        code[lost] = codes_of(text.gather(lost).str.strip_prefix("'"), known)
    return code
