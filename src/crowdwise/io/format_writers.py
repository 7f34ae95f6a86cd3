"""Writers of what `convert` can write: tidy tables, matrices and the exports of some platforms.

A platform is written where its export can hold raw votes and our reader gets them back equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from os import fspath
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.errors import DataWarning, InputError
from crowdwise.io.json_line_writers import by_item, write_doccano, write_labelbox, write_sagemaker
from crowdwise.io.source import AnyPath
from crowdwise.io.writer import open_replacing, write_json, write_table

__all__ = ["DESTINATIONS", "Writer"]

# Half a gigabyte of pointers.
_MOST_CELLS = 60_000_000

Writer = Callable[[Annotations, AnyPath, bool], None]


def _frame(votes: Annotations) -> pl.DataFrame:
    """Return the tidy frame with the gold label of each item beside its votes, where known."""
    frame = votes.to_frame()
    gold = _gold(votes)
    return frame if gold is None else frame.with_columns(gold[votes.item].alias("gold"))


def _gold(votes: Annotations) -> pl.Series | None:
    if votes.gold is None:
        return None
    codes = pl.Series(votes.gold.astype(np.int64))
    return series_of(votes.classes).gather(codes.clip(0)).to_frame("gold").select(
        pl.when(pl.lit(codes >= 0)).then(pl.col("gold"))
    ).to_series()  # fmt: skip


def _tidy(votes: Annotations, path: AnyPath, safe: bool) -> None:
    write_table(_frame(votes), path, spreadsheet_safe=safe)


def _wide(votes: Annotations, path: AnyPath, safe: bool) -> None:
    _check_cells(votes, path)
    cells = votes.to_matrix()
    names = [str(annotator) for annotator in votes.annotators]
    item = "item" if "item" not in names else "item id"
    columns = {
        name: pl.Series([None if x is None else str(x) for x in cells[:, a]], dtype=pl.String) for a, name in enumerate(names)
    }
    write_table(pl.DataFrame({item: series_of(votes.items)} | columns), path, spreadsheet_safe=safe)


def _answers(votes: Annotations, path: AnyPath, safe: bool) -> None:
    _check_cells(votes, path)
    classes = series_of(votes.classes)
    # Classes that are no numbers are written as their positions, which is all the format can hold.
    integer = classes.dtype.is_integer() and int(classes.min() or 0) >= 0  # type: ignore[arg-type]
    numbers = votes.classes if integer else np.arange(votes.n_classes)
    if not integer:
        listed = ", ".join(f"{k} = {name}" for k, name in enumerate(votes.classes[:20]))
        warnings.warn(f"classes are written as numbers: {listed}", DataWarning, stacklevel=4)
    matrix = np.full((votes.n_items, votes.n_annotators), -1, np.int64)
    matrix[votes.item, votes.annotator] = numbers[votes.label]
    with open_replacing(path) as file:
        np.savetxt(file, matrix, fmt="%d")


def _columns(names: dict[str, str], extra: dict[str, str]) -> Writer:
    """Make a writer of platforms whose exports are tables: our column -> theirs, and constant columns."""

    def writer(votes: Annotations, path: AnyPath, safe: bool) -> None:
        frame = _frame(votes)
        chosen = [pl.col(ours).alias(theirs) for theirs, ours in names.items() if ours in frame.columns]
        table = frame.select(chosen + [pl.lit(text).alias(name) for name, text in extra.items()])
        if "_golden" in extra and "gold" in frame.columns:
            table = table.with_columns(frame["gold"].is_not_null().alias("_golden"))
        write_table(table, path, spreadsheet_safe=safe)

    return writer


def _label_studio(votes: Annotations, path: AnyPath, safe: bool) -> None:
    def result(label: Any) -> list[dict[str, Any]]:
        kind, value = ("rating", label) if type(label) is int else ("choices", [str(label)])
        return [{"from_name": "label", "to_name": "item", "type": kind, "value": {kind: value}}]

    def person(annotator: Any) -> Any:
        return annotator if isinstance(annotator, int) else {"email": annotator}

    tasks = []
    for item, gold, given in by_item(votes):
        annotations = [
            {"completed_by": person(a), "was_cancelled": False, "ground_truth": False, "result": result(x)} for a, x in given
        ]
        if gold is not None:
            annotations.append({"was_cancelled": False, "ground_truth": True, "result": result(gold)})
        # The platform numbers tasks itself; names of items travel in the data.
        tasks.append(({"id": item} if isinstance(item, int) else {}) | {"data": {"item": item}, "annotations": annotations})
    write_json(tasks, path)


def _prodigy(votes: Annotations, path: AnyPath, safe: bool) -> None:
    options = [{"id": label, "text": str(label)} for label in votes.classes.tolist()]
    lines = (
        {
            "_input_hash": item,
            "text": str(item),
            "options": options,
            "accept": [label],
            "answer": "accept",
            "_annotator_id": annotator,
        }
        for item, _, given in by_item(votes)
        for annotator, label in given
    )
    write_json(lines, path, lines=True)


def _zooniverse(votes: Annotations, path: AnyPath, safe: bool) -> None:
    gold = [(item, "gold", label, "true") for item, label, _ in by_item(votes) if label is not None]
    rows = [(item, annotator, label, "") for item, _, given in by_item(votes) for annotator, label in given] + gold
    task = pl.struct(pl.lit("T0").alias("task"), pl.col("label").alias("value"))
    frame = pl.DataFrame({"label": series_of([row[2] for row in rows])}).select(
        pl.concat_str(pl.lit("["), task.struct.json_encode(), pl.lit("]"))
    )
    table = pl.DataFrame({
        "user_name": pl.Series([str(row[1]) for row in rows]), "subject_ids": pl.Series([str(row[0]) for row in rows]),
        "gold_standard": pl.Series([row[3] for row in rows]), "annotations": frame.to_series(),
    })  # fmt: skip
    write_table(table, path, spreadsheet_safe=safe)


def _argilla(votes: Annotations, path: AnyPath, safe: bool) -> None:
    write_json(
        [
            {"id": item, "fields": {"item": str(item)}, "responses": {"label": [{"user_id": a, "value": x} for a, x in given]}}
            for item, _, given in by_item(votes)
        ],
        path,
    )


def _peerannot(votes: Annotations, path: AnyPath, safe: bool) -> None:
    _check_repeats(votes)
    write_json({str(item): {str(annotator): label for annotator, label in given} for item, _, given in by_item(votes)}, path)


def _check_cells(votes: Annotations, path: AnyPath) -> None:
    """Refuse matrices that would not fit in memory, and votes that do not fit a matrix."""
    if votes.n_items * votes.n_annotators > _MOST_CELLS:
        raise InputError(
            f"{fspath(path)}: {votes.n_items} items x {votes.n_annotators} annotators are too many cells for a matrix; "
            "write a tidy table instead"
        )
    _check_repeats(votes)


def _check_repeats(votes: Annotations) -> None:
    repeated = (votes.item[1:] == votes.item[:-1]) & (votes.annotator[1:] == votes.annotator[:-1])
    if repeated.any():
        e = int(np.flatnonzero(repeated)[0])
        raise InputError(
            f"annotator {votes.annotators[votes.annotator[e]]!r} labelled item {votes.items[votes.item[e]]!r} more than once, "
            "and this format holds one vote for each; write a tidy table instead"
        )


DESTINATIONS: dict[str, tuple[str, Writer]] = {
    "tidy": ("a row per vote, in the format of the suffix; a column gold where known", _tidy),
    "wide": ("a row per item, a column per annotator", _wide),
    "answers": ("answers.txt: class numbers between spaces, -1 for absent votes", _answers),
    "label-studio": ("Label Studio tasks with annotations", _label_studio),
    "prodigy": ("Prodigy JSONL with choices", _prodigy),
    "toloka": ("Toloka TSV", _columns(
        {"INPUT:item": "item", "OUTPUT:label": "label", "GOLDEN:label": "gold", "ASSIGNMENT:task_id": "item",
         "ASSIGNMENT:worker_id": "annotator"}, {"ASSIGNMENT:status": "APPROVED"})),
    "mturk": ("Mechanical Turk batch CSV", _columns(
        {"HITId": "item", "WorkerId": "annotator", "Answer.label": "label"}, {"AssignmentStatus": "Approved"})),
    "appen": ("Appen full CSV", _columns(
        {"_unit_id": "item", "_worker_id": "annotator", "_trust": "weight", "label": "label", "label_gold": "gold"},
        {"_golden": "false", "_tainted": "false"})),
    "zooniverse": ("Zooniverse classification CSV", _zooniverse),
    "argilla": ("Argilla records as JSON", _argilla),
    "labelbox": ("Labelbox export v2 NDJSON", write_labelbox),
    "sagemaker": ("SageMaker Ground Truth manifest with the answers of all annotators", write_sagemaker),
    "doccano": ("doccano: a new folder with a JSONL file per user", write_doccano),
    "peerannot": ("peerannot answers.json", _peerannot),
}  # fmt: skip
"""Name, description and writer of every format that `convert` writes."""
