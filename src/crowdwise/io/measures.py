"""Labels that are numbers, texts, or that say how sure they are: more of them than classes can be is asked about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from crowdwise.data.encode import as_text, tidy
from crowdwise.errors import InputError, listed
from crowdwise.io.advice import instead
from crowdwise.io.exports import Request
from crowdwise.io.roles import answer_columns
from crowdwise.io.source import Source

__all__ = ["SURE", "doubt_labels", "look_closer"]

# "cat (80%)", "cat 80 %", "cat: 0.8%"
SURE = re.compile(r"(.*?)[\s:,(\[]+(\d{1,3}(?:[.,]\d+)?)\s*%\s*[)\]]?")
_MANY = 20
_NUMBER = r"^[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?\s*%?$"
# Labels are shorter, half of them at least.
_LONG = 40
# On so many items nobody agrees word by word.
_LEAST_ITEMS = 10


def look_closer(votes: Mapping[str, pl.Series], taken: Mapping[str, str], source: Source, request: Request) -> None:
    """Refuse labels of a long table that are texts of the items, measured numbers or percents; say of many what they may be."""
    _refuse_texts(votes, taken, source, request)
    label = votes["label"]
    if (label.dtype == pl.String and label.drop_nulls().head(100).str.contains("%").any()) or label.n_unique() > _MANY:
        doubt_labels(label, taken, source.name, request)


def _refuse_texts(votes: Mapping[str, pl.Series], taken: Mapping[str, str], source: Source, request: Request) -> None:
    """Refuse labels that are a text of each item: the same in all votes on it, and another one for most items."""
    if (request.label, request.question, request.format) != (None,) * 3 or request.several != "refuse":
        return
    n = votes["label"].n_unique()
    # The first rows are enough, as a rule.
    if any(2 * n <= votes["item"].head(rows).n_unique() for rows in (10_000, len(votes["item"]))):
        return
    pairs = pl.DataFrame({role: as_text(tidy(votes[role])) for role in ("item", "label")}).drop_nulls()
    n_items = pairs["item"].n_unique()
    if 2 * pairs["label"].n_unique() <= n_items:
        return
    several = pairs.group_by("item").agg(pl.len().alias("n"), pl.col("label").n_unique()).filter(pl.col("n") > 1)
    if several.height < _LEAST_ITEMS or several["label"].max() != 1:
        return
    table = pl.DataFrame() if source.kind in ("json", "jsonl") else source.table(source.columns).frame
    others = [name for name in table.columns if name not in taken.values()]
    found = [
        name for name in answer_columns(table, others, taken["item"], taken["annotator"]) if table[name].n_unique() <= _MANY
    ]
    ways = [replace(request, label=name).command(source.name) for name in (*found[:1], taken["label"])]
    answers = (
        f"; what annotators said may be in {listed(map(repr, found), 6)}: {ways[0]}" if found else "; name another with --label"
    )
    raise InputError(
        f"{source.name}: the column {taken['label']!r} was taken as the label, and is the same in all votes on an item and "
        f"another on nearly every item, as a text of the items is{answers}; if it is the label: {ways[-1]}"
    )


def doubt_labels(label: pl.Series, taken: Mapping[str, str], source: str, request: Request) -> None:
    """Refuse labels that are measured numbers, or that have percents in them; say of many whole numbers that each is a class.

    `taken` says which columns play which role; empty for tables of another shape, for which there is no other command.
    """
    given = as_text(tidy(label)).drop_nulls()
    given = given.filter(given != "")
    distinct = given.unique()
    if request.several != "refuse" or len(distinct) < 2:
        return
    if distinct.str.contains("%").all() and taken:
        _refuse_percents(distinct.sort().to_list(), taken, source, request)
    if len(distinct) <= _MANY:
        return
    if not distinct.str.contains(_NUMBER).all():
        long = distinct.str.len_chars().median()
        if 2 * len(distinct) > len(given) or (isinstance(long, float) and long > _LONG):
            request.notes.append(
                f"{source}: {len(distinct):,} different labels in {len(given):,} votes, such as {distinct.sort()[0]!r:.60}, "
                "each a class of its own; are they texts, and the label in another column (--label)?"
            )
        return
    roles = {"item": "--item", "annotator": "--annotator", "label": "--value"}
    words = [word for role, option in roles.items() if role in taken for word in (option, taken[role])]
    regress = instead("regress", source, *words)
    way = f"if they measure something: {regress}" if taken else "numbers that measure something are for crowdwise regress"
    what = f"{source}: the labels are {len(distinct):,} different numbers, such as {distinct.sort()[0]!r}"
    if distinct.str.contains(r"[.,%]").any():
        raise InputError(
            f"{what}, and each would be a class of its own; {way}; if classes are meant: "
            f"{request.command(source, '--one-label')}"
        )
    ordinal = request.command(source, "--type", "ordinal")
    request.notes.append(f"{what}, each a class of its own; {way}; if they are grades in order: {ordinal}")


def _refuse_percents(names: list[str], taken: Mapping[str, str], source: str, request: Request) -> None:
    """Refuse "cat (80%)" beside "cat (60%)": a label, and how sure it is."""
    found = [SURE.fullmatch(name.strip()) for name in names]
    if all(found) and len({match[1] for match in found if match}) < len(names):
        ways = [request.command(source, *more) for more in (("--sure", taken["label"]), ("--one-label",))]
        raise InputError(
            f"{source}: labels such as {names[0]!r} say how sure they are. Read them so: {ways[0]}; if each is a class of its "
            f"own: {ways[1]}"
        )
