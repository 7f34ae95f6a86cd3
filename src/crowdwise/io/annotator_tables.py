"""Read what is known of annotators beside their votes: who belongs together, and their earlier record."""

from __future__ import annotations

import polars as pl

from crowdwise.data.columns import columns_by_role, plays_role
from crowdwise.data.encode import missing_mask, tidy
from crowdwise.errors import InputError
from crowdwise.io.file_columns import FileColumns
from crowdwise.io.source import AnyPath, open_source

__all__ = ["read_families", "read_record"]

_NUMBERS = ("right", "wrong", "accuracy", "n_votes")


def read_families(path: AnyPath) -> dict[str, str]:
    """Read which annotators belong together: annotator -> group, from a table with these columns; or family for group."""
    file = FileColumns(path)
    family = next((name for name in file.names if name.lower() == "family"), None)
    roles = {"annotator": None, "group": None if plays_role(file.names, "group") else family}
    table, where = columns_by_role(file, roles, fixed=True)
    who, group = (tidy(table[name]).cast(pl.String) for name in table.columns)
    kept = ~(missing_mask(who, ()) | missing_mask(group, ()))
    families: dict[str, str] = {}
    for annotator, family in zip(who.filter(kept).to_list(), group.filter(kept).to_list(), strict=True):
        if families.setdefault(annotator, family) != family:
            known = families[annotator]
            raise InputError(f"{where.source}: annotator {annotator!r} is in {known!r} and in {family!r}; keep one row")
    return families


def read_record(path: AnyPath) -> pl.DataFrame:
    """Read annotators' earlier record, for ``history=``: annotator, and right and wrong or accuracy and n_votes."""
    source = open_source(path)
    frame = source.table(source.columns).frame
    # Delimited text is read as text: ids stay as they are written, these four are numbers.
    measured = [name for name in _NUMBERS if name in frame.columns]
    try:
        return frame.with_columns(pl.col(measured).cast(pl.Float64))
    except pl.exceptions.PolarsError:
        raise InputError(f"{source.name}: {', '.join(measured)} must be numbers; correct the cells that are not") from None
