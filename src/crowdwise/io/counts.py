"""Counts of votes per class and item, in columns or in a mapping per record: votes of which nobody knows who gave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import integers
from crowdwise.errors import InputError, listed
from crowdwise.io.exports import Export, Request, column
from crowdwise.io.roles import by_alias, by_id, by_words, find_gold, find_item, naming_column, never_votes, words_of
from crowdwise.io.source import Places, Source, Table
from crowdwise.io.tallies import check_total, numbers_of, refuse_mapped_labels, repeats_itself, share_columns, shares_as_counts

__all__ = ["anonymous", "count_columns", "counted_keys", "read_counts", "rows_of_labels"]

_ANNOTATORS = {"annotator", "annotators", "worker", "workers", "rater", "raters", "coder", "coders"}
# So many votes on one item are no count of people.
_MOST = 1_000_000
# Sums of neighbours are tried for so many columns.
_MOST_CLASSES = 100
# Counts of votes on so many items are not all different.
_MANY_ROWS = 20
_TIMES = {"count", "counts", "n", "num", "number", "of", "votes", "frequency", "freq", "times"}
_TOTAL = {"count", "counts", "total", "n", "num", "number", "of", "vote", "votes", "sum", "annotations", "annotators", "labels"}
_TOTAL |= {"classifications", "judgments", "judgements", "responses", "ratings", "answers"}


def read_counts(source: Source, request: Request) -> Export:
    """Read a table with a column of counts per class, or records with a mapping from class to count."""
    flat = source.kind in ("json", "jsonl") and not any(isinstance(value, dict | list) for value in source.first.values())
    if source.kind in ("json", "jsonl") and (not flat or isinstance(source.document if source.kind == "json" else None, dict)):
        return _read_mappings(source, request)
    table = source.table(source.names)
    item = find_item(table.frame, request, source.name)
    chosen = count_columns(table.frame, request, item, source.name)
    guessed = not chosen
    if guessed:
        item = item or _numbering(table.frame)
        chosen = count_columns(table.frame, request, item, source.name, told=True)
    if not chosen and rows_of_labels(source, request) is not None:
        return _read_rows(source, request)
    chosen = chosen or share_columns(table.frame)
    item = item or naming_column(table.frame, [name for name in source.names if name not in chosen])
    chosen = [name for name in chosen if name != item]
    if not chosen:
        raise InputError(
            f"{source.name}: no columns of counts found among {listed(map(repr, source.names))}; name them: "
            "--annotator-columns 'count_*' (annotators=...), and what is none with --not"
        )
    counts, shares = _counts(table, chosen)
    if item is not None:
        check_total(table, item, chosen, counts=True)
    rows, codes = np.nonzero(counts)
    times = counts[rows, codes]
    ids = integers(table.frame[item]) if item is not None else pl.Series(np.arange(1, table.frame.height + 1))
    counted = {item, *chosen}
    gold = find_gold([name for name in source.names if name not in counted])
    known = None if gold is None else pl.DataFrame({"item": ids, "label": table.frame[gold]}).drop_nulls()
    labels = integers(pl.Series(chosen))
    rest = [repr(name) for name in source.names if name not in counted]
    ids_are = "the number of the row" if item is None else repr(item)
    left = f"; not counted: {listed(rest, 8)}" if rest else ""
    how = shares or (", all columns of whole numbers" if guessed else "")
    request.notes.append(
        f"{source.name}: counts of anonymous votes per class in {listed(map(repr, chosen), 8)}{how}; item = {ids_are}{left} "
        "(--annotator-columns, --not, --item choose otherwise)"
    )
    where = Places(source.name, rows=_numbers(table)[rows])
    return anonymous(ids.gather(rows), labels.gather(codes), times, where, known, ids)


def rows_of_labels(source: Source, request: Request) -> tuple[str, str, str | None] | None:
    """The columns of item, label and perhaps count, where rows hold a label and say not who gave it; else None."""
    names = source.columns
    label = request.label or next(iter([*by_alias(names, "label"), *by_words(names, "label")]), None)
    times = [name for name in names if name != label and _TIMES.issuperset(words_of(name)) and words_of(name)]
    item = request.item or next(iter([*by_alias(names, "item"), *by_words(names, "item"), *by_id(names)]), None)
    if item is None or label is None or item == label or request.annotators is not None:
        return None
    return item, label, times[0] if len(times) == 1 else None


def _read_rows(source: Source, request: Request) -> Export:
    """Read a row per label, or per label with the number of its votes, of unknown people."""
    item, label, times = rows_of_labels(source, request) or ("", "", None)
    table = source.table(source.columns)
    given = table.frame[label].is_not_null().to_numpy()
    counts = _whole(table.frame[times], times, table.where) if times is not None else np.ones(table.frame.height, np.int64)
    rest = [repr(name) for name in source.columns if name not in (item, label, times)]
    left = f"; other columns: {listed(rest, 8)}" if rest else ""
    ids, labels = integers(table.frame[item]), table.frame[label]
    mark = _joining(labels) if times is None and ids.n_unique() == table.frame.height else None
    row = "label and item" if times else "vote" if mark is None else f"item, with {mark!r} between votes"
    request.notes.append(
        f"{source.name}: votes of unknown people, a row per {row}: item = {item!r}, label = "
        f"{label!r}{f', votes = {times!r}' if times else ''}{left} (--item, --label choose otherwise)"
    )
    where = Places(source.name, rows=_numbers(table))
    if mark is not None:
        parts = [[part.strip() for part in (cell or "").split(mark) if part.strip()] for cell in labels]
        rows = np.repeat(np.arange(len(parts)), [len(cell) for cell in parts])
        where = Places(source.name, rows=where.rows[rows])  # type: ignore[index]
        each = integers(pl.Series([part for cell in parts for part in cell], dtype=pl.String))
        return anonymous(ids.gather(rows), each, np.ones(len(rows), np.int64), where, None, ids)
    labels = integers(labels)
    return anonymous(ids, labels, np.where(given, counts, 0), where, None, ids)


def _joining(labels: pl.Series) -> str | None:
    """What stands between several votes in a cell, where a label recurs in one: ticks of one person are different."""
    cells = labels.drop_nulls().to_list() if labels.dtype == pl.String else []
    return next(
        (mark for mark in "|;," if any(repeats_itself([part.strip() for part in cell.split(mark)]) for cell in cells)), None
    )


def _counts(table: Table, chosen: list[str]) -> tuple[Any, str]:
    """The counts of every row and column, and what to say where they were shares."""
    found = shares_as_counts(numbers_of(table.frame, chosen))
    if found is None:
        return np.stack([_whole(table.frame[name], name, table.where) for name in chosen], axis=1), ""
    return found[0], f" (shares, taken as those of {found[1]} votes each, the fewest that give them)"


def count_columns(frame: pl.DataFrame, request: Request, item: str | None, source: str, told: bool = False) -> list[str]:
    """The columns of counts: those named, or whole numbers that add up to a total, or to the same in every row.

    Where the user has told that there are such columns, all whole numbers that are not named otherwise.
    """
    if request.annotators is not None or request.exclude is not None:
        from crowdwise.io.wide import chosen_columns

        return chosen_columns(frame.columns, request, item, "")
    totals: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    for name in frame.columns:
        if name == item or frame[name].dtype.is_nested():
            continue
        values = frame[name].cast(pl.Float64, strict=False)
        if values.null_count() or not values.is_between(0, _MOST).all() or not (values == values.floor()).all():
            continue
        (totals if _TOTAL.issuperset(words_of(name)) else parts)[name] = values.to_numpy()
    # n_cat, n_dog: one such column may be anything, several are a series.
    series = [name for name in parts if words_of(name)[:1] == ["n"] and not never_votes(" ".join(words_of(name)[1:]))]
    series = series if len(series) > 1 else []
    named = {
        name: values for name, values in parts.items() if name in series or not never_votes(name) or "count" in words_of(name)
    }
    adding = {name: _adding_up(parts, total) for name, total in totals.items() if total.max() > 1}
    several = {tuple(found): name for name, found in adding.items() if found}
    if len(several) > 1 and not told:
        _refuse_several(several, source, request)
    if several:
        return list(next(iter(several)))
    # What is the same in every row adds up to the same: a year, a version.
    if sum(values.min() < values.max() for values in named.values()) > 1 and frame.height > 2:
        total = np.sum(list(named.values()), axis=0)
        if (total == total[0]).all() and total[0] > 1 and max(values.max() for values in named.values()) > 1:
            return list(named)
    return list(named) if told and len(named) > 1 else []


def _refuse_several(several: Mapping[tuple[str, ...], str], source: str, request: Request) -> None:
    """Refuse columns of counts that add up to several totals: each question has as many votes as it was asked."""
    said = [f"{listed(map(repr, found), 4)} add up to {total!r}" for found, total in several.items()]
    fewest = min(several, key=len)
    raise InputError(
        f"{source}: columns of counts that may answer several questions: {'; '.join(said)}. Name the classes of one, "
        f"for example: {replace(request, format='counts', annotators=','.join(fewest)).command(source)}"
    )


def _numbering(frame: pl.DataFrame) -> str | None:
    """The column of whole numbers that names the rows: with a word for items, or the first, where counts are hardly like it."""
    for name in dict.fromkeys([*by_words(frame.columns, "item"), *frame.columns[:1]]):
        values = None if frame[name].dtype.is_nested() else frame[name].cast(pl.Int64, strict=False)
        if values is None or values.null_count() or values.n_unique() < frame.height or frame.width < 3:
            continue
        if by_words([name], "item") or values.is_sorted() or frame.height >= _MANY_ROWS:
            return name
    return None


def _adding_up(parts: dict[str, Any], total: Any) -> list[str]:
    """Neighbouring columns whose sum is the total in every row."""
    names = list(parts)[:_MOST_CLASSES]
    for start in range(len(names)):
        for stop in range(len(names), start + 1, -1):
            if (np.sum([parts[name] for name in names[start:stop]], axis=0) == total).all():
                return names[start:stop]
    return []


def _whole(values: pl.Series, name: str, where: Places) -> Any:
    numbers = values.cast(pl.Float64, strict=False).to_numpy()
    empty = values.is_null().to_numpy()
    bad = ~empty & ~((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers <= _MOST))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"{where.row(row)}: {values[row]!r} in column {name!r} is no count of votes; leave it out with --not")
    return np.where(empty, 0, numbers).astype(np.int64)


def counts_mapping(record: dict[str, Any]) -> list[str]:
    """Keys of a record whose values map classes to counts, or else list what annotators said who are not named."""
    mapped = [
        key
        for key, value in record.items()
        if isinstance(value, dict) and value and all(type(n) is int and 0 <= n <= _MOST for n in value.values())
    ]
    return mapped or [
        key
        for key, value in record.items()
        if isinstance(value, list)
        and by_words([key], "label")
        and _are_labels(value)
        # Ticks of one person are different; of several people somebody says what another said.
        and (_ANNOTATORS.intersection(words_of(key)) or repeats_itself(value))
    ]


def counted_keys(source: Source) -> list[str]:
    """The same of the first records of a file: a list in which no label recurs may be followed by one in which one does."""
    first = counts_mapping(source.first)
    return first or [key for _, record in source.records[:50] for key in counts_mapping(record) if key in source.first][:1]


def _are_labels(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(part, str | int) for part in value)


def _read_mappings(source: Source, request: Request) -> Export:
    if source.kind == "json" and isinstance(source.document, dict):
        return _read_by_key(source, request)
    found = [key for key in counted_keys(source) if all(key in record for _, record in source.records)]
    wanted = request.label or request.question
    if wanted is not None:
        found = [wanted]
    if len(found) != 1:
        names = ", ".join(map(repr, found)) or "none"
        raise InputError(
            f"{source.name}: expected one mapping of classes to counts per record, found {names}; name it with --label"
        )
    ids = pl.DataFrame(
        {key: column([r.get(key) for _, r in source.records], Places(source.name)) for key in _plain_keys(source)}
    )
    item = find_item(ids, request, source.name)
    item = item or naming_column(ids, ids.columns)
    items = ids[item] if item is not None else pl.Series(np.arange(1, len(source.records) + 1))
    if request.format is None:
        refuse_mapped_labels([record.get(found[0]) for _, record in source.records], found[0], source.name, request)
    ids_are = "the number of the record" if item is None else repr(item)
    request.notes.append(f"{source.name}: counts of anonymous votes per class in {found[0]!r}; item = {ids_are}")
    places = [(row, f"{found[0]!r}", record.get(found[0])) for row, record in source.records]
    return _of_mappings(source, items, places)


def _read_by_key(source: Source, request: Request) -> Export:
    """Read an object whose keys are items: mappings from class to count, or lists of what unknown annotators said."""
    request.notes.append(f"{source.name}: anonymous votes on items, which are the keys")
    places = [(row, f"the entry {key!r:.60}", entry) for row, (key, entry) in enumerate(source.document.items(), start=1)]
    return _of_mappings(source, integers(pl.Series(list(source.document), dtype=pl.String)), places)


def _of_mappings(source: Source, items: pl.Series, entries: list[tuple[int, str, Any]]) -> Export:
    """Anonymous votes of one mapping, or list of labels, per item; entries are a row, what to call it, and what it holds."""
    rows: list[int] = []
    labels: list[str] = []
    times: list[int] = []
    for index, (row, name, mapping) in enumerate(entries):
        if isinstance(mapping, list) and (not mapping or _are_labels(mapping)):
            mapping = Counter(str(part) for part in mapping if part != "")
        if not isinstance(mapping, dict) or any(type(n) is not int or not 0 <= n <= _MOST for n in mapping.values()):
            raise InputError(f"{source.name} {source.unit} {row}: {name} is no mapping of classes to counts: {mapping!r:.60}")
        rows += [index] * len(mapping)
        labels += list(mapping)
        times += list(mapping.values())
    where = Places(source.name, rows=np.array([row for row, *_ in entries], np.int64)[rows], unit=source.unit)
    return anonymous(items.gather(rows), integers(column(labels, where)), np.array(times), where, None, items)


def _plain_keys(source: Source) -> list[str]:
    return [key for key, value in source.first.items() if isinstance(value, str | int) and not isinstance(value, bool)]


def anonymous(
    item: pl.Series, label: pl.Series, times: Any, where: Places, gold: pl.DataFrame | None, items: pl.Series
) -> Export:
    """An export with `times` votes for each item and label, and an annotator of its own for every vote."""
    repeat = np.repeat(np.arange(len(item)), np.asarray(times, np.int64))
    votes = pl.DataFrame(
        {"item": item.gather(repeat), "annotator": np.arange(1, len(repeat) + 1), "label": label.gather(repeat)}
    )
    numbers = np.arange(len(item)) + where.first_row if where.rows is None else where.rows
    place = Places(where.source, rows=numbers[repeat], unit=where.unit)
    return Export(votes, place, gold, items=items.unique(maintain_order=True), anonymous=True)


def _numbers(table: Table) -> Any:
    where = table.where
    return np.arange(table.frame.height) + where.first_row if where.rows is None else where.rows
