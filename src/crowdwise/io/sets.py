"""Sets of labels from any file that votes are read from: several answers in a cell, or several ticked options of a platform."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import polars as pl

from crowdwise.data.columns import plural_label
from crowdwise.data.encode import as_text, missing_mask, tidy
from crowdwise.data.label_sets import ABSTAIN, NONE, LabelSets
from crowdwise.errors import InputError, SettingError
from crowdwise.io.cells import BRACKETS, LIST, joined_by, split_cell, texts
from crowdwise.io.exports import Export, Request
from crowdwise.io.file_columns import FileColumns
from crowdwise.io.source import AnyPath, Source, open_source
from crowdwise.io.spelling import Speller

__all__ = ["read_sets"]

Sets = TypeVar("Sets", bound=LabelSets)
#: Options of `Request` that say how a file is read.
_WAYS: tuple[str, ...] = (
    "item",
    "annotator",
    "label",
    "question",
    "predictions",
    "annotators",
    "exclude",
    "header",
    "transposed",
)
_WAYS += ("workflow_version", "fold_case", "spelling")


def read_sets(
    path: AnyPath | Sequence[AnyPath],
    kind: type[Sets],
    exported: Callable[[AnyPath | Sequence[AnyPath], Request], tuple[Source, str, Export]],
    *,
    format: str | None = None,
    shown: str | None = None,
    separator: str | None = None,
    notes: list[str] | None = None,
    **options: Any,
) -> Sets:
    """Read sets of labels from what `exported` finds in a file; the separator is found unless it is given.

    Options are those of `crowdwise.read` that say how a file is read, and those of `LabelSets.from_arrays`.
    """
    if separator == "":
        raise SettingError("the separator between labels must not be empty")
    if shown is not None:
        named = {role: options.pop(role, None) for role in ("item", "annotator", "label")}
        return kind.from_frame(FileColumns(path), shown=shown, separator=separator or "|", **named, **options)  # type: ignore[arg-type]
    asked = {name: options.pop(name) for name in _WAYS if name in options}
    asked["label"] = asked.get("label") or _plural_column(path)
    request = Request(format=format, several="split", notes=[] if notes is None else notes, **asked)
    source, _, export = exported(path, request)
    if source.kind == "matrix":
        FileColumns(path).expect(("item", "annotator", "label"))  # type: ignore[arg-type]
    table = _sets(export, request, separator, options)
    known = None if export.gold is None or not len(export.gold) else _known(export, request, separator, options)
    more = [items for items in (export.items, None if known is None else known["item"]) if items is not None]
    if more and "items" not in options:
        parts = [tidy(part) for part in (table["item"], *more)]
        parts = parts if len({part.dtype for part in parts}) == 1 else [as_text(part) for part in parts]
        options["items"] = pl.concat(parts).unique().sort().to_list()
    answers = kind.from_columns(table, export.where, **options)
    if known is None:
        return answers
    # Labels that only gold names join those of the answers, unless all of them were given.
    how = {name: value for name, value in options.items() if name != "annotators"}
    true = kind.from_columns(known, export.where, **how)
    return answers.with_gold(true) if true.n_votes else answers


def _plural_column(path: AnyPath | Sequence[AnyPath]) -> str | None:
    """The column `labels` or `tags` of a table; None where a file has neither, or is no table."""
    try:
        source = open_source(path)
        return plural_label(source.names) if source.kind not in ("folder", "matrix") else None
    except InputError:
        # What is wrong with the file is said by those who read it.
        return None


def _known(export: Export, request: Request, separator: str | None, how: dict[str, Any]) -> pl.DataFrame:
    """The gold of an export in the form of answers, all by one annotator."""
    gold = export.gold.with_columns(annotator=pl.lit("gold"))  # type: ignore[union-attr]
    return _sets(replace(export, votes=gold, empty=None), replace(request, notes=[]), separator, how)


def _sets(export: Export, request: Request, separator: str | None, how: dict[str, Any]) -> pl.DataFrame:
    """Item, annotator and label, the last as JSON text of the labels of each answer."""
    label = texts(export.votes["label"])
    skipped = how.get("abstain", ABSTAIN)
    given = label.filter(~missing_mask(label, skipped))
    joined = joined_by(given.unique().to_list(), separator)
    for text in given.unique().to_list() if joined.mark in (LIST, BRACKETS) or separator is None else ():
        if text.lstrip().startswith("[") and split_cell(text, joined.mark) == [text.strip()]:
            row = int((label == text).fill_null(False).arg_true()[0])
            raise InputError(f"{export.where.row(row)}: {text!r:.80} looks like a list but is not; correct it")
    split = {text: split_cell(text, joined.mark) for text in given.unique().to_list()}
    speller = Speller(request, export.where.source, skipped)
    each = pl.Series([part for text in label if text in split for part in split[text]], dtype=pl.String)
    new, _ = speller.unify("label", each)
    respelt = dict(zip(each.to_list(), as_text(new).to_list(), strict=True))
    ids = {role: speller.unify(role, tidy(export.votes[role]))[0] for role in ("item", "annotator")}
    speller.say()
    written = {
        text: json.dumps([respelt[part] for part in parts], ensure_ascii=False) if parts else how.get("none", NONE)
        for text, parts in split.items()
    }
    cells = [written.get(text, text) if text is not None else None for text in label.to_list()]
    if export.empty is not None:
        cells = [how.get("none", NONE) if empty else cell for cell, empty in zip(cells, export.empty, strict=True)]
    nobody = [text for text in label if text in split and [part.lower() for part in split[text]] == [NONE]]
    if nobody and "none" not in how:
        said = f"{nobody[0]!r} ({len(nobody):,} of {len(given):,} answers)"
        request.notes.append(f"{export.where.source}: {said} is read as: no label applies, the empty set")
    if separator is None and any(len(parts) > 1 for parts in split.values()):
        request.notes.append(f"{export.where.source}: labels of one answer are {joined.words} (--separator says otherwise)")
    table = pl.DataFrame({**ids, "label": pl.Series(cells, dtype=pl.String)})
    again = int(table.select(pl.struct("item", "annotator").is_duplicated().sum()).item())
    if again and any(len(parts) > 1 for parts in split.values()):
        request.notes.append(f"{export.where.source}: {again:,} rows share item and annotator; together they are one answer")
    return table
