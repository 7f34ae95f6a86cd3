"""Toloka: the assignments TSV, one row per task and annotator."""

from __future__ import annotations

import polars as pl

from crowdwise.io.source import Source
from crowdwise.io.votes import Export, Request, choose_question, tabular

_OUTPUT = "OUTPUT:"
# Assignments that nobody handed in, or that were sent back.
_UNDONE = ["REJECTED", "SKIPPED", "EXPIRED"]


def read(source: Source, request: Request) -> Export:
    """Return the votes; the item is the task id, or all INPUT columns together where there is none."""
    table = source.table(source.columns)
    frame = table.frame
    wanted = request.question or request.label
    question = choose_question(_questions(frame.columns), wanted and wanted.removeprefix(_OUTPUT), source.name)
    rejected = None
    if "ASSIGNMENT:status" in frame.columns:
        rejected = frame["ASSIGNMENT:status"].str.to_uppercase().is_in(_UNDONE).fill_null(False)
    golden = f"GOLDEN:{question}"
    return tabular(
        table,
        frame[request.item] if request.item else _items(frame),
        frame[request.annotator or "ASSIGNMENT:worker_id"],
        frame[_OUTPUT + question],
        weight=frame[request.weight] if request.weight else None,
        gold=frame[golden] if golden in frame.columns else None,
        drop=rejected,
        why="rejected, skipped or expired assignments",
    )


def _questions(columns: list[str]) -> list[str]:
    return [name.removeprefix(_OUTPUT) for name in columns if name.startswith(_OUTPUT)]


def _items(frame: pl.DataFrame) -> pl.Series:
    if "ASSIGNMENT:task_id" in frame.columns:
        return frame["ASSIGNMENT:task_id"]
    inputs = [name for name in frame.columns if name.startswith("INPUT:")]
    return frame.select(pl.concat_str(inputs, separator=" | ", ignore_nulls=True).alias("item")).to_series()
