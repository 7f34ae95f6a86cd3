"""Records of JSON and JSON lines; what is broken is named by its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from crowdwise.data.aliases import ALIASES
from crowdwise.errors import InputError

__all__ = ["Record", "as_records", "is_lines", "line_records", "list_records", "parse_json", "record_lists"]

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
