"""Tables with a row per vote, and the way of what readers hand over (`crowdwise.io.exports`) to `Annotations`.

What names need a look (spellings, several answers in a cell, damaged ids) is seen here on the distinct ones; what is done about
it is in modules that plain files never load.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import (
    ALIASES,
    EDGES,
    Where,
    find_column,
    first_of_runs,
    integers,
    missing_mask,
    tidy,
    warn_of_missing_words,
)
from crowdwise.errors import DataWarning, InputError, listed
from crowdwise.io.exports import Ballot, Export, Exports, Request, choose_question, column, single
from crowdwise.io.source import Places, Source, Table

__all__ = ["Ballot", "Export", "Exports", "Request", "assemble", "choose_question", "column", "is_odd"]
__all__ += ["item_column", "known_labels", "note_repeats", "read_tidy", "repeats_line", "single", "tabular"]


def read_tidy(source: Source, request: Request) -> Export:
    """Read item, annotator, label and, where named, weight; a column called `gold` becomes gold.

    Columns that were not named are found by the usual aliases, or by what is in them. Only the needed ones are read from
    Parquet and Arrow.
    """
    if source.kind == "folder":
        raise InputError(f"{source.name}: a folder without a platform's export in it; name a file")
    if source.kind == "matrix":
        raise InputError(
            f"{source.name}: a matrix of numbers without a header; if it is items x annotators, use format='answers'"
        )
    wanted = _taken(source, request)
    table = _rows(source, wanted, request)
    columns = {role: table.frame[name] for role, name in wanted.items()}
    request.notes.extend(_roles_note(source, wanted, request))
    if any(_may_hold(columns[role], r"^\[") for role in ("annotator", "label")):
        from crowdwise.io.lists import exploded

        columns, table = exploded(columns, table, request)
    if _may_hold(columns["label"], r"\{"):
        from crowdwise.io.object_cells import read_field

        columns["label"] = read_field(columns["label"], table.where, request)
    _doubt(columns, wanted, source, request)
    gold = columns.pop("gold", None)
    if source.kind == "delimited":
        return tabular(
            table, *(columns[role] for role in ("item", "annotator", "label")), weight=columns.get("weight"), gold=gold
        )
    return Export(pl.DataFrame(columns), table.where, None if gold is None else known_labels(columns["item"], gold))


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
    distinct = {role: first_of_runs(tidy(export.votes[role]))[0].unique() for role in _MARKS}
    if request.fold_case or request.spelling is not None or any(is_odd(names, role) for role, names in distinct.items()):
        from crowdwise.io.names import settled

        export = settled(export, request, missing)
        distinct = {role: first_of_runs(tidy(export.votes[role]))[0].unique() for role in _MARKS}
    if request.repeats != "all":
        from crowdwise.io.repeats import without_repeats

        export = without_repeats(export, request.repeats, missing)
    votes, gold, named = export.votes, export.gold, classes
    extra = [part for part in (export.items, None if gold is None else gold["item"]) if part is not None and len(part)]
    items = _union([distinct["item"], *extra], ()) if extra else distinct["item"].drop_nulls().sort()
    if gold is not None and len(gold) and classes is None:
        from crowdwise.io.names import check_gold, known_gold

        gold = known_gold(distinct["label"], gold, export.where.source)
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
    if gold is not None and len(gold) and named is None:
        # Of classes that are given nothing is said, and these are found.
        warn_of_missing_words(built.classes, built.label, np.arange(built.n_votes), Where(export.where.source))
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


# -- which columns are what -------------------------------------------------------------------


def _taken(source: Source, request: Request) -> dict[str, str]:
    """Which column plays which role."""
    known = pl.DataFrame(schema=dict.fromkeys(source.names, pl.String))
    where, given = Places(source.name), _given(source, request)
    if all(_is_lost(known, role, name) for role, name in given.items() if role != "item"):
        from crowdwise.io.lost_columns import no_votes

        raise InputError(no_votes(known.columns, source, request))
    found = {role: _column(source, role, name, request) for role, name in given.items() if role != "item"}
    wanted = {"item": _item(source, request, found)} | found
    if len(set(wanted.values())) < 3:
        raise InputError(
            f"{source.name}: item, annotator and label must be three different columns, got {list(wanted.values())}"
        )
    if request.weight is not None:
        wanted["weight"] = find_column(known, "weight", request.weight, where)
    if "gold" in known.columns and "gold" not in wanted.values():
        wanted["gold"] = "gold"
    return wanted


def _given(source: Source, request: Request) -> dict[str, str | None]:
    """The columns that the user names; a question may be a column, or a value in one."""
    question = request.question if request.question in source.names else None
    return {"item": request.item, "annotator": request.annotator, "label": request.label or question}


def _rows(source: Source, wanted: Mapping[str, str], request: Request) -> Table:
    """The rows of the wanted columns; of several questions, those of the one that is asked for."""
    needed = list(dict.fromkeys(wanted.values()))
    told = request.question is not None and request.question not in source.names and not _asks_field(source, wanted, request)
    # Text has been read as a whole; of binary columns and records only those with a telling name are fetched.
    rest = [name for name in source.names if name not in needed]
    if not rest:
        table = source.table(needed, wanted["label"])
        if told:
            find_column(table.frame, "label", request.question, Places(source.name))
        return table
    from crowdwise.io.beside import of_question, question_names, refuse_questions, refuse_row_shares

    rest = rest if source.kind == "delimited" or told else question_names(rest)
    table = source.table([*needed, *rest], wanted["label"])
    if told:
        found = of_question(table, wanted, str(request.question), needed)
        if found is None:
            find_column(table.frame, "label", request.question, Places(source.name))
            raise InputError(f"{source.name}: no question {request.question!r}")
        return found
    # What was called a long table is one, whatever stands beside its votes.
    if request.format is None and request.label is None and request.repeats == "all":
        refuse_questions(table.frame, wanted, source.name, request)
    if request.format is None and request.weight is None and request.repeats == "all":
        refuse_row_shares(table.frame, wanted, source.name, request)
    return Table(table.frame.select(needed), table.where)


def _asks_field(source: Source, wanted: Mapping[str, str], request: Request) -> bool:
    """Whether the question is a field of answers that are objects."""
    from crowdwise.io.object_cells import holds_field

    return holds_field(source.table([wanted["label"]], wanted["label"]).frame[wanted["label"]], str(request.question))


def item_column(source: Source, request: Request) -> str:
    """The column that is taken as the item."""
    return _taken(source, request)["item"]


def _item(source: Source, request: Request, taken: Mapping[str, str]) -> str:
    """The item's column: given, of a usual name, or the only one with a word for items whose values recur as items do."""
    names = source.names
    if request.item is None and not any(_plain(name) in ALIASES["item"] for name in names):
        from crowdwise.io.roles import by_words, named_items, recurs

        named = [name for name in named_items(names) if name not in taken.values()]
        found = [name for name in named if recurs(source.table([name, taken["annotator"]]).frame)]
        found = [name for name in found if name.lower() == "id"] or found
        if len(found) == 1 and (by_words(found, "item") or found[0].lower() == "id"):
            return found[0]
    return _column(source, "item", request.item, request, taken)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def _is_lost(known: pl.DataFrame, role: str, given: str | None) -> bool:
    """Whether no column is named or found for the role."""
    if given is not None or not {_plain(name) for name in known.columns}.isdisjoint(ALIASES[role]):
        return False
    from crowdwise.io.roles import by_words

    # A column of items is taken by what is in it, where several have a word for them.
    found = by_words(known.columns, role)
    return not found if role == "item" else len(found) != 1


def _column(source: Source, role: str, given: str | None, request: Request, taken: Mapping[str, str] | None = None) -> str:
    """The column of a role: as `find_column` finds it, or the only one whose name has a word of the role in it."""
    known = pl.DataFrame(schema=dict.fromkeys(source.names, pl.String))
    try:
        return find_column(known, role, given, Places(source.name))
    except InputError as problem:
        from crowdwise.io.lost_columns import column_by_words

        wanted = _given(source, request)
        lost = [other for other, name in wanted.items() if _is_lost(known, other, name)]
        return column_by_words(source, role, wanted, request, taken or {}, lost, str(problem))


def _doubt(columns: Mapping[str, pl.Series], taken: Mapping[str, str], source: Source, request: Request) -> None:
    """Look closer at labels where there are many, or percents in the first of them."""
    label = columns["label"]
    if label.dtype.is_nested() or label.dtype == pl.Object:
        return
    n = label.n_unique()
    if n > 9:
        from crowdwise.io.measures import doubt_texts

        doubt_texts(columns, taken, source, request)
    if n > 20 or (label.dtype == pl.String and bool(label.drop_nulls().head(100).str.contains("%").any())):
        from crowdwise.io.measures import doubt_labels

        doubt_labels(label, taken, source.name, request)


def _may_hold(column: pl.Series, pattern: str) -> bool:
    """Whether cells are lists or objects, or one of the first texts looks like it."""
    if column.dtype.is_nested() or column.dtype == pl.Object:
        return True
    return column.dtype == pl.String and bool(column.drop_nulls().head(1000).str.contains(pattern).any())


def _roles_note(source: Source, taken: dict[str, str], request: Request) -> list[str]:
    """Which columns were taken as what, unless the user or the very names say so; and what beside them may matter."""
    given = _given(source, request)
    guessed = [role for role, name in given.items() if name is None and taken[role] != role]
    rest = [name for name in source.names if name not in taken.values()]
    if not rest and not guessed:
        return []
    from crowdwise.io.beside import may_matter

    matter = may_matter(rest, lambda name: source.table([name]).frame[name])
    told = f"{source.name}: other columns that may matter: {', '.join(matter)}"
    if not guessed:
        return [told] if matter else []
    others = f"; other columns: {listed(map(repr, rest), 8)}" if rest else ""
    roles = ", ".join(f"{role} = {taken[role]!r}" for role in taken)
    # Bare names are in the list already.
    said = [part for part in matter if "(" in part]
    more = f"; of these may matter: {', '.join(said)}" if said else ""
    return [f"{source.name}: {roles}{others}{more} (--{', --'.join(guessed)} choose{'s' * (len(guessed) == 1)} otherwise)"]
