"""The columns that a kind of answers needs, found in a frame or in whatever else has named columns.

A kind finds out which columns it needs before any is fetched, so that a file (`crowdwise.io`) reads these alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from crowdwise.data.encode import ALIASES, Where, find_column, plain_name, to_polars
from crowdwise.errors import InputError, did_you_mean, listed

__all__ = ["ColumnSource", "column_source", "columns_by_role", "lost_columns", "plays_role", "plural_label"]


class ColumnSource:
    """Named columns that are fetched on demand: here those of a frame; files are a subclass of their own."""

    def __init__(self, frame: pl.DataFrame, name: str = "the frame") -> None:
        self.frame = frame
        self.name = name

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return self.frame.columns

    def expect(self, roles: Sequence[str]) -> None:
        """Refuse what is no table with such columns; a frame always is one."""

    def fetch(self, names: Sequence[str], lists: Sequence[str] = ()) -> tuple[pl.DataFrame, Where]:
        """Return these columns and where their rows are; cells of columns in `lists` may be lists."""
        return self.frame.select(names), Where(self.name)


def column_source(frame: Any, name: str = "the frame") -> ColumnSource:
    """Accept a frame of any library, a dict of columns, or a source already."""
    return frame if isinstance(frame, ColumnSource) else ColumnSource(to_polars(frame), name)


def columns_by_role(
    frame: Any,
    roles: Mapping[str, str | None],
    named: Mapping[str, str | None] | None = None,
    *,
    lists: Sequence[str] = (),
    fixed: bool = False,
) -> tuple[pl.DataFrame, Where]:
    """Return the columns that play these roles, renamed to their roles, and where their rows are.

    Parameters
    ----------
    frame : frame, dict of columns or ColumnSource
    roles : mapping
        Role -> the user's name of its column, or None to find it among `crowdwise.data.encode.ALIASES`.
    named : mapping, optional
        The same, of columns that are fetched only where the user names them.
    lists : sequence of str
        Roles whose cells may be lists.
    fixed : bool
        No option names columns of this table, so they can only be renamed: for tables beside the votes.

    Examples
    --------
    >>> table, where = columns_by_role({"task": [7], "worker": ["ann"]}, {"item": None, "annotator": None})
    >>> table.columns
    ['item', 'annotator']
    """
    source = column_source(frame)
    source.expect(list(roles))
    # `find_column` looks at names alone.
    known = pl.DataFrame(schema=dict.fromkeys(source.names, pl.String))
    asked = {**roles, **{role: name for role, name in (named or {}).items() if name is not None}}
    lost = [role for role, given in asked.items() if given is None and not plays_role(source.names, role)]
    fix = f"Rename the columns: {', '.join(roles)}" if fixed else None
    problem = lost_columns(source.names, asked, lost, source.name, fix)
    if problem:
        raise InputError(problem)
    found = {role: find_column(known, role, given, Where(source.name), fix) for role, given in asked.items()}
    for role, name in found.items():
        other = next(other for other, taken in found.items() if taken == name)
        if other != role:
            raise InputError(f"{source.name}: the column {name!r} cannot be both {other} and {role}; name one with --{role}")
    table, where = source.fetch(list(found.values()), [found[role] for role in lists if role in found])
    return table.rename({name: role for role, name in found.items()}), where


def lost_columns(
    names: Sequence[str], roles: Mapping[str, str | None], lost: Sequence[str], source: str, fix: str | None = None
) -> str:
    """What to say of all columns that are not there, where several are: named ones that do not occur, and `lost` roles.

    `fix` is what to do, where no option names columns. One alone is refused by `find_column`, which knows more about it.
    """
    absent = [name for name in roles.values() if name is not None and name not in names]
    if len(absent) + len(lost) < 2:
        return ""
    hints = [did_you_mean(name, list(names)).removeprefix("; ") for name in absent]
    said = [f"no column {name!r}{f' ({hint})' if hint else ''}" for name, hint in zip(absent, hints, strict=True)]
    remedy = ""
    if lost:
        said.append(f"{_and([f'no {role}' for role in lost])} column")
        what, options = "it" if len(lost) == 1 else "them", _and([f"--{role}" for role in lost])
        named = f"Name {what}: {options} ({', '.join(f'{role}=...' for role in lost)} in Python)"
        remedy = f". {fix or named}"
    return f"{source}: {', '.join(said)}; found {listed(map(repr, names)) or 'no columns'}{remedy}"


def _and(words: Sequence[str]) -> str:
    return " and ".join(", ".join(words).rsplit(", ", 1))


def plural_label(names: Sequence[str]) -> str | None:
    """The column of several labels, where none has a usual name of a label: the one that is called labels or tags."""
    found = [name for name in names if plain_name(name) in ("labels", "tags")]
    return found[0] if len(found) == 1 and not plays_role(names, "label") else None


def plays_role(names: Sequence[str], role: str) -> bool:
    """Say whether one of these columns has a usual name of the role."""
    return any(plain_name(name) in ALIASES[role] for name in names)
