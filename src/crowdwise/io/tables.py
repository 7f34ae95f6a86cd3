"""Tidy tables: one row per vote, in delimited text, JSON, Parquet or Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import find_column, integers, missing_mask
from crowdwise.errors import InputError
from crowdwise.io.export import Export, Request, column, single
from crowdwise.io.source import Places, Source, Table

__all__ = ["column_names", "read_columns", "read_tidy"]


def read_tidy(source: Source, request: Request) -> Export:
    """Read item, annotator, label and, where named, weight; a column called `gold` becomes gold.

    Columns that were not named are found by the usual aliases. Only the needed ones are read from
    Parquet and Arrow.
    """
    if source.kind == "folder":
        raise InputError(f"{source.name}: a folder without a platform's export in it; name a file")
    if source.kind == "matrix":
        raise InputError(
            f"{source.name}: a matrix of numbers without a header; if it is items x annotators, use format='answers'"
        )
    known = pl.DataFrame(schema=dict.fromkeys(column_names(source), pl.String))
    where = Places(source.name)
    wanted = {
        "item": find_column(known, "item", request.item, where),
        "annotator": find_column(known, "annotator", request.annotator, where),
        "label": find_column(known, "label", request.label or request.question, where),
    }
    if len(set(wanted.values())) < 3:
        raise InputError(
            f"{source.name}: item, annotator and label must be three different columns, got {list(wanted.values())}"
        )
    if request.weight is not None:
        wanted["weight"] = find_column(known, "weight", request.weight, where)
    if "gold" in known.columns and "gold" not in wanted.values():
        wanted["gold"] = "gold"
    table = read_columns(source, list(dict.fromkeys(wanted.values())))
    columns = {role: table.frame[name] for role, name in wanted.items()}
    gold = columns.pop("gold", None)
    if source.kind == "delimited":
        label = columns["label"] if gold is None else pl.concat([columns["label"], gold])
        label = integers(label)
        columns |= {
            "item": integers(columns["item"]),
            "annotator": integers(columns["annotator"]),
            "label": label[: len(table.frame)],
        }
        gold = None if gold is None else label[len(table.frame) :]
    known_true = None
    if gold is not None:
        pairs = pl.DataFrame({"item": columns["item"], "label": gold})
        known_true = pairs.filter(~missing_mask(gold, ())).unique(maintain_order=True)
    return Export(pl.DataFrame(columns), table.where, known_true)


def read_columns(source: Source, names: list[str]) -> Table:
    """Return these columns of a table of any kind; text from delimited files, values from the others."""
    if source.kind not in ("json", "jsonl"):
        return source.table(names)
    rows = np.array([row for row, _ in source.records], np.int64)
    where = Places(source.name, rows=rows, unit=source.unit)

    def values(name: str) -> list[Any]:
        cells = [record.get(name) for _, record in source.records]
        return [single(cell, where.row(i)) if isinstance(cell, list | dict) else cell for i, cell in enumerate(cells)]

    return Table(pl.DataFrame({name: column(values(name), where) for name in names}), where)


def column_names(source: Source) -> list[str]:
    """Return the columns of a table, or the keys of its records."""
    if source.kind not in ("json", "jsonl"):
        return source.columns
    if not source.records:
        raise InputError(f"{source.name}: no records; expected one object per vote")
    return list(dict.fromkeys(name for _, record in source.records for name in record))
