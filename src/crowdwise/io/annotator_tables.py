"""Read what is known of annotators beside their votes: who belongs together, and their earlier record."""

from __future__ import annotations

import polars as pl

from crowdwise.data.columns import columns_by_role, plays_role
from crowdwise.data.encode import missing_mask, tidy
from crowdwise.errors import InputError
from crowdwise.io.file_columns import FileColumns
from crowdwise.io.source import AnyPath, open_source

__all__ = ["read_families", "read_family_tree", "read_record"]

# Columns of groups within families, the larger first.
_WITHIN = ("model", "prompt")
_NUMBERS = ("right", "wrong", "accuracy", "n_votes")


def read_families(path: AnyPath) -> dict[str, str]:
    """Read which annotators belong together: annotator -> group, from a table with these columns; or family for group."""
    return {annotator: group for annotator, (group, *_) in read_family_tree(path).items() if group}


def read_family_tree(path: AnyPath) -> dict[str, tuple[str, ...]]:
    """The same with groups within families, from further columns model and prompt: annotator -> family, model, prompt."""
    file = FileColumns(path)
    family = next((name for name in file.names if name.lower() == "family"), None)
    inner = sorted((name for name in file.names if name.lower() in _WITHIN), key=lambda name: _WITHIN.index(name.lower()))
    # Where no other column names the judges, it is models that belong to families.
    who = next((name for name in file.names if name not in inner and plays_role([name], "annotator")), None)
    if who and inner and family is None and not plays_role(file.names, "group"):
        # Models without families are the families.
        family = inner.pop(0)
    roles = {"annotator": who, "group": None if plays_role(file.names, "group") else family}
    table, where = columns_by_role(file, roles, dict(zip(inner, inner, strict=True)) if who else {}, fixed=True)
    texts = [tidy(column).cast(pl.String) for column in table]
    names, *groups = (text.set(missing_mask(text, ()), "").fill_null("").to_list() for text in texts)
    families: dict[str, tuple[str, ...]] = {}
    for annotator, *path_of in zip(names, *groups, strict=True):
        given = tuple(path_of)
        if annotator and any(given) and families.setdefault(annotator, given) != given:
            known, other = (" > ".join(filter(None, path)) for path in (families[annotator], given))
            raise InputError(f"{where.source}: annotator {annotator!r} is in {known!r} and in {other!r}; keep one row")
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
