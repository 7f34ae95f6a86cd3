"""Which columns of a wide table vote: those named, or those that share one set of labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import polars as pl

from crowdwise.data.encode import ALIASES
from crowdwise.errors import InputError, did_you_mean, listed
from crowdwise.io.exports import Request
from crowdwise.io.roles import never_votes

__all__ = ["check_one_set", "chosen_columns", "is_numbered", "numbered_alike", "voting_columns"]

_NUMBERED = re.compile(
    r"(annotator|worker|rater|coder|judge|user|labell?er|expert|person|crowd|label|vote|[arwcju])[ _.-]?\d+"
    r"|(annotator|rater|coder|judge|labell?er|expert|reader|reviewer|observer)([ _.-]?\d+|[ _.-][a-z])",
    re.IGNORECASE,
)
# More labels than these are texts or measures.
_MOST_LABELS = 50
_FEW = 4
# Beyond so many columns, each is compared with the labels of all instead of with every other.
_MANY = 200
_FEW_CELLS = 1_000_000


def chosen_columns(names: Sequence[str], request: Request, ids: str | None, source: str) -> list[str]:
    """The columns that the user names, as names, patterns or a comma-separated list, without those that are excluded."""
    wanted = (
        _matching(names, request.annotators, source, "--annotator-columns") if request.annotators is not None else list(names)
    )
    refused = set() if request.exclude is None else set(_matching(names, request.exclude, source, "--not"))
    found = [name for name in wanted if name not in refused and name != ids]
    if request.annotators is None:
        found = [name for name in found if not never_votes(name)]
    return found


def _matching(names: Sequence[str], given: str | Sequence[str], source: str, option: str) -> list[str]:
    found: dict[str, None] = {}
    for text in [given] if isinstance(given, str) else given:
        parts = [text] if text in names else [part.strip() for part in text.split(",")]
        for part in parts:
            here = [part] if part in names else [name for name in names if fnmatchcase(name, part)]
            if not here and source:
                raise InputError(
                    f"{source}: no column {part!r} ({option}); found {listed(map(repr, names))}"
                    + did_you_mean(part, list(names))
                )
            found |= dict.fromkeys(here)
    return list(found)


def numbered_alike(names: Sequence[str]) -> set[str]:
    """Names that are one text but for its numbers, three or more of them: Image 1, Image 2; Is 1 sharp?, Is 2 sharp?"""
    stems: dict[str, list[str]] = {}
    for name in names:
        if re.search(r"\d", name):
            stems.setdefault(re.sub(r"\d+", "#", name.strip().lower()), []).append(name)
    return {name for group in stems.values() if len(group) > 2 for name in group}


def is_numbered(name: str) -> bool:
    """Whether a column is called after annotators, or what they say, with a number."""
    return _NUMBERED.fullmatch(name.strip()) is not None


def voting_columns(frame: pl.DataFrame, names: Sequence[str], strict: bool = True, series: Collection[str] = ()) -> list[str]:
    """Columns that look like annotators: no gold, count, text or index by their names, and one set of labels among them.

    Columns of a `series` may vote whatever they are called. Without `strict`, where a person says that the table is wide, all
    columns but those that cannot vote.
    """
    numbered = dict.fromkeys(name for name in names if is_numbered(name))
    plain = [name for name in names if name in numbered or name in series or not never_votes(name)]
    # Nobody is called so: it is what was made of the votes, or what is known.
    whole = [name for name in plain if "".join(c for c in name.lower() if c.isalnum()) not in ALIASES["label"]]
    labels = _labels(frame, whole if len(whole) > 1 else plain)
    possible = {name: seen for name, seen in labels.items() if len(seen) <= _MOST_LABELS}
    if len(numbered) > 1 and set(numbered) <= set(possible) and not _are_texts(frame, numbered, labels):
        possible = {name: possible[name] for name in numbered}
        return list(possible)
    groups = _groups(possible)
    if not groups:
        return [] if strict else list(possible)
    largest = max(groups, key=len)
    rivals = [group for group in groups if group is not largest and len(group) == len(largest)]
    voting = set(largest)
    if rivals or (strict and not _is_one_set(frame, largest, possible)):
        return list(possible) if not strict or _is_sparse(frame, possible) else []
    # Of somebody who hardly voted nobody can tell whether the labels are others.
    few = 0 if strict else _FEW
    quiet = {name for name, seen in possible.items() if frame.height - frame[name].null_count() <= few or not seen}
    return [name for name in names if name in voting or name in quiet]


def _are_texts(frame: pl.DataFrame, names: Collection[str], labels: dict[str, frozenset[str]]) -> bool:
    """Whether hardly any cell of these columns says what another says."""
    cells = sum(frame.height - frame[name].null_count() for name in names)
    return len(frozenset[str]().union(*(labels[name] for name in names))) > max(_FEW, cells // 2)


def check_one_set(frame: pl.DataFrame, names: Sequence[str], source: str, request: Request) -> None:
    """Refuse columns that answer several questions: equally many of them share one set of labels, and another."""
    labels = _labels(frame, [name for name in names if not never_votes(name)])
    groups = [
        group for group in _groups({name: seen for name, seen in labels.items() if len(seen) <= _MOST_LABELS}) if len(group) > 1
    ]
    largest = [group for group in groups if len(group) == max(map(len, groups))]
    if len(largest) > 1:
        shown = "; ".join(listed(map(repr, group), 4) for group in largest[:3])
        way = replace(request, annotators=",".join(largest[0])).command(source)
        raise InputError(
            f"{source}: columns share labels in groups, as if they answered several questions: {shown}. Choose: {way}"
        )


def _labels(frame: pl.DataFrame, names: list[str]) -> dict[str, frozenset[str]]:
    """The distinct values of every column, up to one more than labels can be; in one query, for there may be many columns."""
    types = frame.schema
    names = [name for name in names if not types[name].is_nested()]
    if not names:
        return {}
    if frame.height * len(names) < _FEW_CELLS and all(types[name] == pl.String for name in names):
        # A query costs more than the work on so few cells, the more so the more columns it has.
        cells = frame.select(names).to_dict(as_series=False)
        return {name: frozenset(list(dict.fromkeys(cells[name]))) - {None, "", "-1"} for name in names}
    distinct = pl.col(names).cast(pl.String).drop_nulls().unique().head(_MOST_LABELS + 1).implode()
    return {name: frozenset(seen) - {"", "-1"} for name, seen in zip(names, frame.select(distinct).row(0), strict=True)}


def _groups(labels: dict[str, frozenset[str]]) -> list[list[str]]:
    """Columns that share at least half of the labels of the one with fewer, in groups."""
    names = [name for name, seen in labels.items() if seen]
    if len(names) > _MANY:
        times: dict[str, int] = {}
        for name in names:
            for label in labels[name]:
                times[label] = times.get(label, 0) + 1
        return [[name for name in names if any(times[label] > 1 for label in labels[name])]]
    group = {name: name for name in names}
    for k, one in enumerate(names):
        for other in names[k + 1 :]:
            if 2 * len(labels[one] & labels[other]) >= min(len(labels[one]), len(labels[other])):
                old, new = group[other], group[one]
                group = {name: new if of == old else of for name, of in group.items()}
    return [[name for name in names if group[name] == of] for of in dict.fromkeys(group.values())]


def _is_sparse(frame: pl.DataFrame, labels: dict[str, frozenset[str]]) -> bool:
    """Whether at least three columns hold few labels and many empty cells, as where everybody sees some of the items."""
    every = frozenset[str]().union(*labels.values())
    cells = [frame[name].cast(pl.String) for name in labels]
    absent = sum(int((column.is_null() | (column == "-1").fill_null(False)).sum()) for column in cells)
    few = len(every) <= min(_MOST_LABELS, max(3, frame.height // 2))
    return len(labels) > 2 and few and absent >= 0.2 * frame.height * len(labels)


def _is_one_set(frame: pl.DataFrame, group: list[str], labels: dict[str, frozenset[str]]) -> bool:
    """Whether a group is sure enough to be annotators: few labels, on which at least two columns agree more than once."""
    every = frozenset[str]().union(*(labels[name] for name in group))
    if len(group) < 2 or len(every) > min(_MOST_LABELS, max(3, frame.height // 2)) or len(every) < 2:
        return False
    if len(group) > 2:
        return True
    one, other = group
    return labels[one] == labels[other]
