"""Tables with a row per item and pairs of columns, who voted and what: annotator_1, label_1, annotator_2, label_2."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl

from crowdwise.data.encode import integers
from crowdwise.errors import InputError, listed
from crowdwise.io.exports import Export, Request
from crowdwise.io.roles import by_words, find_item, naming_column
from crowdwise.io.source import Places, Source

__all__ = ["pairs_of", "read_pairs"]

_NUMBERED = re.compile(r"(.*?)[ _.:-]*(\d+)(.*)")


def pairs_of(names: Sequence[str]) -> list[tuple[str, str]]:
    """Columns of annotators with those of their labels, which have the same numbers; nothing where names are not so."""
    found: dict[str, dict[str, str]] = {"annotator": {}, "label": {}}
    for name in names:
        cut = _NUMBERED.fullmatch(name.strip())
        role = next((role for role in found if cut is not None and by_words([f"{cut[1]} {cut[3]}".strip()], role)), None)
        if cut is not None and role is not None:
            found[role].setdefault(cut[2], name)
    people, labels = found["annotator"], found["label"]
    return [(people[number], labels[number]) for number in people] if len(people) > 1 and people.keys() == labels.keys() else []


def read_pairs(source: Source, request: Request) -> Export:
    """Read a vote of every pair of cells; a pair with an empty cell is none."""
    pairs = pairs_of(source.columns)
    if not pairs:
        raise InputError(
            f"{source.name}: no pairs of columns such as annotator_1, label_1 among {listed(map(repr, source.columns))}"
        )
    table = source.table(source.columns)
    rest = [name for name in source.columns if not any(name in pair for pair in pairs)]
    item = find_item(table.frame.select(rest), request, source.name) or naming_column(table.frame, rest)
    n = table.frame.height
    ids = integers(table.frame[item]) if item is not None else pl.Series(np.arange(1, n + 1))
    people, labels = (pl.concat([table.frame[pair[k]].cast(pl.String) for pair in pairs]).replace("", None) for k in (0, 1))
    given = np.flatnonzero((people.is_not_null() & labels.is_not_null()).to_numpy())
    # Pair after pair: vote e stands in row e mod N of pair e div N.
    row = given % n
    where = Places(source.name, rows=row + table.where.first_row if table.where.rows is None else table.where.rows[row])
    others = [repr(name) for name in rest if name != item]
    request.notes.append(
        f"{source.name}: item = {'the number of the row' if item is None else repr(item)}, {len(pairs):,} pairs of columns, "
        f"annotator and label: {listed((f'{who!r} {said!r}' for who, said in pairs), 3)}"
        f"{f'; other columns: {listed(others, 8)}' if others else ''} (--item chooses otherwise)"
    )
    votes = pl.DataFrame({"item": ids[row], "annotator": integers(people[given]), "label": integers(labels[given])})
    return Export(votes, where, items=ids)
