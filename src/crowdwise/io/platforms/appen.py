"""Appen (Figure Eight, CrowdFlower): the full CSV, one row per judgment."""

from __future__ import annotations

import polars as pl

from crowdwise.io.roles import by_words
from crowdwise.io.source import Source
from crowdwise.io.votes import Export, Request, choose_question, tabular


def read(source: Source, request: Request) -> Export:
    """Return the votes of annotators who were not tainted, and the gold of test questions."""
    table = source.table(source.columns)
    frame = table.frame
    wanted = request.question or request.label
    questions = [name.removesuffix("_gold") for name in frame.columns if name.endswith("_gold") and name != "_gold"]
    questions = [name for name in questions if name in frame.columns]
    if not questions or (wanted in frame.columns and wanted not in questions):
        # Without test questions, answers and input data cannot be distinguished by name.
        questions = [name for name in frame.columns if not name.startswith("_")]
        questions = questions if wanted in questions else _answered(frame, questions) or questions
    # The first is the example of a message: what was shown, or never answered, is a poor one.
    questions.sort(
        key=lambda name: (frame[name].null_count() == len(frame), name.startswith("input"), not by_words([name], "label"))
    )
    question = choose_question(questions, wanted, source.name)
    gold = None
    if f"{question}_gold" in frame.columns:
        gold = frame[f"{question}_gold"]
        # A test question that accepts several answers, one per line, has no single true class.
        several = gold.str.contains("\n").fill_null(False)
        untested = ~_true(frame, "_golden") if "_golden" in frame.columns else pl.repeat(False, len(frame), eager=True)
        gold = gold.to_frame("x").select(pl.when(pl.lit(several | untested)).then(None).otherwise(pl.col("x"))).to_series()
    return tabular(
        table,
        frame[request.item or "_unit_id"],
        frame[request.annotator or "_worker_id"],
        frame[question],
        weight=frame[request.weight] if request.weight else None,
        gold=gold,
        drop=_true(frame, "_tainted"),
        why="tainted judgments",
    )


def _answered(frame: pl.DataFrame, names: list[str]) -> list[str]:
    """Columns on which judgments of one unit differ: what is the same in all of them was shown, not answered."""
    units = frame.group_by("_unit_id").agg(pl.col(names).n_unique())
    return [name for name in names if bool((units[name] > 1).any())]


def _true(frame: pl.DataFrame, name: str) -> pl.Series:
    if name not in frame.columns:
        return pl.repeat(False, len(frame), eager=True)
    return frame[name].str.to_lowercase().is_in(["true", "1", "t", "yes"]).fill_null(False)
