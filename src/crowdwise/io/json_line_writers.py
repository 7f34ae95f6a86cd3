"""Writers of exports with one JSON line per item or per vote: Labelbox, SageMaker Ground Truth, doccano."""

from __future__ import annotations

import json
import os
from os import fspath
from pathlib import Path
from typing import Any

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError
from crowdwise.io.leftovers import HeldFolder
from crowdwise.io.source import AnyPath
from crowdwise.io.writer import write_json

__all__ = ["by_item", "write_doccano", "write_labelbox", "write_sagemaker"]


def by_item(votes: Annotations) -> list[tuple[Any, Any, list[tuple[Any, Any]]]]:
    """List every item with its gold label or None and its (annotator, label) pairs, as Python values."""
    annotators, labels = votes.annotators.tolist(), votes.classes.tolist()
    pairs = [(annotators[a], labels[k]) for a, k in zip(votes.annotator.tolist(), votes.label.tolist(), strict=True)]
    gold = [-1] * votes.n_items if votes.gold is None else votes.gold.tolist()
    starts = votes.item_ptr.tolist()
    return [
        (item, labels[gold[n]] if gold[n] >= 0 else None, pairs[starts[n] : starts[n + 1]])
        for n, item in enumerate(votes.items.tolist())
    ]


def write_labelbox(votes: Annotations, path: AnyPath, safe: bool) -> None:
    """Labelbox export v2: a line per data row, its labels in one project, the vote as a radio answer."""

    def label(annotator: Any, answer: Any) -> dict[str, Any]:
        radio = {"name": "label", "radio_answer": {"name": answer}}
        return {"label_details": {"created_by": annotator}, "annotations": {"classifications": [radio]}}

    lines = (
        {"data_row": {"id": item}, "projects": {"votes": {"labels": [label(a, x) for a, x in given]}}}
        for item, _, given in by_item(votes)
    )
    write_json(lines, path, lines=True)


def write_sagemaker(votes: Annotations, path: AnyPath, safe: bool) -> None:
    """SageMaker Ground Truth: a manifest line per item with the answers of all annotators, each a JSON text."""

    def answer(annotator: Any, label: Any) -> dict[str, Any]:
        return {"workerId": annotator, "annotationData": {"content": json.dumps({"label": label}, ensure_ascii=False)}}

    lines = (
        {"source": item, "votes": {"annotationsFromAllWorkers": [answer(a, x) for a, x in given]}}
        for item, _, given in by_item(votes)
    )
    write_json(lines, path, lines=True)


def write_doccano(votes: Annotations, path: AnyPath, safe: bool) -> None:
    """doccano: a new folder with a JSONL file per user, whose name is the annotator's."""
    folder = Path(fspath(path))
    if folder.exists():
        raise InputError(f"{folder}: exists already; doccano exports are a folder with a file per user, so name a new one")
    of_user: dict[str, list[dict[str, Any]]] = {}
    for item, _, given in by_item(votes):
        for annotator, label in given:
            of_user.setdefault(str(annotator), []).append({"id": item, "text": str(item), "label": [label]})
    for name in of_user:
        if name in ("", ".", "..", "all") or any(c in name for c in "/\\:\0"):
            raise InputError(
                f"annotator {name!r} cannot be the name of a file, which doccano's export needs; write another format"
            )
    partial = HeldFolder(f".{folder.name}.", folder.absolute().parent)
    try:
        for name, lines in of_user.items():
            write_json(lines, partial.path / f"{name}.jsonl", lines=True)
        partial.path.chmod(0o755)
        partial.let_go()
        os.rename(partial.path, folder)
    except BaseException:
        partial.remove()
        raise
