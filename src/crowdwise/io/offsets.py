"""Spans between characters of a text, as tags of its tokens: what tools that mark text export.

Tokens are words and single signs, cut wherever anybody's span begins or ends, so that every span is held exactly; where an
export has tokens of its own, those are cut. Spaces at the ends of a span do not count.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.errors import DataWarning, InputError
from crowdwise.io.source import Places, Source, Table
from crowdwise.io.votes import column

__all__ = ["Document", "spans_of", "tag_table"]

Span = tuple[int, int, str]
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Document:
    """What one annotator marked in one text: spans (start, end, label), the end behind the last character.

    `row` is the record that says so, `tokens` the starts and ends of its own tokens, if it has any.
    """

    row: int
    item: Any
    annotator: Any
    text: str
    spans: list[Span]
    tokens: list[tuple[int, int]] | None = None


def spans_of(found: list[Any], place: str) -> list[Span]:
    """Spans of a record: lists [start, end, label] or objects with these fields."""
    return [_span(span, place) for span in found]


def tag_table(documents: list[Document], source: Source) -> Table:
    """A row per token and annotator: sequence, position, token, annotator and label (BIO)."""
    texts: dict[str, list[Document]] = {}
    for document in documents:
        texts.setdefault(str(document.item), []).append(document)
    rows: list[tuple[int, Any, int, str, Any, str]] = []
    overlapping = 0
    for versions in texts.values():
        _check(versions, source)
        bounds = _bounds(versions)
        for document in versions:
            tags, lost = _tags(document, bounds)
            overlapping += lost
            for place, ((start, end), tag) in enumerate(zip(bounds, tags, strict=True), start=1):
                rows.append((document.row, document.item, place, document.text[start:end], document.annotator, tag))
    if not rows:
        raise InputError(f"{source.name}: no text with annotations; expected texts with spans (start, end, label)")
    if overlapping:
        words = f"{overlapping} spans overlap another of the same annotator; the longer of the two counts"
        warnings.warn(f"{source.name}: {words}", DataWarning, stacklevel=2)
    number, item, position, token, annotator, label = zip(*rows, strict=True)
    where = Places(source.name, rows=np.array(number, np.int64), unit=source.unit)
    columns = {"sequence": column(item, where), "position": pl.Series(position), "token": pl.Series(token)}
    return Table(pl.DataFrame(columns | {"annotator": column(annotator, where), "label": pl.Series(label)}), where)


def _check(versions: list[Document], source: Source) -> None:
    """Refuse texts of one document that differ, spans outside of them, and nobody's spans."""
    text, seen = versions[0].text, set()
    for document in versions:
        place = f"{source.name} {source.unit} {document.row}"
        if document.text != text:
            raise InputError(f"{place}: the text of {document.item!r} differs from an earlier one; give each an id of its own")
        if document.annotator is None:
            raise InputError(f"{place}: nobody is named as the annotator; name the field with annotator=... or --annotator")
        if str(document.annotator) in seen:
            raise InputError(f"{place}: annotator {document.annotator!r} marked {document.item!r} before; keep one record")
        seen.add(str(document.annotator))
        wrong = next((span for span in document.spans if not 0 <= span[0] < span[1] <= len(text)), None)
        if wrong is not None:
            raise InputError(f"{place}: the span {wrong[0]} to {wrong[1]} is not inside the text of {len(text)} characters")


def _bounds(versions: list[Document]) -> list[tuple[int, int]]:
    """Starts and ends of the tokens of a text."""
    text = versions[0].text
    own = next((document.tokens for document in versions if document.tokens), None)
    words = own if own is not None else [match.span() for match in _TOKEN.finditer(text)]
    cuts = sorted({place for document in versions for start, end, _ in document.spans for place in (start, end)})
    bounds = []
    for start, end in words:
        inner = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
        bounds += list(zip([start, *inner], [*inner, end], strict=True))
    return [(start, end) for start, end in bounds if text[start:end].strip()]


def _tags(document: Document, bounds: list[tuple[int, int]]) -> tuple[list[str], int]:
    """The tag of every token, and how many spans had to be left out because a longer one is there."""
    starts, ends = [start for start, _ in bounds], [end for _, end in bounds]
    tags, lost = ["O"] * len(bounds), 0
    for start, end, label in sorted(document.spans, key=lambda span: (span[0] - span[1], span[0], span[2])):
        inside = range(bisect_left(starts, start), bisect_right(ends, end))
        if any(tags[k] != "O" for k in inside):
            lost += 1
            continue
        for k in inside:
            tags[k] = f"{'B' if k == inside[0] else 'I'}-{label}"
    return tags, lost


def _span(span: Any, place: str) -> Span:
    """Start, end and label of [start, end, label] or of {start, end, label}, as spelt by several tools."""
    try:
        if isinstance(span, list):
            return int(span[0]), int(span[1]), str(span[2])
        start = next(span[key] for key in ("start", "start_offset", "begin", "startOffset") if key in span)
        end = next(span[key] for key in ("end", "end_offset", "endOffset") if key in span)
        label = next(span[key] for key in ("label", "type", "tag", "entity", "annotation") if key in span)
        return int(start), int(end), str(label)
    except (IndexError, StopIteration, TypeError, ValueError):
        raise InputError(f"{place}: {span!r:.60} is no span; expected [start, end, label]") from None
