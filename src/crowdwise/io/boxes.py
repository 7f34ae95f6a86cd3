"""Boxes that several annotators drew on images, as numbers: whose boxes are of one thing, and where they stand.

Nobody says which box of one annotator is which of another. Boxes with one label are taken for the same thing where they overlap
by at least half (intersection over union), the closest first, and at most one box per annotator.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any

import numpy as np
import polars as pl

from crowdwise.errors import InputError
from crowdwise.io.source import Places, Source, Table
from crowdwise.io.votes import column

__all__ = ["CORNERS", "Box", "box_table"]

CORNERS = ("x1", "y1", "x2", "y2")
_SAME = 0.5


@dataclass(frozen=True)
class Box:
    """A box: the record that holds it, what it is on, who drew it, its label and its corners (x1, y1, x2, y2)."""

    row: int
    item: Any
    annotator: Any
    label: str
    corners: tuple[float, float, float, float]


def box_table(boxes: list[Box], source: Source) -> Table:
    """A row per box: item, annotator and four numbers; the item is ``image/label/number``."""
    if not boxes:
        raise InputError(f"{source.name}: no boxes in these answers")
    rows: list[tuple[Box, str]] = []
    key = _key
    for (item, label), group in groupby(sorted(boxes, key=key), key=lambda box: (str(box.item), box.label)):
        for number, things in enumerate(_things(list(group)), start=1):
            rows += [(box, f"{item}/{label}/{number}") for box in things]
    where = Places(source.name, rows=np.array([box.row for box, _ in rows], np.int64), unit=source.unit)
    corners = np.array([box.corners for box, _ in rows], np.float64)
    columns = {
        "item": pl.Series([name for _, name in rows]),
        "annotator": column([box.annotator for box, _ in rows], where),
    }
    return Table(pl.DataFrame(columns | {name: corners[:, k] for k, name in enumerate(CORNERS)}), where)


def _key(box: Box) -> tuple[Any, ...]:
    # From left to right, so that numbers do not depend on the order of the file.
    return str(box.item), box.label, box.corners, str(box.annotator)


def _things(boxes: list[Box]) -> list[list[Box]]:
    """Put boxes of one label on one image together that show the same thing."""
    near = [(_overlap(a.corners, b.corners), i, j) for (i, a), (j, b) in combinations(enumerate(boxes), 2)]
    thing = list(range(len(boxes)))
    people = {i: {str(box.annotator)} for i, box in enumerate(boxes)}
    for overlap, i, j in sorted(near, key=lambda pair: (-pair[0], pair[1:])):
        first, second = sorted((thing[i], thing[j]))
        if overlap < _SAME:
            break
        if first != second and not people[first] & people[second]:
            people[first] |= people.pop(second)
            thing = [first if t == second else t for t in thing]
    return [[box for box, t in zip(boxes, thing, strict=True) if t == kept] for kept in sorted(set(thing))]


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Intersection over union."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union > 0 else 0.0
