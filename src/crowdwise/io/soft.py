"""Votes that are distributions, from tables: a column per class, a column of lists or mappings, or how sure a label is.

    item,annotator,p_cat,p_dog        item,annotator,label                      item,annotator,label,sure
    a,gpt,0.8,0.2                     a,gpt,"{""cat"": 0.8, ""dog"": 0.2}"       a,gpt,cat,80%

A table with a row per class (item, annotator, label, probability) is read too. Numbers may be logarithms of probabilities, or
percents; see `Annotations.from_probabilities`.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.columns import plays_role
from crowdwise.data.encode import ALIASES, Where, decimal_points, find_column, integers, tidy
from crowdwise.errors import DataWarning, InputError, SettingError, did_you_mean, listed
from crowdwise.io.measures import SURE
from crowdwise.io.roles import by_words, find_item, naming_column
from crowdwise.io.source import Places, Source, Table
from crowdwise.io.tallies import is_distribution
from crowdwise.io.ticks import short_names
from crowdwise.io.votes import Request, column

__all__ = ["read_soft", "refuse_distributions", "warn_of_shares"]

Names = str | Sequence[str]
# The column of percentages that were cut from labels; no file can have it.
_PERCENT = "\0percent"


def read_soft(
    source: Source, request: Request, soft: Names | None, sure: str | None, classes: Sequence[Any] | None
) -> Annotations:
    """Read votes with a probability per class, or with how sure the annotator was of the label."""
    if soft is not None and sure is not None:
        raise SettingError("probabilities and sure are two ways to say how probable labels are; give one of them")
    if request.weight is not None:
        raise SettingError("a vote that is a distribution has no other weight; leave the weight out")
    if source.kind in ("folder", "matrix"):
        raise InputError(f"{source.name}: soft votes are read from a table with a row per vote")
    names = source.names
    known = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    ids = _ids(source, request, names)
    if sure is not None:
        label = find_column(known, "label", request.label or request.question, Where(source.name))
        sure = find_column(known, "weight", sure, Where(source.name))
        table = source.table(list(dict.fromkeys([*ids, label, sure])))
        if sure == label:
            table, sure = _cut(table, label), _PERCENT
        probability, found = _from_certainty(table, label, sure, classes)
    else:
        columns = _named(soft or (), names, source.name)
        table = _cells(source, [*ids, *columns])
        if len(columns) == 1 and len(ids) > 1 and _are_plain(table.frame[columns[0]]):
            label = find_column(known, "label", request.label or request.question, Where(source.name))
            if label == columns[0]:
                raise InputError(f"{source.name}: {label!r} holds one number per row, and nothing says of which class it is")
            return _from_rows(source.table([*ids, label, *columns]), classes)
        probability, found = (
            _from_columns(table, columns, classes)
            if len(columns) > 1
            else _from_cells(table, columns[0], classes, request.fold_case)
        )
    _note_logs(probability, source.name, request)
    item = integers(tidy(table.frame[ids[0]]))
    annotator = integers(tidy(table.frame[ids[1]])) if len(ids) > 1 else pl.Series(["model"] * len(item))
    return Annotations.from_probabilities(item, annotator, probability, classes=found, where=table.where)


def _note_logs(probability: NDArray[np.float64], name: str, request: Request) -> None:
    """Say that logarithms of the most probable answers were made to sum to one, where they do not by themselves."""
    given = probability[~np.isnan(probability).all(axis=1)]
    if not len(given) or np.nanmax(given) > 0 or np.nanmin(given) >= 0:
        return
    total = np.nansum(np.exp(given), axis=1)
    short = int((total < 0.98).sum())
    if short:
        request.notes.append(
            f"{name}: log-probabilities of {short:,} of {len(given):,} votes leave {1 - total[total < 0.98].mean():.0%} to "
            "answers that are no class, on average; they were scaled to sum to one"
        )


def _ids(source: Source, request: Request, names: list[str]) -> list[str]:
    """The columns of the item and of the annotator; of the item alone, where every row is another and nobody is named."""
    known = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    # Judges call an item by its id, which is an annotator's or a row's elsewhere.
    alone = "id" if "id" in names and not plays_role(names, "item") else None
    if request.annotator is None and not plays_role(names, "annotator") and not by_words(names, "annotator"):
        plain = [
            name
            for name in names
            if source.kind not in ("json", "jsonl") or not isinstance(source.first.get(name), list | dict)
        ]
        frame = source.table(plain).frame
        item = find_item(frame, request, source.name) or naming_column(frame, plain)
        if item is not None and frame[item].n_unique() == frame.height:
            request.notes.append(f"{source.name}: item = {item!r}; no annotator is named, so that all rows are one model's")
            return [item]
    people = request.annotator or next(iter(by_words(names, "annotator")), None) if not plays_role(names, "annotator") else None
    given = {"item": request.item or alone, "annotator": request.annotator or people}
    return [find_column(known, role, name, Where(source.name)) for role, name in given.items()]


def warn_of_shares(votes: Annotations, name: str, weight: str) -> None:
    """Warn where weights are the probabilities of distributions that are written a row per class."""
    one = np.concatenate([[0], np.flatnonzero((np.diff(votes.item) != 0) | (np.diff(votes.annotator) != 0)) + 1])
    total = np.add.reduceat(votes.weights, one) if votes.n_votes else np.zeros(0)
    if len(one) < 0.9 * votes.n_votes and (np.abs(total - 1) < 0.01).mean() > 0.95:
        warnings.warn(
            f"{name}: the weights of an annotator's rows on an item sum to one, as the probabilities of one vote do; shares of "
            f"votes tell methods much less than an uncertain vote. If they are probabilities, use --probabilities {weight}",
            DataWarning,
            stacklevel=4,
        )


def refuse_distributions(source: Source, request: Request) -> None:
    """Stop where labels are lists or mappings of probabilities: each would be a class of its own."""
    name = request.label or next((n for n in source.columns if n.lower() in ALIASES["label"]), None)
    if name is None or name not in source.columns:
        return
    if source.kind in ("json", "jsonl"):
        cells = [record.get(name) for _, record in source.records[:20]]
    else:
        cells = source.table([name]).frame[name].drop_nulls().head(20).to_list()
    found = [cell for cell in map(_parsed, cells) if cell is not None]
    if found and all(is_distribution(cell) for cell in found):
        how = "" if isinstance(found[0], dict) else " --classes A,B,..."
        raise InputError(
            f"{source.name}: labels such as {cells[0]!s:.60} are probabilities of the classes; "
            f"read them with probabilities={name!r} in Python, --probabilities {name}{how} on the command line"
        )


def _parsed(cell: Any) -> Any:
    """A list or mapping, or the text of one, as JSON or Python writes it; anything else is None."""
    if isinstance(cell, list | dict) or not isinstance(cell, str) or cell.strip()[:1] not in ("[", "{"):
        return cell if isinstance(cell, list | dict) else None
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(cell)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, SystemError):
            continue
        return value if isinstance(value, list | dict) else None
    return None


def _named(soft: Names, names: list[str], source: str) -> list[str]:
    """The columns that names and patterns such as p_* stand for, in the order of the file."""
    wanted = [part.strip() for part in soft.split(",")] if isinstance(soft, str) else list(soft)
    for name in wanted:
        if not any(name == known or fnmatchcase(known, name) for known in names):
            raise InputError(f"{source}: no column {name!r}; found {listed(map(repr, names))}{did_you_mean(name, names)}")
    return [known for known in names if any(known == name or fnmatchcase(known, name) for name in wanted)]


def _cells(source: Source, names: list[str]) -> Table:
    """These columns; of JSON, lists and mappings as they are."""
    if source.kind not in ("json", "jsonl"):
        return source.table(names)
    where = Places(source.name, rows=np.array([row for row, _ in source.records], np.int64), unit=source.unit)
    columns = {name: [record.get(name) for _, record in source.records] for name in names}
    series = [
        pl.Series(name, cells, dtype=pl.Object)
        if any(isinstance(cell, list | dict) for cell in cells)
        else column(cells, where).alias(name)
        for name, cells in columns.items()
    ]
    return Table(pl.DataFrame(series), where)


def _numbers(cells: pl.Series, where: Places) -> NDArray[np.float64]:
    """Numbers, NaN where a cell is empty; a text is an error that names its row."""
    text = decimal_points(cells.cast(pl.String).str.strip_chars())
    percent = text.str.ends_with("%").fill_null(False)
    found = text.str.strip_suffix("%").cast(pl.Float64, strict=False)
    wrong = (found.is_null() & text.is_not_null() & (text != "")).arg_true()
    if len(wrong):
        raise InputError(f"{where.row(int(wrong[0]))}: {cells[int(wrong[0])]!r} is no probability in column {cells.name!r}")
    values = found.fill_null(np.nan).to_numpy()
    return np.where(percent.to_numpy(), values / 100, values)


def _are_plain(cells: pl.Series) -> bool:
    """Whether cells are single numbers, so that a vote has a row per class."""
    if cells.dtype == pl.Object:
        return False
    found = cells.drop_nulls()
    numbers = decimal_points(found.cast(pl.String).str.strip_suffix("%")).cast(pl.Float64, strict=False)
    return found.dtype.is_numeric() or bool(numbers.is_not_null().all())


def _from_rows(table: Table, classes: Sequence[Any] | None) -> Annotations:
    """A row per item, annotator and class: the probability of that class."""
    item, annotator, label = (integers(tidy(table.frame.to_series(k))) for k in range(3))
    value = _numbers(table.frame.to_series(3), table.where)
    found = list(classes) if classes is not None else label.drop_nulls().unique().sort().to_list()
    place = pl.DataFrame({"item": item, "annotator": annotator})
    votes = place.unique(maintain_order=True).with_row_index("vote")
    vote = place.join(votes, on=["item", "annotator"], how="left", maintain_order="left", nulls_equal=True)["vote"].to_numpy()
    code = {name: k for k, name in enumerate(found)}
    unknown = next((row for row, name in enumerate(label.to_list()) if name not in code and name is not None), None)
    if unknown is not None:
        raise InputError(f"{table.where.row(unknown)}: label {label[unknown]!r} is not among the classes {listed(found)}")
    probability = np.full((votes.height, len(found)), np.nan)
    given = np.array([code.get(name, -1) for name in label.to_list()])
    kept = (given >= 0) & ~np.isnan(value)
    probability[vote[kept], given[kept]] = value[kept]
    first = np.full(votes.height, len(vote))
    np.minimum.at(first, vote, np.arange(len(vote)))
    rows = first + table.where.first_row if table.where.rows is None else table.where.rows[first]
    where = Places(table.where.source, rows=rows, unit=table.where.unit)
    return Annotations.from_probabilities(votes["item"], votes["annotator"], probability, classes=found, where=where)


def _from_columns(table: Table, columns: list[str], classes: Sequence[Any] | None) -> tuple[NDArray[np.float64], list[Any]]:
    """A column per class, called as the class or with a beginning that all share."""
    probability = np.column_stack([_numbers(table.frame[name], table.where) for name in columns])
    names = integers(pl.Series(short_names(columns))).to_list()
    if classes is None:
        return probability, names
    given = list(classes)
    if len(given) != len(columns):
        raise InputError(f"{table.where.source}: {len(columns)} columns of probabilities and {len(given)} classes")
    # By name where they have the names, else in the order of the columns.
    if set(map(str, given)) == set(map(str, names)):
        probability = probability[:, [list(map(str, names)).index(str(name)) for name in given]]
    return probability, given


def _from_cells(
    table: Table, name: str, classes: Sequence[Any] | None, fold_case: bool
) -> tuple[NDArray[np.float64], list[Any]]:
    """A column of lists, in the order of the classes, or of mappings from class to probability.

    Case is folded to that of the `classes`, for a model says "Yes" and "yes" alike; without them only if asked for.
    """
    cells = [_parsed(cell) for cell in table.frame[name].to_list()]
    texts = table.frame[name].to_list()
    for row, (cell, text) in enumerate(zip(cells, texts, strict=True)):
        if cell is None and text not in (None, ""):
            raise InputError(f"{table.where.row(row)}: {text!s:.60} is no list or mapping of probabilities")
    cells = [cell if not _is_top(cell) else {one["token"]: one["logprob"] for one in cell} for cell in cells]
    if any(isinstance(cell, dict) for cell in cells):
        names = {str(key).strip() for cell in cells if isinstance(cell, dict) for key in cell} if fold_case else set()
        spelling = _spelling([str(key) for key in classes or sorted(names)], first=fold_case)
        cells = [_stripped(cell, spelling) if isinstance(cell, dict) else cell for cell in cells]
        found = classes or sorted({str(key) for cell in cells if isinstance(cell, dict) for key in cell})
        # A class that is not named is none of the most probable: not a number, for 0 would be the logarithm of 1.
        rows = [
            [(cell or {}).get(str(key), np.nan) for key in found] if isinstance(cell, dict | None) else None for cell in cells
        ]
    else:
        size = max((len(cell) for cell in cells if cell), default=0)
        found = classes or range(size)
        rows = [cell if cell else [np.nan] * len(found) for cell in cells]
    for row, numbers in enumerate(rows):
        if numbers is None or len(numbers) != len(found) or any(type(n) not in (int, float) for n in numbers):
            raise InputError(f"{table.where.row(row)}: {texts[row]!s:.60} is no list of {len(found)} probabilities")
    return np.array(rows, np.float64), list(found)


def _is_top(cell: Any) -> bool:
    """Whether a cell lists the most probable tokens as interfaces of language models do: token and logprob."""
    return (
        isinstance(cell, list)
        and bool(cell)
        and all(isinstance(one, dict) and {"token", "logprob"} <= set(one) for one in cell)
    )


def _spelling(names: Sequence[str], first: bool) -> dict[str, str]:
    """How names are written, by their folded case; of several that differ in case alone the `first`, or each as it is."""
    found: dict[str, str] = {}
    for name in names:
        folded = name.casefold()
        found[folded] = name if folded not in found else found[folded] if first else ""
    return found


def _stripped(cell: dict[Any, Any], spelling: dict[str, str]) -> dict[str, Any]:
    """Numbers by names without white space around them; tokens " yes" and "yes" are one, with both probabilities."""
    found: dict[str, Any] = {}
    for key, value in cell.items():
        name = str(key).strip()
        name = spelling.get(name.casefold()) or name
        known = found.get(name)
        if known is None or type(value) not in (int, float) or type(known) not in (int, float):
            found[name] = value
        else:
            found[name] = float(np.logaddexp(known, value)) if max(known, value) <= 0 else known + value
    return found


def _cut(table: Table, label: str) -> Table:
    """Labels that say how sure they are, "cat (80%)", in two columns."""
    found = [None if cell is None else SURE.fullmatch(str(cell).strip()) for cell in table.frame[label].to_list()]
    for row, (cell, match) in enumerate(zip(table.frame[label].to_list(), found, strict=True)):
        if cell not in (None, "") and match is None:
            raise InputError(f"{table.where.row(row)}: {cell!r} is not a label with a percentage after it, such as 'cat (80%)'")
    names = pl.Series(label, [match and match[1] for match in found], dtype=pl.String)
    percents = pl.Series(_PERCENT, [match and f"{match[2]}%" for match in found], dtype=pl.String)
    return Table(table.frame.with_columns(names, percents), table.where)


def _from_certainty(
    table: Table, label: str, sure: str, classes: Sequence[Any] | None
) -> tuple[NDArray[np.float64], list[Any]]:
    """A label and the probability that it is right: the others share the rest evenly."""
    labels = integers(tidy(table.frame[label]))
    found = list(classes) if classes is not None else labels.drop_nulls().unique().sort().to_list()
    value = _numbers(table.frame[sure], table.where)
    if bool((value[~np.isnan(value)] > 1).any()):
        value = value / 100
    code = {name: k for k, name in enumerate(found)}
    probability = np.full((len(labels), len(found)), np.nan)
    for row, name in enumerate(labels.to_list()):
        if name is None or name == "":
            continue
        if name not in code:
            raise InputError(f"{table.where.row(row)}: label {name!r} is not among the classes {listed(found)}")
        certain = 1.0 if np.isnan(value[row]) else value[row]
        if not 0 <= certain <= 1:
            raise InputError(f"{table.where.row(row)}: sure {table.frame[sure][row]!r} is neither a probability nor a percent")
        probability[row] = (1 - certain) / max(len(found) - 1, 1)
        probability[row, code[name]] = certain if len(found) > 1 else 1.0
    return probability, found
