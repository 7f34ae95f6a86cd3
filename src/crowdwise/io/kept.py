"""What a file of votes says of its items beside the votes, such as texts and links, to travel along with the labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import ALIASES, as_text, codes_of, find_column, series_of, tidy
from crowdwise.errors import InputError, did_you_mean, listed
from crowdwise.io.reader import recognised
from crowdwise.io.source import AnyPath, Places, Record, Source, open_source

__all__ = ["read_kept", "read_shown"]

# Where the exports of platforms name the item; elsewhere the usual names of its column are looked for.
_ITEM = {
    "mturk": ("HITId",), "toloka": ("ASSIGNMENT:task_id",), "zooniverse": ("subject_ids",), "appen": ("_unit_id",),
    "label-studio": ("id",), "label-studio-min": ("id",), "argilla": ("id",), "prodigy": ("_input_hash", "_task_hash"),
    "doccano": ("id",), "potato": ("id", "instance_id"), "sagemaker": ("source-ref", "source"),
}  # fmt: skip
# Objects of a record that hold what annotators were shown.
_INSIDE = ("data", "fields", "meta", "data_row", "input")


def read_kept(path: AnyPath, names: str | Sequence[str], votes: Annotations, *, item: str | None = None) -> pl.DataFrame:
    """Read columns, or fields, that say something of the items: a row per item of the votes, null where nothing is said.

    Parameters
    ----------
    names : str or sequence of str
        Columns of the file of votes, comma-separated where they are one text; ``*`` stands for any text. Of JSON also fields of
        what was shown (``data`` of Label Studio, ``fields`` of Argilla). Of an item with several values, the first counts.
    item : str, optional
        Name of the item column, as for `read`.
    """
    source = open_source(path)
    wanted = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    rows = _records(source, item) if _is_json(source) else _table(source, item, wanted)
    known = as_text(tidy(series_of(votes.items)))
    found: dict[str, list[str | None]] = {}
    place = {name: n for n, name in enumerate(known.to_list())}
    seen: set[str] = set()
    for identity, fields in rows:
        seen.update(fields)
        n = place.get(str(identity))
        for name, value in fields.items() if n is not None else ():
            if value not in (None, "") and any(name == part or fnmatchcase(name, part) for part in wanted):
                cells = found.setdefault(name, [None] * len(place))
                cells[n] = str(value) if cells[n] is None else cells[n]  # type: ignore[index]
    for part in wanted:
        if not any(name == part or fnmatchcase(name, part) for name in seen):
            hint = did_you_mean(part, list(seen))
            raise InputError(f"{source.name}: no column {part!r} to keep; found {listed(sorted(seen))}{hint}")
    order = [name for part in wanted for name in found if name == part or fnmatchcase(name, part)]
    return pl.DataFrame({name: pl.Series(found[name], dtype=pl.String) for name in dict.fromkeys(order)})


def read_shown(path: AnyPath, votes: Annotations) -> pl.DataFrame:
    """Read what another table says of the items: a row per item of the votes; the last row of an item counts."""
    source = open_source(path)
    frame = source.table(source.columns).frame
    own = find_column(frame, "item", None, Places(source.name))
    if frame.width == 1:
        raise InputError(f"{source.name}: nothing to show beside the column {own!r}; add columns of text, links or pictures")
    code = codes_of(as_text(tidy(frame[own])), as_text(tidy(series_of(votes.items))))
    if not (code >= 0).any():
        raise InputError(f"{source.name}: none of its items is among the votes; give the ids that the votes have")
    rows = np.full(votes.n_items, frame.height)
    rows[code[code >= 0]] = np.flatnonzero(code >= 0)
    empty = pl.DataFrame([pl.Series(name, [None], dtype) for name, dtype in frame.schema.items()])
    return frame.vstack(empty)[rows].drop(own)


def _is_json(source: Source) -> bool:
    return (source.parts[0] if source.parts else source).kind in ("json", "jsonl")


def _records(source: Source, item: str | None) -> Iterator[tuple[Any, Record]]:
    platform = recognised(source)
    keys = (item,) if item else _ITEM.get(platform.name if platform else "", ())
    for part in source.parts if source.parts is not None else (source,):
        for _, record in part.walk():
            inner = {name: value for key in _INSIDE if isinstance(record.get(key), dict) for name, value in record[key].items()}
            fields = {name: value for name, value in (inner | record).items() if not isinstance(value, list | dict)}
            usual = (name for name in record if "".join(c for c in name.lower() if c.isalnum()) in (*ALIASES["item"], "id"))
            key = next((name for name in keys if name in record), None) or next(usual, None)
            yield fields.get(key or ""), fields


def _table(source: Source, item: str | None, wanted: list[str]) -> Iterator[tuple[Any, Record]]:
    if source.kind in ("folder", "matrix"):
        raise InputError(f"{source.name}: nothing to keep beside the votes; give a table")
    names = source.names
    platform = recognised(source)
    own = item or next((name for name in _ITEM.get(platform.name if platform else "", ()) if name in names), None)
    known = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    own = find_column(known, "item", own, Places(source.name))
    kept = [name for name in names if any(name == part or fnmatchcase(name, part) for part in wanted)]
    if not kept:
        # For the error that lists what there is.
        yield None, dict.fromkeys(names)
        return
    frame = source.table(list(dict.fromkeys([own, *kept]))).frame
    frame = frame.with_columns(as_text(tidy(frame[own])).alias(own)).unique(maintain_order=True)
    for row in frame.iter_rows(named=True):
        yield row[own], row
