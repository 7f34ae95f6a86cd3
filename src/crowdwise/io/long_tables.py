"""Tables with a row per vote, in delimited text, JSON, Parquet or Arrow: which columns are what, and what is beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from crowdwise.data.encode import ALIASES, find_column
from crowdwise.errors import InputError, listed
from crowdwise.io.exports import Export, Request
from crowdwise.io.source import Places, Source, Table
from crowdwise.io.votes import column_names, known_labels, read_columns, tabular

__all__ = ["item_column", "read_tidy"]


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
    if any(_holds_lists(columns[role]) for role in ("annotator", "label")):
        from crowdwise.io.lists import exploded

        columns, table = exploded(columns, table, request)
    if _may_measure(columns["label"]):
        from crowdwise.io.measures import doubt_labels

        doubt_labels(columns["label"], wanted, source.name, request)
    gold = columns.pop("gold", None)
    if source.kind == "delimited":
        return tabular(
            table, *(columns[role] for role in ("item", "annotator", "label")), weight=columns.get("weight"), gold=gold
        )
    return Export(pl.DataFrame(columns), table.where, None if gold is None else known_labels(columns["item"], gold))


def _taken(source: Source, request: Request) -> dict[str, str]:
    """Which column plays which role."""
    known = pl.DataFrame(schema=dict.fromkeys(column_names(source), pl.String))
    where, given = Places(source.name), _given(source, request)
    if all(_is_lost(known, role, name) for role, name in given.items() if role != "item"):
        from crowdwise.io.roles import no_votes

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
    question = request.question if request.question in column_names(source) else None
    return {"item": request.item, "annotator": request.annotator, "label": request.label or question}


def _rows(source: Source, wanted: Mapping[str, str], request: Request) -> Table:
    """The rows of the wanted columns; of several questions, those of the one that is asked for."""
    needed = list(dict.fromkeys(wanted.values()))
    told = request.question is not None and request.question not in column_names(source)
    # Text has been read as a whole; of binary columns and records only those with a telling name are fetched.
    rest = [name for name in column_names(source) if name not in needed]
    if not rest:
        table = read_columns(source, needed)
        if told:
            find_column(table.frame, "label", request.question, Places(source.name))
        return table
    from crowdwise.io.beside import of_question, question_names, refuse_questions

    rest = rest if source.kind == "delimited" or told else question_names(rest)
    table = read_columns(source, [*needed, *rest])
    if told:
        found = of_question(table, wanted, str(request.question), needed)
        if found is None:
            find_column(table.frame, "label", request.question, Places(source.name))
            raise InputError(f"{source.name}: no question {request.question!r}")
        return found
    # What was called a long table is one, whatever stands beside its votes.
    if request.format is None and request.label is None and request.repeats == "all":
        refuse_questions(table.frame, wanted, source.name, request)
    return Table(table.frame.select(needed), table.where)


def item_column(source: Source, request: Request) -> str:
    """The column that is taken as the item."""
    return _taken(source, request)["item"]


def _item(source: Source, request: Request, taken: Mapping[str, str]) -> str:
    """The item's column: given, of a usual name, or the only one with a word for items whose values recur as items do."""
    names = column_names(source)
    if request.item is None and not any(_plain(name) in ALIASES["item"] for name in names):
        from crowdwise.io.roles import by_words, named_items, recurs

        named = [name for name in named_items(names) if name not in taken.values()]
        found = [name for name in named if recurs(read_columns(source, [name, taken["annotator"]]).frame)]
        if len(found) == 1 and by_words(found, "item"):
            return found[0]
    return _column(source, "item", request.item, request, taken)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def _is_lost(known: pl.DataFrame, role: str, given: str | None) -> bool:
    """Whether no column is named or found for the role."""
    if given is not None or not {_plain(name) for name in known.columns}.isdisjoint(ALIASES[role]):
        return False
    from crowdwise.io.roles import by_words

    return len(by_words(known.columns, role)) != 1


def _column(source: Source, role: str, given: str | None, request: Request, taken: Mapping[str, str] | None = None) -> str:
    """The column of a role: as `find_column` finds it, or the only one whose name has a word of the role in it."""
    known = pl.DataFrame(schema=dict.fromkeys(column_names(source), pl.String))
    try:
        return find_column(known, role, given, Places(source.name))
    except InputError as problem:
        from crowdwise.io.roles import battle_shape, by_words, suggested, transposed

        found = [] if given is not None or role == "item" else by_words(known.columns, role)
        if len(found) == 1:
            return found[0]
        if given is None:
            _refuse_other_shapes(source, role, request)
        others = {name: value for name, value in _given(source, request).items() if name != "item"}
        # A command that fails on the next column is no help.
        lost = any(_is_lost(known, other, name) for other, name in others.items() if other != role)
        lost = lost and battle_shape(known.columns) is None
        advice = "" if lost or given is not None else suggested(source, role, request, taken or {})
        no_item = request.item is None and not any(_plain(name) in ALIASES["item"] for name in known.columns)
        across = transposed(known.columns, source.name, request) if role != "annotator" and given is None and no_item else ""
        nobody = _nobody(source, request) if role == "annotator" and given is None and not advice else ""
        raise InputError(f"{problem}{advice}{across}{nobody}") from None


def _nobody(source: Source, request: Request) -> str:
    """The command for a table that does not say who voted."""
    if source.kind not in ("delimited", "parquet", "arrow"):
        return ""
    from crowdwise.io.counts import rows_of_labels

    found = rows_of_labels(source, request)
    way = replace(request, format="counts").command(source.name)
    return "" if found is None else f"; if nobody knows who voted: {way}"


def _refuse_other_shapes(source: Source, role: str, request: Request) -> None:
    """Refuse a table without a column of labels whose rows are probabilities, with the command that reads them."""
    if role == "label" and source.kind in ("delimited", "parquet", "arrow") and request.label is None:
        from crowdwise.io.tallies import refuse_shares, share_columns

        shares = share_columns(source.table(source.columns).frame)
        if shares:
            refuse_shares(shares, source.name, replace(request, question=None), people=True)


def _may_measure(label: pl.Series) -> bool:
    """Whether labels ask for a closer look: there are many, or percents in the first of them."""
    if label.dtype.is_nested() or label.dtype == pl.Object:
        return False
    return label.n_unique() > 20 or (label.dtype == pl.String and bool(label.drop_nulls().head(100).str.contains("%").any()))


def _holds_lists(column: pl.Series) -> bool:
    """Whether cells are lists, or text that begins like one."""
    if column.dtype.is_nested() or column.dtype == pl.Object:
        return True
    return column.dtype == pl.String and bool(column.drop_nulls().head(100).str.starts_with("[").any())


def _roles_note(source: Source, taken: dict[str, str], request: Request) -> list[str]:
    """Which columns were taken as what, unless the user or the very names say so; and what beside them may matter."""
    given = _given(source, request)
    guessed = [role for role, name in given.items() if name is None and taken[role] != role]
    rest = [name for name in column_names(source) if name not in taken.values()]
    if not rest and not guessed:
        return []
    from crowdwise.io.beside import may_matter

    matter = may_matter(rest, lambda name: read_columns(source, [name]).frame[name])
    told = f"{source.name}: other columns that may matter: {', '.join(matter)}"
    if not guessed:
        return [told] if matter else []
    others = f"; other columns: {listed(map(repr, rest), 8)}" if rest else ""
    roles = ", ".join(f"{role} = {taken[role]!r}" for role in taken)
    # Bare names are in the list already.
    said = [part for part in matter if "(" in part]
    more = f"; of these may matter: {', '.join(said)}" if said else ""
    return [f"{source.name}: {roles}{others}{more} (--{', --'.join(guessed)} choose otherwise)"]
