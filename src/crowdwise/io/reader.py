"""Read votes and gold labels from any file that is recognised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import ALIASES, codes_of, missing_mask, series_of, tidy
from crowdwise.errors import InputError, did_you_mean, listed
from crowdwise.io.delimited import integers
from crowdwise.io.export import Export, Request, assemble
from crowdwise.io.matrix import looks_wide, read_answers, read_wide
from crowdwise.io.platforms import PLATFORMS
from crowdwise.io.source import AnyPath, Places, Source, open_source
from crowdwise.io.tables import read_columns, read_tidy

__all__ = ["FORMATS", "detect", "read", "read_gold"]

_TABLES = {
    "tidy": "one row per vote with item, annotator and label, in any of the next five",
    "csv": "comma-separated text, also .csv.gz; the separators ; tab and | are found",
    "tsv": "tab-separated text, also .tsv.gz",
    "jsonl": "one JSON object per line (.jsonl, .ndjson), also .gz; or a JSON list of objects (.json)",
    "parquet": "Parquet; only the needed columns are read",
    "arrow": "Arrow IPC or Feather (.arrow, .ipc, .feather)",
    "wide": "a row per item, a column per annotator, empty cells (or -1) for absent votes",
    "answers": "LabelMe / CrowdLayer answers.txt: numbers between spaces, items x annotators, -1 for absent votes",
}
FORMATS: dict[str, str] = _TABLES | {platform.NAME: platform.DESCRIPTION for platform in PLATFORMS}
"""Name and one-line description of every format that `read` knows."""

_WEIGHABLE = ("mturk", "toloka", "appen")
_GOLD = ("gold", "goldlabel", "truelabel", "truth", "groundtruth", "true", "trueclass", "class", "correct")


def read(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str | None = None,
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    classes: Sequence[Any] | None = None,
    missing: Iterable[Any] = (),
    question: str | None = None,
    predictions: bool = False,
) -> Annotations:
    """Read votes from a table or a platform's export.

    Parameters
    ----------
    path : path or sequence of paths
        A file; for doccano and SageMaker also a folder or several files.
    format : str, optional
        A name from `FORMATS`; recognised from suffix and content when left out.
    item, annotator, label, weight : str, optional
        Column names; found by the usual aliases when left out. Votes are weighted only on request.
    classes : sequence, optional
        All classes, in order; a label outside them is an error. Default: those that occur.
    missing : iterable
        Answers that mean "don't know"; they are dropped and counted like empty ones.
    question : str, optional
        Which question to read where an export holds several.
    predictions : bool
        Whether a platform's model predictions vote, as annotators ``model:<version>``.

    Returns
    -------
    Annotations
        With `gold` where the export marks known answers.

    Raises
    ------
    InputError
        Names the file, the row (the header of a table is row 1) and the fix.
    """
    source = open_source(path)
    request = Request(item, annotator, label, weight, question, predictions)
    return assemble(_export(source, _format(source, format), request), classes=classes, missing=missing)


def detect(path: AnyPath | Sequence[AnyPath]) -> str:
    """Return the name, from `FORMATS`, of the format that `read` would use."""
    return _format(open_source(path), None)


def read_gold(path: AnyPath, votes: Annotations | None = None) -> pl.DataFrame:
    """Read known true labels as a frame with columns item and label, for ``gold=``.

    Parameters
    ----------
    path : path
        A table with an item column and one called gold, true_label, truth or label; a platform's
        export that holds gold; or, with `votes`, a text file with one label per item in order.
    votes : Annotations, optional
        Checks the labels against the classes, and gives the items of a file that names none.
    """
    source = open_source(path)
    if votes is not None and source.path.suffix.lower() == ".txt" and not any(c in source.data for c in b",;\t|{"):
        return _gold_by_position(source.data.split(), votes, source)
    found = _format(source, None)
    if found not in _TABLES:
        gold = _export(source, found, Request()).gold
        if gold is None or not len(gold):
            raise InputError(f"{source.name}: this {found} export holds no gold; give a table with columns item and label")
        return gold
    names = source.columns
    plain = {name: "".join(c for c in name.lower() if c.isalnum()) for name in names}
    items = [name for name in names if plain[name] in (*ALIASES["item"], "id", "")]
    labels = [name for name in names if plain[name] in _GOLD] or [name for name in names if plain[name] in ALIASES["label"]]
    if len(items) != 1 or len(labels) != 1:
        raise InputError(
            f"{source.name}: expected an item column and one called gold, truth or label; found {', '.join(map(repr, names))}"
        )
    table = read_columns(source, [items[0], labels[0]])
    item, label = (integers(table.frame[name]) for name in (items[0], labels[0]))
    known = ~missing_mask(tidy(label), ())
    if votes is not None:
        # Gold of items that nobody voted on is ignored later, so its classes do not matter.
        voted = pl.Series(codes_of(tidy(item), tidy(series_of(votes.items)).unique()) >= 0)
        _check_classes(label, known & voted, votes, table.where)
    return pl.DataFrame({"item": item, "label": label}).filter(known).unique(maintain_order=True)


def _format(source: Source, given: str | None) -> str:
    """Return the format to use: the given name, checked, or the one recognised."""
    if given is not None:
        if given not in FORMATS:
            raise InputError(f"unknown format {given!r}{did_you_mean(given, list(FORMATS))}; known are {', '.join(FORMATS)}")
        return given
    if source.parts == ():
        raise InputError(f"{source.name}: a folder without .json or .jsonl files; name a file")
    for platform in PLATFORMS:
        if platform.matches(source):
            return platform.NAME
    if source.kind == "folder":
        raise InputError(f"{source.name}: a folder, and not one of doccano or SageMaker files; name a file")
    if source.kind == "matrix":
        return "answers"
    if looks_wide(source):
        return "wide"
    if source.kind == "delimited":
        return "tsv" if source.separator == "\t" else "csv"
    return "jsonl" if source.kind == "json" else source.kind


def _export(source: Source, name: str, request: Request) -> Export:
    if name == "wide":
        return read_wide(source, request.item)
    if name == "answers":
        return read_answers(source)
    if name in _TABLES:
        return read_tidy(source, request)
    platform = next(platform for platform in PLATFORMS if name == platform.NAME)
    given = {"item": request.item, "annotator": request.annotator, "weight": request.weight}
    for role, column in given.items():
        if column is None:
            continue
        if source.kind != "delimited" or (role == "weight" and name not in _WEIGHABLE):
            raise InputError(
                f"{source.name}: a {name} export has no column for the {role}; leave {role}= out, or read it with format='tidy'"
            )
        if column not in source.columns:
            raise InputError(
                f"{source.name}: no column {column!r}; found {', '.join(map(repr, source.columns))}"
                + did_you_mean(column, source.columns)
            )
    try:
        return platform.read(source, request)
    except (AttributeError, IndexError, KeyError, TypeError, UnicodeEncodeError) as error:
        # The first record was recognised; readers trust the shape from there instead of checking every level.
        raise InputError(
            f"{source.last_place}: recognised as {name}, but this record is not shaped like it; "
            "export it again, or name another format with format=... or --format"
        ) from error


def _gold_by_position(lines: list[bytes], votes: Annotations, source: Source) -> pl.DataFrame:
    if len(lines) != votes.n_items:
        raise InputError(
            f"{source.name}: {len(lines)} labels for {votes.n_items} items; give one per item, in the order of the votes"
        )
    label = integers(pl.Series([line.decode() for line in lines]))
    _check_classes(label, ~missing_mask(label, ()), votes, Places(source.name, 1))
    return pl.DataFrame({"item": series_of(votes.items), "label": label})


def _check_classes(label: pl.Series, known: pl.Series, votes: Annotations, where: Places) -> None:
    codes = codes_of(tidy(label), tidy(series_of(votes.classes)))
    outside = np.flatnonzero(known.to_numpy() & (codes < 0))
    if len(outside):
        text, classes = str(label[int(outside[0])]), [str(c) for c in votes.classes]
        raise InputError(
            f"{where.row(int(outside[0]))}: gold label {text!r} is not among the classes {listed(classes)}"
            f"{did_you_mean(text, classes)} (name every class with classes=... or --classes)"
        )
