"""Tables with a row per item and lists of annotators and of labels in their cells, where no name is a usual one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import integers
from crowdwise.errors import InputError, did_you_mean, listed
from crowdwise.io.cells import as_list
from crowdwise.io.exports import Export, Request
from crowdwise.io.lists import exploded, joined_alike
from crowdwise.io.roles import by_words, find_item, naming_column
from crowdwise.io.source import Source

__all__ = ["list_columns", "list_keys", "read_lists"]

# Rows that are looked at to see how a table is laid out.
_SAMPLE = 50


def list_columns(frame: pl.DataFrame) -> tuple[str, str] | None:
    """The columns of annotators and of labels whose cells are lists, or text with as many parts in both; or None."""
    return _lists({name: frame[name].head(_SAMPLE).to_list() for name in frame.columns if _may_be(frame[name].dtype)})


def list_keys(records: Sequence[tuple[int, dict[str, Any]]]) -> tuple[str, str] | None:
    """The same for the fields of records."""
    few = [record for _, record in records[:_SAMPLE]]
    return _lists({key: [record.get(key) for record in few] for key in (few[0] if few else ())})


def _may_be(dtype: pl.DataType) -> bool:
    return dtype.is_nested() or dtype == pl.String


def _lists(cells: dict[str, list[Any]]) -> tuple[str, str] | None:
    lists = [name for name, column in cells.items() if _are_lists(column)]
    found = _roles(lists)
    if found is not None:
        return found
    texts = [name for name, column in cells.items() if all(cell is None or isinstance(cell, str) for cell in column)]
    found = _roles(texts)
    return found if found is not None and joined_alike(cells[found[0]], cells[found[1]]) is not None else None


def _roles(lists: list[str]) -> tuple[str, str] | None:
    people, labels = by_words(lists, "annotator"), by_words(lists, "label")
    labels = [name for name in labels if name not in people]
    return (people[0], labels[0]) if len(people) == 1 and len(labels) == 1 else None


def _are_lists(cells: list[Any]) -> bool:
    found = [as_list(cell) for cell in cells if cell is not None]
    return bool(found) and all(parts is not None and not any(isinstance(part, dict) for part in parts) for parts in found)


def read_lists(source: Source, request: Request) -> Export:
    """Read a table with a row per item, and lists of annotators and labels in its cells."""
    names = source.names
    found = list_keys(source.records) if source.kind in ("json", "jsonl") else list_columns(source.table(names).frame)
    people, label = request.annotator or (found and found[0]), request.label or request.question or (found and found[1])
    if people is None or label is None:
        raise InputError(
            f"{source.name}: no columns with lists of annotators and of labels among {listed(map(repr, names))}; name them "
            "with --annotator and --label"
        )
    for name in (people, label):
        if name not in names:
            raise InputError(f"{source.name}: no column {name!r}; found {listed(map(repr, names))}{did_you_mean(name, names)}")
    plain = [name for name in names if name not in (people, label)]
    if source.kind in ("json", "jsonl"):
        plain = [name for name in plain if not isinstance(source.first.get(name), list | dict)]
    table = source.table([*plain, people, label])
    item = find_item(table.frame.select(plain), request, source.name) or naming_column(table.frame, plain)
    ids = integers(table.frame[item]) if item is not None else pl.Series(np.arange(1, table.frame.height + 1))
    ids_are = "the number of the row" if item is None else repr(item)
    rest = [repr(name) for name in plain if name != item]
    others = f"; other columns: {listed(rest, 8)}" if rest else ""
    request.notes.append(
        f"{source.name}: item = {ids_are}, annotators = {people!r}, labels = {label!r}{others} "
        "(--item, --annotator, --label choose otherwise)"
    )
    columns = {"item": ids, "annotator": table.frame[people], "label": table.frame[label]}
    columns, places = exploded(columns, table, request)
    votes = {"item": columns["item"], "annotator": integers(columns["annotator"]), "label": integers(columns["label"])}
    return Export(pl.DataFrame(votes), places.where, items=ids.unique(maintain_order=True))
