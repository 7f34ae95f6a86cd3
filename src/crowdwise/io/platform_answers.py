"""Numbers and comparisons from the exports of platforms and the files of judges: ratings, boxes, battles, rankings."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import polars as pl

from crowdwise.data.comparisons import Comparisons
from crowdwise.data.ratings import Ratings
from crowdwise.errors import InputError
from crowdwise.io.boxes import CORNERS, box_table
from crowdwise.io.shaped import trusted
from crowdwise.io.source import Source, open_source
from crowdwise.io.votes import Exports, Request

__all__ = ["read"]

# Recognised by fields that a plain table of numbers or comparisons may have too.
_VAGUE = ("judges", "peerannot")
# Platform -> module with read_boxes(source, question).
_BOXES = {"label-studio": "label_studio_regions", "cvat": "cvat"}


def read(path: Any, kind: type[Any], exports: Exports, options: dict[str, Any]) -> Any:
    """Answers of this kind from an export; None where the file is a plain table, or columns of it are named."""
    question = options.get("question")
    if any(value is not None for name, value in options.items() if name not in ("question", "weight")):
        return None
    source = open_source(path)
    if source.kind == "matrix":
        return None
    platform = exports.recognised(source)
    if issubclass(kind, Comparisons):
        with trusted(source, "comparisons" if platform is None else platform.name):
            return _comparisons(source, platform, kind, question, options)
    if platform is None or platform.name in _VAGUE:
        if question is not None:
            options["value"] = question
        return None
    with trusted(source, platform.name):
        return _ratings(source, platform.name, kind, question, exports)


def _ratings(source: Source, name: str, kind: type[Ratings], question: str | None, exports: Exports) -> Ratings:
    """The boxes of a platform that has some, else its answers as numbers."""
    if name in _BOXES:
        boxes = import_module(f"crowdwise.io.platforms.{_BOXES[name]}").read_boxes(source, question)
        if boxes is not None:
            table = box_table(boxes, source)
            roles = {name: f"value {k + 1}" for k, name in enumerate(CORNERS)}
            return kind.from_columns(table.frame.rename(roles), table.where, CORNERS)
    export = exports.read(source, name, Request(question=question))
    votes = export.votes.rename({"label": "value"})
    if votes["value"].dtype == pl.Boolean:
        raise InputError(f"{source.name}: the answers are true and false, not numbers; crowdwise aggregate reads them")
    return kind.from_columns(votes, export.where)


def _comparisons(
    source: Source, platform: Any, kind: type[Comparisons], question: str | None, options: dict[str, Any]
) -> Comparisons | None:
    if platform is not None and platform.name == "label-studio":
        from crowdwise.io.battles import ranking_table
        from crowdwise.io.platforms.label_studio_regions import read_rankings

        table = ranking_table(list(read_rankings(source, question)), source)
    else:
        from crowdwise.io.battles import battle_table

        found = battle_table(source, options.get("weight"))
        if found is None:
            return None
        table = found
    return kind.from_columns(table.frame, table.where)
