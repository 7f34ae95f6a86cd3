"""Tables with a row per item whose cells are lists: of annotators, and of their labels in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdwise.errors import InputError
from crowdwise.io.cells import as_list
from crowdwise.io.exports import Request, column, single
from crowdwise.io.source import Places, Table

__all__ = ["exploded", "joined_alike", "paired"]


def exploded(columns: dict[str, pl.Series], table: Table, request: Request) -> tuple[dict[str, pl.Series], Table]:
    """One row per element of the lists of annotators; where annotators are no lists, labels are several answers and stay."""
    cells = {role: series.to_list() for role, series in columns.items()}
    if all(as_list(cell) is None for cell in cells["annotator"] if cell is not None):
        mark = joined_alike(cells["annotator"], cells["label"])
        if mark is None:
            return columns, table
        for role in ("annotator", "label"):
            cells[role] = [None if cell is None else [part.strip() for part in cell.split(mark)] for cell in cells[role]]
    rows: list[int] = []
    found: dict[str, list[Any]] = {"annotator": [], "label": []}
    for index, (people, labels) in enumerate(zip(cells["annotator"], cells["label"], strict=True)):
        pairs = paired(people, labels, table.where.row(index))
        if (items := as_list(cells["item"][index])) is not None and len(items) > 1:
            raise InputError(
                f"{table.where.row(index)}: {len(items)} items beside {len(pairs)} votes in the lists of one row; give every "
                "item a row of its own, or all three lists one length"
            )
        rows += [index] * len(pairs)
        found["annotator"] += [who for who, _ in pairs]
        found["label"] += [single(_nested(label), table.where.row(index)) for _, label in pairs]
    where = Places(table.where.source, rows=_numbers(table.where, len(cells["label"]))[rows], unit=table.where.unit)
    made = {role: column(values, where) for role, values in found.items()}
    kept = {role: series.gather(rows) for role, series in columns.items() if role not in made}
    request.notes.append(
        f"{where.source}: lists of annotators and labels in {len(cells['label']):,} rows, a vote each: {len(rows):,} votes"
    )
    return {role: (kept | made)[role] for role in columns}, Table(pl.DataFrame(kept | made), where)


def joined_alike(people: list[Any], labels: list[Any]) -> str | None:
    """The separator that cuts annotators and labels of every row into equally many parts, and some into several; or None."""
    pairs = [(who, said) for who, said in zip(people, labels, strict=True) if isinstance(who, str) and isinstance(said, str)]
    for mark in ("|", ";", ","):
        counts = [(who.count(mark), said.count(mark)) for who, said in pairs]
        if any(n for n, _ in counts) and all(one == other for one, other in counts):
            return mark
    return None


def paired(people: Any, labels: Any, place: str) -> list[tuple[Any, Any]]:
    """Annotators with their labels; lists of different lengths are refused."""
    who, said = as_list(people), as_list(labels)
    who = [] if people is None else [people] if who is None else who
    said = [] if labels is None else [labels] if said is None else said
    if len(who) != len(said):
        raise InputError(
            f"{place}: {len(who)} annotators and {len(said)} labels in the lists of one row; give every annotator one label, "
            "null or [] for none"
        )
    return list(zip(who, said, strict=True))


def _nested(label: Any) -> Any:
    inner = as_list(label)
    return label if inner is None else inner


def _numbers(where: Places, n: int) -> Any:
    return np.arange(n) + where.first_row if where.rows is None else where.rows
