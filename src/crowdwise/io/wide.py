"""Matrices of items x annotators: wide tables with names, tables with a row per person, and bare `answers.txt` files."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import polars as pl

from crowdwise.data.encode import INTEGER, integers, missing_mask
from crowdwise.errors import InputError, listed
from crowdwise.io.asked_columns import refuse_asked
from crowdwise.io.exports import Export, Request
from crowdwise.io.measures import doubt_labels
from crowdwise.io.roles import by_alias, by_id, by_words, find_gold, find_item, words_of
from crowdwise.io.second_header import below_second_header
from crowdwise.io.source import Places, Source, Table
from crowdwise.io.tallies import check_total
from crowdwise.io.voting_columns import check_one_set, chosen_columns, is_numbered, numbered_alike, voting_columns

__all__ = ["chosen_columns", "looks_wide", "read_answers", "read_wide"]


_OTHERS = {"expert", "model", "prediction", "predicted", "chatgpt", "gpt", "llm", "ai", "machine", "classifier", "baseline"}
_OTHERS |= {"reference", "auto", "automatic", "system", "claude", "gemini", "llama", "mistral", "adjudicator", "supervisor"}


_KINDS = ("delimited", "parquet", "arrow", "json", "jsonl")
# Item, annotator, label, and perhaps known labels.
_ROW_OF_A_VOTE = (3, 4)


def looks_wide(source: Source, request: Request) -> list[str]:
    """The columns of annotators of a wide table: several that share one set of labels, beside ids of rows; else none."""
    if source.kind not in _KINDS:
        return []
    names = source.names
    if len(names) < 3:
        return list(names) if len(names) == 2 and all(map(is_numbered, names)) else []
    frame = source.table(names).frame
    if is_form(names):
        return voting_columns(frame, list(names), series=numbered_alike(names))
    item = find_item(frame, request, source.name) or names[0]
    found = voting_columns(frame, [name for name in names if name != item])
    cells = frame[item]
    if cells.null_count() or (cells.n_unique() < frame.height and not by_alias([item], "item")):
        return []
    return [] if _is_one_hot(frame, found) else found


def _is_one_hot(frame: pl.DataFrame, names: list[str]) -> bool:
    """Whether columns are the classes of one label each, 0 or 1, and not annotators."""
    if not names or frame.height < 3 or any(not set(frame[name].cast(pl.String)) <= {"0", "1"} for name in names):
        return False
    return bool((frame.select(pl.sum_horizontal(pl.col(names).cast(pl.Int64))).to_series() == 1).all())


def is_form(names: list[str]) -> bool:
    """Whether the columns begin with a time, as answers to a form do: a row per person, a column per question."""
    return bool({"timestamp", "zeitstempel", "horodateur"} & {word for name in names[:1] for word in words_of(name)})


def read_wide(source: Source, request: Request) -> Export:
    """Read a table with a row per item and a column per annotator; empty cells are absent votes.

    Where no cell is empty and the other labels are two or more integers from 0 up, -1 means absent
    (Snorkel, CrowdLayer). Votes of 1 and -1 stay what they are. Transposed, rows are annotators and columns items.
    """
    if source.kind not in _KINDS or (source.kind == "json" and not isinstance(source.document, list)):
        raise InputError(f"{source.name}: a wide table is CSV, TSV, Parquet, Arrow or flat records of JSON, not {source.kind}")
    table = source.table(source.names)
    across = request.transposed or (is_form(source.names) and request.annotators is None)
    if across:
        table = below_second_header(table, request)
    ids = _ids(table, source, request, across)
    chosen = chosen_columns(source.names, request, ids, source.name) if _is_told(request) else []
    if chosen and request.annotators is None:
        # Of what is not left out, only columns with labels vote.
        chosen = voting_columns(table.frame, chosen, strict=False)
    if not chosen:
        check_one_set(table.frame, [name for name in source.names if name != ids], source.name, request)
        series = numbered_alike(source.names) if across else ()
        chosen = voting_columns(table.frame, [name for name in source.names if name != ids], strict=False, series=series)
        if not across:
            refuse_asked(table.frame, chosen, source.name, request)
    if not chosen:
        raise InputError(
            f"{source.name}: no columns that vote among {listed(map(repr, source.names))}; a wide table has a column for the "
            "item and one column per annotator: name them with --annotator-columns (annotators=...)"
        )
    if ids is not None:
        check_total(table, ids, chosen)
    rows = pl.Series(np.arange(1, table.frame.height + 1)) if ids is None else integers(table.frame[ids])
    label = pl.concat([table.frame[name].cast(pl.String) for name in chosen]).replace("", None)
    label = _absent_removed(label, source.name, request)
    present = np.flatnonzero(label.is_not_null().to_numpy())
    # Column after column: vote e stands in row e mod N of column e div N.
    c, n = np.divmod(present, table.frame.height)
    names, labels = integers(pl.Series(chosen)), integers(label[present])
    item, annotator = (names[c], rows[n]) if across else (rows[n], names[c])
    gold = None if across else _gold(table.frame, source.names, chosen, ids, rows)
    _note(source, request, ids, chosen, across, gold is not None)
    doubt_labels(labels, {}, source.name, request)
    if not across:
        from crowdwise.io.computed_columns import warn_of_computed

        warn_of_computed(table.frame, chosen, source.name, request)
    where = Places(source.name, rows=n + table.where.first_row if table.where.rows is None else table.where.rows[n])
    votes = pl.DataFrame({"item": item, "annotator": annotator, "label": labels})
    if across and request.repeats != "all":
        from crowdwise.io.repeats import find_time, times_of

        time = request.time or find_time(source.names)
        votes = votes if time is None else votes.with_columns(times_of(table.frame[time], table.where)[n].alias("time"))
    everyone = None if across else names.sort()
    return Export(votes, where, gold, items=names if across else rows, annotators=everyone)


def _is_told(request: Request) -> bool:
    return request.annotators is not None or request.exclude is not None


def _ids(table: Table, source: Source, request: Request, across: bool) -> str | None:
    """The column that names the rows, of items or of annotators; None where their numbers do."""
    frame = table.frame
    if across:
        if request.annotator is not None or request.item is not None:
            named = request.annotator or request.item
            if named not in frame.columns:
                raise InputError(f"{source.name}: no column {named!r}; found {listed(map(repr, frame.columns))}")
            return named
        found = by_alias(frame.columns, "annotator") or by_words(frame.columns, "annotator")
        found = found or [name for name in frame.columns if {"email", "name"} & set(words_of(name))]
        # Where nobody had to say who they are, all are called alike.
        found = [name for name in found if frame[name].n_unique() > 1 or frame.height == 1]
        found = found or [name for name in by_id(frame.columns) if frame[name].n_unique() == frame.height]
        first = [name for name in frame.columns[:1] if frame[name].n_unique() == frame.height and not is_form([name])]
        return next(iter([*found, *(first if request.header and not found else [])]), None)
    item = find_item(frame, request, source.name)
    if item is None and request.header and (request.annotators is None or _first_is_id(frame, request)):
        item = frame.columns[0]
        if item in voting_columns(frame, frame.columns, strict=False) and frame[item].n_unique() < frame.height:
            # It votes as the others do, so that rows have no names.
            return None
    if item is None:
        return None
    people = by_alias([item], "annotator") or by_words([item], "annotator") or "email" in words_of(item)
    if people and request.item is None and request.annotators is None:
        by_row, by_column = (
            replace(request, transposed=True).command(source.name),
            replace(request, item=item).command(source.name),
        )
        raise InputError(
            f"{source.name}: {item!r} names the rows. If each is a person, and the other columns are items: {by_row}; if each "
            f"is an item, and the other columns are annotators: {by_column}"
        )
    repeated = frame[item].is_duplicated()
    if repeated.any():
        row = int(repeated.arg_true()[-1])
        raise InputError(f"{table.where.row(row)}: item {frame[item][row]!r} occurs twice; a wide table has one row per item")
    return item


def _first_is_id(frame: pl.DataFrame, request: Request) -> bool:
    first = frame.columns[0]
    return first not in chosen_columns(frame.columns, request, None, "") and frame[first].n_unique() == frame.height


def _absent_removed(label: pl.Series, source: str, request: Request) -> pl.Series:
    """Labels without -1 where it means no vote; refuse -1, 0 and 1, which may be three classes, unless the user says which."""
    n_minus = int((label == "-1").sum())
    if request.minus_one is False or label.null_count() or not n_minus:
        return label
    others = label.filter(label != "-1").unique()
    if len(others) < 2 or not others.str.contains(INTEGER).all() or others.str.starts_with("-").any():
        return label
    if request.minus_one is None and set(others) == {"0", "1"} and 2 * n_minus < len(label):
        ways = [request.command(source, option) for option in ("--missing=-1", "--classes=-1,0,1")]
        raise InputError(
            f"{source}: cells hold -1, 0 and 1, and -1 may be a class or no vote. If it is no vote: {ways[0]}; if it is a "
            f"class: {ways[1]}"
        )
    request.notes.append(
        f"{source}: -1 is taken for no vote, in {n_minus:,} of {len(label):,} cells (--classes names it as a class)"
    )
    return label.replace("-1", None)


def _gold(frame: pl.DataFrame, names: list[str], chosen: list[str], ids: str | None, rows: pl.Series) -> pl.DataFrame | None:
    taken = {ids, *chosen}
    name = find_gold([name for name in names if name not in taken])
    if name is None:
        return None
    label = integers(frame[name].cast(pl.String))
    return pl.DataFrame({"item": rows, "label": label}).filter(~missing_mask(label, ())).unique(maintain_order=True)


def _note(source: Source, request: Request, ids: str | None, chosen: list[str], across: bool, gold: bool) -> None:
    taken = {ids, *chosen}
    rest = [repr(name) for name in source.names if name not in taken]
    ids_are = "the number of the row" if ids is None else repr(ids)
    left = f"; not voting: {listed(rest, 8)}" + (" (gold is one of them)" if gold else "") if rest else ""
    # Experts and models are not in the crowd, as a rule; whoever made the table knows.
    others = [] if across or request.annotators is not None else [name for name in chosen if _OTHERS & set(words_of(name))]
    if others and len(others) < len(chosen):
        left += f"; {listed(map(repr, others), 4)} {'votes' if len(others) == 1 else 'vote'} like everybody"
        left += f" ({shlex.join(['--not', ','.join(others)])} leaves out)"
    request.notes.append(
        f"{source.name}: a {'row' if across else 'column'} per annotator; {'annotator' if across else 'item'} = {ids_are}, "
        f"{len(chosen):,} columns of {'items' if across else 'annotators'}: {listed(map(repr, chosen), 5)}{left} "
        "(--annotator-columns, --not, --item choose otherwise)"
    )


def read_answers(source: Source, request: Request) -> Export:
    """Read a whitespace matrix of labels with -1 where there is none; ids are positions from 0."""
    lines = [line.split() for line in source.data.decode().splitlines()]
    filled = [(row, cells) for row, cells in enumerate(lines, start=1) if cells]
    width = len(filled[0][1])
    for row, cells in filled:
        if len(cells) != width:
            raise InputError(f"{source.name} row {row}: {len(cells)} numbers where row {filled[0][0]} has {width}")
    flat = pl.Series([cell for _, cells in filled for cell in cells]).cast(pl.Float64, strict=False)
    if flat.null_count():
        bad = int(flat.is_null().arg_true()[0])
        row, cells = filled[bad // width]
        raise InputError(
            f"{source.name} row {row}: {cells[bad % width]!r} is not a number; answers files hold class numbers and -1"
        )
    matrix = flat.to_numpy().reshape(len(filled), width)
    if request.format is None and width in _ROW_OF_A_VOTE and (matrix >= 0).all():
        from crowdwise.io.headless import refuse_rows_of_votes

        refuse_rows_of_votes(source, request)
    n, a = np.nonzero((matrix != -1) & ~np.isnan(matrix))
    where = Places(source.name, rows=np.array([row for row, _ in filled], np.int64)[n])
    return Export(
        pl.DataFrame({"item": n, "annotator": a, "label": matrix[n, a]}),
        where,
        items=pl.Series(np.arange(len(filled))),
        annotators=pl.Series(np.arange(width)),
    )
