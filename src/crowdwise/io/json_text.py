"""Records of JSON and JSON lines; what is broken is named by its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from crowdwise.data.aliases import ALIASES
from crowdwise.errors import InputError
from crowdwise.io.places import Places

__all__ = ["Record", "as_records", "column", "is_lines", "line_records", "list_records", "parse_json", "record_frame"]
__all__ += ["record_lists", "single"]

Record = dict[str, Any]
# Lists below these keys belong to platforms, whose readers expect them there.
_OWN = ("Assignments", "answers")
_SURROGATE, _SURROGATE_BYTES = re.compile(r"\\u[dD][89a-fA-F]"), re.compile(rb"\\u[dD][89a-fA-F]")


def is_lines(data: bytes) -> bool:
    """True unless the first line opens an object that later lines continue."""
    first, _, rest = data.strip().partition(b"\n")
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        # A broken first line of many is still a line: the second decides.
        return rest.lstrip(b"\r\n").startswith(b"{")
    return bool(rest.strip())


def as_records(document: Any) -> Any:
    """A document whose rows are written by column, as pandas does, or below one key, as a list of records; others as they are.

    ``{"item": {"0": "a"}, ...}``, ``{"item": ["a"], ...}``, ``{"columns": ["item", ...], "data": [["a", ...]]}``, each only
    where the names of columns are those of an item, an annotator and a label; and ``{"votes": [{...}], "meta": ...}``, where
    one list of records is there.
    """
    if not isinstance(document, dict) or not document:
        return document
    columns, data = document.get("columns"), document.get("data")
    if isinstance(columns, list) and isinstance(data, list) and _name_votes(columns) and _are_rows(data, len(columns)):
        return [dict(zip(columns, row, strict=True)) for row in data]
    if _name_votes(document):
        cells = [value if isinstance(value, list | dict) else None for value in document.values()]
        first = cells[0]
        if isinstance(first, list) and all(isinstance(part, list) and len(part) == len(first) for part in cells):
            return [dict(zip(document, row, strict=True)) for row in zip(*document.values(), strict=True)]
        if isinstance(first, dict) and all(isinstance(part, dict) and part.keys() == first.keys() for part in cells):
            return [{name: part[key] for name, part in document.items()} for key in first]
    lists = record_lists(document)
    # An entry per item is no wrapper: its key says something of what is in it.
    return document[lists[0]] if len(lists) == 1 and lists[0] not in _OWN else document


def record_lists(document: dict[str, Any]) -> list[str]:
    """The keys of lists of records."""
    return [
        key
        for key, value in document.items()
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    ]


def _name_votes(names: Iterable[Any]) -> bool:
    """Whether the usual names of an item, an annotator and a label are among these."""
    plain = {"".join(c for c in str(name).lower() if c.isalnum()) for name in names}
    return all(not plain.isdisjoint(ALIASES[role]) for role in ("item", "annotator", "label"))


def _are_rows(data: list[Any], width: int) -> bool:
    return bool(data) and all(isinstance(row, list) and len(row) == width for row in data)


def line_records(data: bytes, name: str, limit: int | None = None) -> list[tuple[int, Record]]:
    """Every object of JSON lines, or the first `limit`, with its line."""
    records: list[tuple[int, Record]] = []
    for row, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        record = parse_json(line, f"{name} row {row}")
        if not isinstance(record, dict):
            raise InputError(f"{name} row {row}: expected an object {{...}} per line, got {type(record).__name__}")
        records.append((row, record))
        if limit is not None and len(records) >= limit:
            break
    return records


def list_records(document: Any, name: str) -> list[tuple[int, Record]]:
    """Every object of a JSON list, or the one object, with its position from 1."""
    entries = document if isinstance(document, list) else [document]
    for row, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict):
            raise InputError(f"{name} record {row}: expected an object {{...}}, got {type(entry).__name__}")
    return list(enumerate(entries, start=1))


def parse_json(text: bytes | str, place: str) -> Any:
    """Parse JSON; the error names the place, the line inside it and what is wrong there."""
    try:
        value = json.loads(text)
        if (_SURROGATE if isinstance(text, str) else _SURROGATE_BYTES).search(text):  # type: ignore[arg-type]
            # Half of a pair is refused here, wherever it stands: no file and no table can hold it.
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError:
        raise InputError(f"{place}: nested too deeply to be an export of votes") from None
    except json.JSONDecodeError as error:
        line = f" line {error.lineno}" if error.lineno > 1 else ""
        raise InputError(f"{place}{line}: broken JSON at column {error.colno} ({error.msg}); correct or remove it") from None
    except UnicodeEncodeError:
        raise InputError(f"{place}: half of a surrogate pair (\\ud800 to \\udfff); correct that character") from None
    except ValueError as error:
        raise InputError(f"{place}: broken JSON ({error!s:.200}); correct or remove it") from None


def record_frame(
    records: list[tuple[int, Record]], names: Sequence[str], where: Places, objects: str | None = None
) -> pl.DataFrame:
    """Columns of records, by their keys; objects below the key `objects` become JSON text."""

    def values(name: str) -> list[Any]:
        cells = [record.get(name) for _, record in records]
        if name == objects:
            cells = [json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict) else cell for cell in cells]
        return [_cell(cell, where.row(i)) if isinstance(cell, list | dict) else cell for i, cell in enumerate(cells)]

    return pl.DataFrame({name: column(values(name), where) for name in names})


def _cell(cell: Any, place: str) -> Any:
    """A list of one value as that value, other lists as JSON text, so that what belongs together stays aligned."""
    if isinstance(cell, list) and (len(cell) != 1 or isinstance(cell[0], list | dict)):
        return json.dumps(cell, ensure_ascii=False)
    return single(cell, place)


def single(value: Any, place: str) -> Any:
    """Return the one label of an answer, None if it is empty; several become JSON text, which no class is."""
    if isinstance(value, list):
        parts = [part for part in (single(part, place) for part in value) if part is not None]
        if len(parts) > 1:
            return json.dumps(parts, ensure_ascii=False)
        return parts[0] if parts else None
    if isinstance(value, dict):
        raise InputError(
            f"{place}: the answer {value!r:.80} is a region or a form, not one label; name a question with question=..."
        )
    return value


def column(values: Sequence[Any], where: Places) -> pl.Series:
    """Make a series of JSON values: integers or booleans if all are, else text.

    A float that is whole is an integer that pandas wrote; floats beside large integers never meet them halfway.
    """
    kinds = {type(value) for value in values} - {type(None)}
    if kinds and kinds <= {int, float}:
        values = [_whole(value) for value in values]
        kinds = {type(value) for value in values} - {type(None)}
    try:
        if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values if value is not None):
            return pl.Series(values, dtype=pl.Int64)
        if kinds == {bool}:
            return pl.Series(values, dtype=pl.Boolean)
        return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
    except UnicodeEncodeError:
        raise InputError(
            f"{where.source}: half of a surrogate pair (\\ud800 to \\udfff) in an id or a label; correct that character"
        ) from None


def _whole(value: Any) -> Any:
    """A whole float that holds every digit as an integer, NaN as None; anything else as it is."""
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value
