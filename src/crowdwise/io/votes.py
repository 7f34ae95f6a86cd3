"""From what readers hand over (`crowdwise.io.exports`) to `Annotations`, and columns of tables of any kind.

What names need a look (spellings, several answers in a cell, damaged ids) is seen here on the distinct ones; what is done about
it is in modules that plain files never load.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import EDGES, integers, missing_mask, tidy
from crowdwise.errors import DataWarning, InputError
from crowdwise.io.exports import Ballot, Export, Exports, Request, choose_question, column, single
from crowdwise.io.source import Places, Source, Table

__all__ = ["Ballot", "Export", "Exports", "Request", "assemble", "choose_question", "column", "column_names", "read_columns"]
__all__ += ["is_odd", "known_labels", "note_repeats", "repeats_line", "single", "tabular"]


def tabular(
    table: Table,
    item: pl.Series,
    annotator: pl.Series,
    label: pl.Series,
    *,
    weight: pl.Series | None = None,
    gold: pl.Series | None = None,
    drop: pl.Series | None = None,
    why: str = "",
) -> Export:
    """Make an export of columns of text; rows in `drop` lose their label, are counted and warned about."""
    n_left_out = 0 if drop is None else int(drop.sum())
    if n_left_out:
        label = label.to_frame("x").select(pl.when(pl.lit(drop)).then(None).otherwise(pl.col("x"))).to_series()
        warnings.warn(f"{table.where.source}: {n_left_out} {why} were left out", DataWarning, stacklevel=2)
    columns = {"item": integers(item), "annotator": integers(annotator), "label": label}
    if weight is not None:
        columns["weight"] = weight
    known = None
    if gold is not None:
        # Labels and gold become integers together or not at all, or their classes would differ in type.
        both = integers(pl.concat([label, gold.cast(label.dtype)]))
        columns["label"], gold = both[: len(label)], both[len(label) :]
        known = known_labels(columns["item"], gold)
    else:
        columns["label"] = integers(label)
    return Export(pl.DataFrame(columns), table.where, known, n_left_out=n_left_out)


def known_labels(item: pl.Series, gold: pl.Series) -> pl.DataFrame:
    """Items whose true label is there, each once."""
    return pl.DataFrame({"item": item, "label": gold}).filter(~missing_mask(gold, ())).unique(maintain_order=True)


# What in a name asks for a closer look: separators and lists in labels, numbers like 1.0, ids that a spreadsheet shortened.
_MARKS = {
    "label": r"[\n;|,\[({]|\s\s|[^\S \n]|^[+-]?\d+[.,]0*$|^[+-]?0\d",
    "item": r"^-?\d\S*[eE]\+?\d+$|^-?\d{16}|^[+-]?\d+[.,]0*$",
}
_MARKS["annotator"] = (
    _MARKS["item"] + r"|(?i)^(gold|golden|truth|ground.?truth|gold.?standard|majority|consensus|adjudicat\w*)$"
)
_LONG = 10**15


def assemble(
    export: Export, request: Request | None = None, *, classes: Sequence[Any] | None, missing: Iterable[Any]
) -> Annotations:
    """Build `Annotations`: items without votes and classes that occur only in gold are kept."""
    request = request or Request()
    # One text is one marker, not a list of letters.
    missing = (missing,) if isinstance(missing, str) else tuple(missing)
    distinct = {role: tidy(export.votes[role]).unique() for role in _MARKS}
    if request.fold_case or request.spelling is not None or any(is_odd(names, role) for role, names in distinct.items()):
        from crowdwise.io.names import settled

        export = settled(export, request, missing)
        distinct = {role: tidy(export.votes[role]).unique() for role in _MARKS}
    if request.repeats != "all":
        from crowdwise.io.repeats import without_repeats

        export = without_repeats(export, request.repeats, missing)
    votes, gold = export.votes, export.gold
    extra = [part for part in (export.items, None if gold is None else gold["item"]) if part is not None and len(part)]
    items = _union([distinct["item"], *extra], ()) if extra else distinct["item"].drop_nulls().sort()
    if gold is not None and len(gold) and classes is None:
        from crowdwise.io.names import check_gold

        check_gold(distinct["label"], gold["label"], export.where.source, missing)
        classes = _union([distinct["label"], gold["label"]], missing).to_list() or None
    # Not from_frame: exports know items and annotators without votes, which a frame cannot hold.
    built = (anonymous_kind() if export.anonymous else Annotations).from_columns(
        votes.drop("time", strict=False),
        export.where,
        classes=classes,
        items=items,
        annotators=distinct["annotator"].drop_nulls().sort() if export.annotators is None else export.annotators,
        missing=missing,
    )
    built = replace(built, n_missing=built.n_missing - export.n_left_out)
    if gold is None or not len(gold):
        return built
    try:
        return built.with_gold(gold)
    except InputError as error:
        raise type(error)(f"{export.where.source}: {error}") from None


def is_odd(distinct: pl.Series, role: str) -> bool:
    """Whether names of this role may be spelt in several ways, hold several answers or be damaged."""
    if distinct.dtype != pl.String:
        return role != "label" and distinct.dtype == pl.Int64 and bool((distinct.abs() >= _LONG).any())
    name = pl.col("name")
    odd = (
        (name.str.strip_chars(EDGES) != name) | (name.str.len_bytes() != name.str.len_chars()) | name.str.contains(_MARKS[role])
    )
    found = (
        distinct.drop_nulls()
        .to_frame("name")
        .select(odd.any().alias("odd"), name.str.to_lowercase().str.replace_all(r"[._\-\s]", " ").n_unique().alias("n"))
    )
    return bool(found["odd"][0]) or found["n"][0] < len(distinct) - distinct.null_count()


def anonymous_kind() -> type[Annotations]:
    """The kind of votes of which nobody knows who gave them."""
    from crowdwise.data.anonymous import AnonymousVotes

    return AnonymousVotes


def note_repeats(votes: Annotations, source: str, request: Request) -> int:
    """Say how many votes are an annotator's second or later on an item, and return it."""
    again = (votes.annotator[1:] == votes.annotator[:-1]) & (votes.item[1:] == votes.item[:-1])
    n = int(again.sum())
    if n:
        other = int((again & (votes.label[1:] != votes.label[:-1])).sum())
        request.notes.append(repeats_line(source, n, other, votes.n_votes))
    return n


def repeats_line(source: str, n: int, other: int, n_votes: int) -> str:
    """What to say of `n` votes that are second or later ones, `other` of them with another label than the one before."""
    changed = f", {other:,} of them with another label" if other else ", with the same label"
    return (
        f"{source}: {n:,} of {n_votes:,} votes repeat an annotator's vote on the same item{changed}; all count "
        "(--repeats last, first or weight does otherwise)"
    )


def _union(parts: list[pl.Series], missing: Sequence[Any]) -> pl.Series:
    parts = [tidy(part) for part in parts]
    parts = [part.filter(~missing_mask(part, missing)) for part in parts]
    if len({part.dtype for part in parts}) > 1:
        parts = [part.cast(pl.String) for part in parts]
    union = pl.concat(parts).unique()
    # Integers that shared a column with text markers ("?") are integers again, as in `Annotations`.
    return (integers(union) if missing else union).sort()


# -- columns of a table of any kind ------------------------------------------------------------


def read_columns(source: Source, names: list[str]) -> Table:
    """Return these columns of a table of any kind; text from delimited files, values from the others."""
    if source.kind not in ("json", "jsonl"):
        return source.table(names)
    rows = np.array([row for row, _ in source.records], np.int64)
    where = Places(source.name, rows=rows, unit=source.unit)

    def values(name: str) -> list[Any]:
        cells = [record.get(name) for _, record in source.records]
        return [_cell(cell, where.row(i)) if isinstance(cell, list | dict) else cell for i, cell in enumerate(cells)]

    return Table(pl.DataFrame({name: column(values(name), where) for name in names}), where)


def _cell(cell: Any, place: str) -> Any:
    """A list of one value as that value, other lists as JSON text, so that what belongs together stays aligned."""
    if isinstance(cell, list) and (len(cell) != 1 or isinstance(cell[0], list | dict)):
        import json

        return json.dumps(cell, ensure_ascii=False)
    return single(cell, place)


def column_names(source: Source) -> list[str]:
    """Return the columns of a table, or the keys of its records."""
    if source.kind not in ("json", "jsonl"):
        return source.columns
    if not source.records:
        raise InputError(f"{source.name}: no records; expected one object per vote")
    return list(dict.fromkeys(name for _, record in source.records for name in record))
