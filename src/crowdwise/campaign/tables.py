"""Tables that say who may be asked about what: items, annotators with their capacities, earlier assignments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.campaign.pool import Limits, Pool
    from crowdwise.data.annotations import Annotations

__all__ = ["beside_asked", "read_capacity", "read_ids", "read_pool"]


def read_ids(path: Path, role: str, given: str | None, known: Any) -> pl.Series:
    """Ids of one column: that of this name, or the one that an alias matches."""
    columns, where = _table(path, {role: given})
    return _id_column(columns[role], known, role, where)


def read_capacity(path: Path | None, votes: Annotations) -> tuple[list[Any], Any, Any]:
    """Annotators of the file, what they can still answer, and their prices."""
    import polars as pl

    if path is None:
        return [], None, 1.0
    columns, where = _table(path, {"annotator": None}, ("capacity", "cost"))
    if "capacity" not in columns:
        raise InputError(f"{path}: no column 'capacity'; expected annotator, capacity and, where answers have prices, cost")
    people = _id_column(columns["annotator"], votes.annotators, "annotator", where).to_list()
    if len(set(people)) < len(people):
        place = next(k for k, name in enumerate(people) if name in people[:k])
        raise InputError(f"{where.row(place)}: annotator {people[place]!r} is there twice; keep one row each")
    numbers: dict[str, list[float]] = {}
    for name, fix in (("capacity", "a whole number of answers, 0 or more"), ("cost", "a number above 0")):
        if name not in columns:
            continue
        values = columns[name].cast(pl.Float64, strict=False).fill_null(float("nan")).to_list()
        fine = [v >= 0 and v == v // 1 if name == "capacity" else 0 < v < float("inf") for v in values]
        if not all(fine):
            place = fine.index(False)
            raise InputError(f"{where.row(place)}: {name} {columns[name][place]!r} is not {fix}")
        numbers[name] = values
    cost = dict(zip(people, numbers["cost"], strict=True)) if "cost" in numbers else 1.0
    return people, dict(zip(people, numbers["capacity"], strict=True)), cost


def read_pool(
    votes: Annotations, items: Path | None, capacity: Path | None, item_column: str | None
) -> tuple[Annotations, Limits]:
    """The votes beside all items and annotators that the tables name, and what these set, for `Pool.of`."""
    from crowdwise.campaign.pool import extended

    named = None if items is None else read_ids(items, "item", item_column, votes.items)
    people, room, cost = read_capacity(capacity, votes)
    return extended(votes, () if named is None else named, people), {"items": named, "capacity": room, "cost": cost}


def beside_asked(pool: Pool, votes: Annotations, path: Path | None) -> Pool:
    """The pool beside questions of before that have no answer yet, if there is a table of them."""
    if path is None:
        return pool
    import numpy as np

    from crowdwise.data.encode import codes_of, series_of, tidy

    columns, where = _table(path, {"item": None, "annotator": None})
    item, annotator = (
        codes_of(_id_column(columns[role], known, role, where), tidy(series_of(known))).astype(np.int64)
        for role, known in (("item", votes.items), ("annotator", votes.annotators))
    )
    there = (item >= 0) & (annotator >= 0)
    keys = np.unique(item[there] * votes.n_annotators + annotator[there])
    keys = np.setdiff1d(keys, votes.pair)
    return pool.waiting(keys // max(votes.n_annotators, 1), keys % max(votes.n_annotators, 1))


def _table(path: Path, roles: dict[str, str | None], more: tuple[str, ...] = ()) -> tuple[dict[str, pl.Series], Any]:
    """Columns of a table by role (alias or given name), and others by their own name where they exist; and its rows' places."""
    import polars as pl

    from crowdwise.data.encode import Where, find_column
    from crowdwise.io.source import open_source

    source = open_source(path)
    if source.kind in ("folder", "matrix"):
        raise InputError(f"{path}: expected a table with a column {', '.join(roles)}")
    names = source.columns if source.kind not in ("json", "jsonl") else list(source.records[0][1]) if source.records else []
    known, where = pl.DataFrame(schema=dict.fromkeys(names, pl.String)), Where(source.name)
    wanted = {role: find_column(known, role, given if given in names else None, where) for role, given in roles.items()}
    wanted |= {name: name for name in more if name in names}
    table = source.table(list(dict.fromkeys(wanted.values())))
    return {role: table.frame[name] for role, name in wanted.items()}, table.where


def _id_column(column: pl.Series, known: Any, what: str, where: Any) -> pl.Series:
    """Ids as the votes have them: whole numbers only where theirs are."""
    from crowdwise.data.encode import integers, missing_mask, tidy

    column = tidy(column if len(known) and known.dtype == object else integers(column))
    absent = missing_mask(column, ()).arg_true().to_list()
    if absent:
        raise InputError(f"{where.row(absent[0])}: the {what} id is missing; remove the row or fill it in")
    return column
