"""Cells that hold an object, as language models answer: one field is the label, the others say why or how sure.

``{"label": "A", "confidence": 0.8}`` in JSON or as Python prints it, alone, in a fenced block or after a sentence. The field is
the one that is asked for; or the only one with a usual name of labels; or the only short one that recurs.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from crowdwise.errors import DataWarning, InputError, listed
from crowdwise.io.exports import Request
from crowdwise.io.roles import by_alias, by_words, never_votes
from crowdwise.io.source import Places

__all__ = ["holds_field", "object_of", "read_field", "refuse_objects"]

_FENCED = re.compile(r"```[\w-]*\s*(\{.*?\})\s*```", re.DOTALL)
# A longer cell is no vote, and a longer value no class.
_LONGEST, _LONGEST_LABEL = 100_000, 80
# A field is one of all cells if hardly any lacks it; fewer cells than these may all differ.
_COMMON, _FEW = 0.8, 6


def object_of(cell: Any) -> dict[str, Any] | None:
    """The object in a cell; None where there is none."""
    if isinstance(cell, dict):
        return cell
    if not isinstance(cell, str) or "{" not in cell or len(cell) > _LONGEST:
        return None
    fenced = _FENCED.search(cell)
    text = fenced[1] if fenced else cell[cell.index("{") : cell.rfind("}") + 1]
    for parse in (json.loads, ast.literal_eval):
        try:
            with warnings.catch_warnings():
                # Python warns of escapes that are none.
                warnings.simplefilter("ignore")
                found = parse(text)
                json.dumps(found, ensure_ascii=False, default=str).encode()
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, SystemError):
            continue
        return found if isinstance(found, dict) and found and all(isinstance(key, str) for key in found) else None
    return None


def holds_field(column: pl.Series, field: str) -> bool:
    """Whether cells are objects with this field."""
    return any(field in (object_of(cell) or ()) for cell in column.head(1000).to_list())


def read_field(label: pl.Series, where: Places, request: Request) -> pl.Series:
    """Labels of which one field is the label, as text; as they are where no cell is an object."""
    cells = label.to_list()
    objects = [object_of(cell) for cell in cells]
    found = [each for each in objects if each is not None]
    if not found:
        return label
    first = next(k for k, each in enumerate(objects) if each is not None)
    field = _chosen(found, where, first, request)
    said = [cell if each is None else _text(each.get(field)) for cell, each in zip(cells, objects, strict=True)]
    known = {text for text, each in zip(said, objects, strict=True) if each is not None}
    lost = [k for k, (text, each) in enumerate(zip(said, objects, strict=True)) if each is None and _is_other(text, known)]
    if lost:
        shown = f"{where.row(lost[0])}, {cells[lost[0]]!r:.60}"
        warnings.warn(
            f"{where.source}: {len(lost):,} of {len(cells):,} answers have no field {field!r} and count as missing: {shown}",
            DataWarning,
            stacklevel=4,
        )
    others = [key for key in dict.fromkeys(key for each in found for key in each) if key != field]
    rest = f", and {listed(map(repr, others), 5)} not (--question chooses otherwise)" if others else ""
    request.notes.append(f"{where.source}: answers are objects, of which {field!r} is read as the label{rest}")
    gone = set(lost)
    return pl.Series(label.name, [None if k in gone else text for k, text in enumerate(said)], dtype=pl.String)


def refuse_objects(distinct: Sequence[str], where: str) -> None:
    """Refuse labels that are objects, where no field of them is read."""
    found = next((text for text in distinct if "{" in text and object_of(text)), None)
    if found is not None:
        raise InputError(
            f"{where}: labels such as {found!r:.80} are objects, and each would be a class of its own; write the field that is "
            "the label into a column of its own, or read a table of votes in memory, which takes one field (--question)"
        )


def _is_other(text: Any, known: set[str | None]) -> bool:
    """Whether an answer without an object is none of the labels either; a plain label among objects stays one."""
    return text is not None and bool(str(text).strip()) and str(text).strip() not in known


def _text(value: Any) -> str | None:
    """A value as a label; a list as JSON text, which is several labels."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _chosen(found: Sequence[Mapping[str, Any]], where: Places, first: int, request: Request) -> str:
    """The field that is the label; several that may be it are an error that lists them."""
    fields = list(dict.fromkeys(key for each in found for key in each))
    if request.question in fields:
        return str(request.question)
    likely = [key for key in fields if _may_be_label([each.get(key) for each in found], usual=_is_usual(key))]
    usual = [key for key in likely if _is_usual(key)]
    for group in (usual, [key for key in likely if not never_votes(key)], likely):
        if len(group) == 1:
            return group[0]
        if group:
            break
    way = replace(request, question=(likely or fields)[0]).command(where.source)
    raise InputError(
        f"{where.row(first)}: the answer is an object with {listed(map(repr, fields), 8)}; say which field is the label, for "
        f"example: {way} (question=... in Python)"
    )


def _is_usual(key: str) -> bool:
    return bool(by_alias([key], "label") or by_words([key], "label"))


def _may_be_label(values: Sequence[Any], usual: bool) -> bool:
    """Whether a field is short, there nearly always, and, unless its name is usual, recurs."""
    given = [value for value in values if value is not None]
    if len(given) < _COMMON * len(values) or any(isinstance(value, dict) for value in given):
        return False
    texts = [str(value) for value in given]
    if not texts or any(isinstance(value, float) and not value.is_integer() for value in given):
        return False
    if max(map(len, texts)) > _LONGEST_LABEL or any("\n" in text for text in texts):
        return False
    return usual or len(texts) < _FEW or len(set(texts)) <= len(texts) / 2
