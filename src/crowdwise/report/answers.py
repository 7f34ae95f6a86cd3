"""One page about a fit to answers that are not one class per item: what was asked, what came out, whom to trust.

Comparisons, numbers, clusters, spans and sets of labels share it: tiles, a picture of estimates with their intervals where
there are any, and tables that can be searched and sorted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import polars as pl

from crowdwise.estimator.registry import METHODS
from crowdwise.kernels.types import Floats
from crowdwise.report.blocks import save
from crowdwise.report.full import in_sections
from crowdwise.report.markup import caption, clean, counted, fill, plain, short, stroke, svg, table, text, whole

__all__ = ["Intervals", "answers_page", "intervals_picture", "write_answers"]


# Rows of a table, and of a picture.
_MOST_ROWS, _MOST_DRAWN = 2000, 30


@dataclass(frozen=True, eq=False)
class Intervals:
    """Estimates with their intervals, in the order in which they are drawn; of more than 30 the first.

    Attributes
    ----------
    title, unit : str
        Above the picture, and below its axis.
    names : [n]
    low, middle, high : [n]
    """

    title: str
    unit: str
    names: Sequence[Any]
    low: Floats
    middle: Floats
    high: Floats


def write_answers(path: str | PathLike[str], **parts: Any) -> None:
    """Write the page as one HTML file, whole or not at all; see `answers_page` for the parts."""
    save(answers_page(**parts), path)


def answers_page(
    *,
    title: str,
    method: str,
    facts: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
    notes: Sequence[str] = (),
    intervals: Intervals | None = None,
    made: Mapping[str, str] | None = None,
) -> str:
    """Return the page as text.

    Parameters
    ----------
    title : str
    method : str
        Name in the registry, whose summary and reference are shown.
    facts : mapping
        Numbers that everybody asks for first, by name.
    tables : mapping
        Caption -> frame; of long ones the first 2,000 rows are embedded.
    notes : sequence of str
        What a reader must keep in mind.
    intervals : Intervals, optional
        Drawn above the tables.
    made : mapping, optional
        Lines for "How it was computed".
    """
    heading = plain(title, 200)
    sections = [("short", "In short", _lead(method) + _tiles(facts) + _notes(notes))]
    if intervals is not None and len(intervals.names):
        sections.append(("picture", plain(intervals.title), f'<figure class="card">{intervals_picture(intervals)}</figure>'))
    data = []
    for number, (words, frame) in enumerate(tables.items()):
        host = f"table-{number}"
        data.append(_table(host, words, frame))
        hint = "" if frame.height else "<p>Nothing to show.</p>"
        sections.append((f"part-{number}", plain(words), f'<div id="{host}"></div>{hint}'))
    rows = [(plain(name), f"<code>{plain(value, 400)}</code>") for name, value in (made or {}).items()]
    if rows:
        sections.append(("computed", "How it was computed", table("How it was computed", ("What", "Value"), rows)))
    return in_sections(heading, sections, {"tables": data})


def _lead(method: str) -> str:
    known = METHODS.get(method)
    about = f": {plain(known.summary, 200)}. Reference: {plain(known.reference, 200)}" if known else ""
    return f'<p class="lead">Method: <strong>{text(method)}</strong>{about}.</p>'


def _tiles(facts: Mapping[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return whole(int(value))
        return f"{value:.4g}" if isinstance(value, float) else plain(value)

    tiles = "".join(f"<div><dt>{plain(name)}</dt><dd>{shown(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="tiles">{tiles}</dl>'


def _notes(notes: Sequence[str]) -> str:
    return f'<ul class="look">{"".join(f"<li>{plain(note, 400)}</li>" for note in notes)}</ul>' if notes else ""


def _table(host: str, words: str, frame: pl.DataFrame) -> dict[str, Any]:
    """A table for the script: numbers as numbers, everything else as one clean line of text."""
    shown = frame.head(_MOST_ROWS)
    numeric = [dtype.is_numeric() for dtype in frame.dtypes]
    rows = [[_cell(value) for value in row] for row in shown.iter_rows()]
    more = f"{words}: the first {whole(_MOST_ROWS)} of {whole(frame.height)}" if frame.height > _MOST_ROWS else words
    columns = [{"name": name.replace("_", " "), "number": number} for name, number in zip(frame.columns, numeric, strict=True)]
    return {"id": host, "caption": clean(more, 200), "columns": columns, "rows": rows}


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value if isinstance(value, int) and not isinstance(value, bool) else clean(value)


def intervals_picture(found: Intervals) -> str:
    """Every estimate as a point on its interval."""
    n = min(len(found.names), _MOST_DRAWN)
    low, middle, high = (np.asarray(values, float)[:n] for values in (found.low, found.middle, found.high))
    finite = np.concatenate([values[np.isfinite(values)] for values in (low, middle, high)])
    least, most = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if most <= least:
        least, most = least - 0.5, most + 0.5
    left, right, top, step = 250.0, 860.0, 52.0, 24.0
    scale, bottom = (right - left) / (most - least), top + step * n
    parts = [caption(plain(found.title), 16, 26, extra=' font-size="16" font-weight="600"')]
    for value in _ticks(least, most):
        x = left + (value - least) * scale
        parts.append(f'<path d="M{x:.1f} {top - 6}V{bottom:.1f}" {stroke("rule")}/>')
        parts.append(caption(f"{value:.4g}", x, bottom + 18, paint="muted", anchor="middle"))
    for row in range(n):
        y = top + step * (row + 0.5)
        parts.append(short(found.names[row], left - 14, y + 4, 32))
        if np.isfinite(low[row]) and np.isfinite(high[row]):
            start, stop = (left + (value - least) * scale for value in (low[row], high[row]))
            line = f"M{start:.1f} {y:.1f}H{stop:.1f}m0 -4v8M{start:.1f} {y - 4:.1f}v8"
            parts.append(f'<path d="{line}" stroke-width="1.5" {stroke("muted")}/>')
        if np.isfinite(middle[row]):
            parts.append(f'<circle cx="{left + (middle[row] - least) * scale:.1f}" cy="{y:.1f}" r="4.5" {fill("good")}/>')
    parts.append(caption(f"{plain(found.unit)} &rarr;", right, bottom + 40, paint="muted", anchor="end"))
    shown = counted(n, "estimate") if n == len(found.names) else f"the first {n} of {whole(len(found.names))} estimates"
    return svg(right + 24, bottom + 54, f"{plain(found.title)}: {shown} with intervals", parts)


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers inside the range, at most nine."""
    raw = (most - least) / 8
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(least / step - 1e-9)
    return [k * step for k in range(first, math.floor(most / step + 1e-9) + 1)]
