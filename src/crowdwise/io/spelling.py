"""Names that are written in several ways: white space and Unicode form are unified, other variants are said or folded.

Everything is decided on distinct names, so that a long file costs no more than a short one.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import Any

import polars as pl

from crowdwise.data.encode import EDGES, INTEGER, as_text, integers, missing_mask, tidy
from crowdwise.data.text_form import one_form
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.io.exports import Request

__all__ = ["Moved", "Speller", "clean", "key_of", "read_spelling", "spelt_labels", "unified_line", "warn_of_damage"]

# By role: how many names changed, and one of them before and after.
Moved = dict[str, tuple[int, tuple[str, str]]]

_ROLES = ("label", "annotator", "item")
_NOUNS = {"label": "labels", "annotator": "annotator ids", "item": "item ids"}
_DAMAGED = r"^-?\d([.,]\d+)?[eE]\+\d+$"
# sci.med, sci_med, sci-med; not 1.5 and 1-5.
_JOINS = re.compile(r"(?<=[^\W\d_])[._\-\s]+(?=\w)|(?<=\d)[._\-\s]+(?=[^\W\d_])")
# Beyond so many names, each is not looked at by itself.
_MANY = 20_000
_NUMBER = re.compile(r"([+-]?\d{1,18})(?:[.,]0*)?")


def clean(text: str, inner: bool = False) -> str:
    """The name in composed Unicode form and without white space around it; with `inner`, with single spaces inside."""
    text = unicodedata.normalize("NFC", text).strip(EDGES)
    return re.sub(r"[^\S\n]+", " ", text) if inner else text


def key_of(text: str, role: str = "label") -> str:
    """What variants of one name share: case, what joins words, zeros after a point and those before a label do not count."""
    whole = _NUMBER.fullmatch(text)
    return (str(int(whole[1])) if role == "label" else whole[1]) if whole else _JOINS.sub(" ", text.casefold())


class Speller:
    """Unifies the names of one file; `skip` are labels that mean a missing answer.

    Parameters
    ----------
    request : Request
        Its `fold_case` and `spelling`.
    source : str
        Name of the file, for what is said.
    """

    def __init__(self, request: Request, source: str, skip: Sequence[Any] = ()) -> None:
        self.fold, self.source, self.skip = request.fold_case, source, skip
        self.given = read_spelling(request.spelling)
        self.moved: Moved = {}

    def unify(
        self, role: str, column: pl.Series, gold: pl.Series | None = None, times: pl.Series | None = None
    ) -> tuple[pl.Series, pl.Series | None]:
        """Respell a column, and of labels the gold beside it, which follows the spelling of the votes.

        `times` says how many votes each entry of the column stands for, where not one.
        """
        parts = [as_text(tidy(part)) for part in (column, gold) if part is not None and len(part)]
        if not len(column) or not any(
            part.dtype == pl.String for part in (tidy(column), *([] if gold is None else [tidy(gold)]))
        ):
            return column, gold
        if role not in self.given and gold is None and _is_settled(parts[0].unique().drop_nulls()):
            return column, gold
        counts = _counted(parts[0])
        if times is not None:
            counts = {name: n for name, n in zip(parts[0].to_list(), times.to_list(), strict=True) if name is not None}
        known = {} if len(parts) == 1 else _counted(parts[1])
        names = dict.fromkeys([*counts, *known])
        new = _cleaned(list(names), inner=role == "label")
        changed = {name: to for name, to in new.items() if to != name and to}
        if changed:
            n = sum(counts.get(name, 0) + known.get(name, 0) for name in changed)
            self.moved[role] = (n, next(iter(changed.items())))
        told = self.given.get(role, {})
        given = {name: told.get(name, told.get(to, to)) for name, to in new.items()}
        moved = {name: to for name, to in given.items() if to != new[name]}
        if moved:
            n = sum(counts.get(name, 0) for name in moved) + self.moved.get(role, (0,))[0]
            self.moved[role] = (n, next(iter(moved.items())))
        new = given
        folded = self._variants(role, new, counts)
        final = {name: folded.get(to, to) for name, to in new.items()}
        if all(name == to for name, to in final.items()):
            return column, gold
        return _replaced(column, final), None if gold is None else _replaced(gold, final)

    def _variants(self, role: str, new: Mapping[str, str], counts: Mapping[str, int]) -> dict[str, str]:
        """What each variant becomes if case is folded; otherwise nothing, and a warning."""
        times: dict[str, int] = {}
        for name, to in new.items():
            times[to] = times.get(to, 0) + counts.get(name, 0)
        skipped = {str(marker) for marker in self.skip}
        groups: dict[str, list[str]] = {}
        for to in _suspects(list(times)):
            if to and to not in skipped:
                groups.setdefault(key_of(to, role), []).append(to)
        variants = [sorted(group, key=lambda to: (-times[to], to)) for group in groups.values() if len(group) > 1]
        if not variants:
            return {}
        if self.fold and role != "item":
            folded = {to: group[0] for group in variants for to in group[1:]}
            n = sum(times[to] for to in folded)
            self.moved[role] = (self.moved.get(role, (0, ("", "")))[0] + n, next(iter(folded.items())))
            return folded
        shown = "; ".join(", ".join(f"{to!r} ({times[to]:,})" for to in group[:4]) for group in variants[:3])
        more = f" and {len(variants) - 3:,} more" if len(variants) > 3 else ""
        way = "correct the file" if role == "item" else "unify them with --fold-case (fold_case=True)"
        warnings.warn(
            f"{self.source}: {_NOUNS[role]} that differ in case, punctuation or number format count as different: "
            f"{shown}{more}; {way} or a table of from, to and perhaps role: --spelling FILE (spelling=...)",
            DataWarning,
            stacklevel=5,
        )
        return {}

    def say(self) -> None:
        """Warn, in one line, of all that was unified."""
        if self.moved:
            more = (", case" if self.fold else "") + (" or the table given" if self.given else "")
            warnings.warn(unified_line(self.moved, self.source, more), DataWarning, stacklevel=4)


def unified_line(moved: Moved, source: str, more: str = "") -> str:
    """What to say of names that were unified."""
    parts = [
        f"{n:,} {_NOUNS[role] if n != 1 else _NOUNS[role][:-1]} ({_shown(old, new)})" for role, (n, (old, new)) in moved.items()
    ]
    return f"{source}: spellings unified (white space, Unicode form{more}): {', '.join(parts)}"


def spelt_labels(column: pl.Series) -> pl.Series:
    """Labels without white space around them, with single spaces inside, in composed form; as they are where none changes."""
    if column.dtype != pl.String:
        return column
    new = _cleaned(column.unique().drop_nulls().to_list(), inner=True)
    moved = {name: to for name, to in new.items() if name != to}
    return column.replace_strict(list(moved), list(moved.values()), default=column, return_dtype=pl.String) if moved else column


def _cleaned(names: list[str], inner: bool) -> dict[str, str]:
    """Every name in its one form; many of them at once."""
    if inner or len(names) <= _MANY:
        return {name: clean(name, inner) for name in names}
    return dict(zip(names, one_form(pl.Series(names, dtype=pl.String)).to_list(), strict=True))


def _suspects(names: list[str]) -> list[str]:
    """Names that may have variants; of very many, those that differ from another in case or punctuation alone."""
    if len(names) <= _MANY:
        return names
    series = pl.Series(names, dtype=pl.String)
    key = series.str.to_lowercase().str.replace_all(r"[._\-\s]+", " ")
    return series.filter(key.is_duplicated() | series.str.contains(r"^[+-]?\d+[.,]?0*$")).to_list()


def _is_settled(names: pl.Series) -> bool:
    """Whether all names are in one form and none may be a variant of another; of very many names only."""
    return len(names) > _MANY and one_form(names).equals(names) and not _suspects(names.to_list())


def _shown(old: str, new: str) -> str:
    """What became what; forms of Unicode that look alike are spelt out."""
    alike = unicodedata.normalize("NFC", old) == new
    return f"{old!a} is {new!a}" if alike else f"{old!r} is {new!r}"


def _counted(column: pl.Series) -> dict[str, int]:
    # In the order of the file, so that the same name is shown every time.
    counted = column.drop_nulls().to_frame("name").group_by("name", maintain_order=True).len()
    return dict(zip(counted["name"].to_list(), counted["len"].to_list(), strict=True))


def _replaced(column: pl.Series, new: Mapping[str, str]) -> pl.Series:
    text = as_text(tidy(column))
    moved = {name: to for name, to in new.items() if name != to}
    return integers(text.replace_strict(list(moved), list(moved.values()), default=text, return_dtype=pl.String))


def read_spelling(given: Any) -> dict[str, dict[str, str]]:
    """Spellings by role, from a mapping of labels, or a table with the columns from, to and perhaps role."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {"label": {str(old): str(new) for old, new in given.items()}}
    if not isinstance(given, str | PathLike):
        raise SettingError(f"spelling must be a mapping of labels or a path of a table, got {type(given).__name__}")
    from crowdwise.io.source import open_source

    source = open_source(given)
    if source.kind not in ("delimited", "parquet", "arrow"):
        raise InputError(f"{source.name}: a table of spellings is CSV, TSV, Parquet or Arrow, not {source.kind}")
    if not {"from", "to"} <= set(source.columns):
        raise InputError(f"{source.name}: a table of spellings has the columns from and to, and perhaps role")
    names = ["from", "to", *(["role"] if "role" in source.columns else [])]
    table = source.table(names)
    found: dict[str, dict[str, str]] = {}
    for index, (old, new, *role) in enumerate(table.frame.select(as_text(tidy(table.frame[n])).alias(n) for n in names).rows()):
        of = (role[0] if role else None) or "label"
        if old is None or new is None or of not in _ROLES:
            raise InputError(f"{table.where.row(index)}: expected from, to, and a role of label, annotator or item")
        found.setdefault(of, {})[old] = new
    return found


def check_gold(labels: pl.Series, gold: pl.Series, source: str, missing: Sequence[Any]) -> None:
    """Refuse gold that is spelt otherwise than the votes, or of which nothing occurs in them."""
    voted, known = (as_text(tidy(part)) for part in (labels, gold))
    seen = set(voted.filter(~missing_mask(voted, missing)).unique().to_list())
    strange = [name for name in known.drop_nulls().unique(maintain_order=True).to_list() if name not in seen]
    by_key = {key_of(clean(name)): name for name in sorted(seen)}
    for name in strange:
        if key_of(clean(name)) in by_key:
            raise InputError(
                f"{source}: the gold label {name!r} never occurs among the votes, which say {by_key[key_of(clean(name))]!r}; "
                "unify them with --fold-case (fold_case=True) or a table: --spelling FILE (spelling=...)"
            )
    n_known = known.drop_nulls().n_unique()
    # One known item of a class that nobody saw is no matter of spelling.
    if strange and len(strange) == n_known and seen and (n_known > 1 or len(known) > 2):
        close = get_close_matches(strange[0], sorted(seen), n=1, cutoff=0)
        raise InputError(
            f"{source}: no gold label occurs among the votes: gold says {strange[0]!r}, the nearest vote {close[0]!r}; "
            "if these are classes nobody voted for, name all classes with --classes (classes=...)"
        )
    for name in strange:
        close = get_close_matches(name, sorted(seen), n=1, cutoff=0.8)
        if close:
            warnings.warn(
                f"{source}: the gold label {name!r} never occurs among the votes; did you mean {close[0]!r}?",
                DataWarning,
                stacklevel=5,
            )


# What is written where nobody knows the label.
_NOT_KNOWN = {"-", "--", "?", "??", "*", ".", "na", "n/a", "#n/a", "<na>", "nan", "null", "unknown"}


def known_gold(labels: pl.Series, gold: pl.DataFrame, source: str) -> pl.DataFrame:
    """Gold without what stands for labels that nobody knows (-1, "-", "n/a"), if no vote says it; how much is said."""
    name = as_text(tidy(gold["label"]))
    voted = set(as_text(tidy(labels)).drop_nulls().to_list())
    negative = any(text.startswith("-") and text[1:].isdigit() for text in voted - {"-1", "-2", "-9"})
    strange = [text for text in name.drop_nulls().unique(maintain_order=True).to_list() if text not in voted]
    empty = [text for text in strange if text.lower() in _NOT_KNOWN or (not negative and text[0] == "-" and text[1:].isdigit())]
    if not empty:
        return gold
    gone = name.is_in(empty)
    said = f"{', '.join(map(repr, empty))} ({int(gone.sum()):,} of {len(gold):,} items)"
    warnings.warn(
        f"{source}: as a known label, {said} occurs in no vote and is taken for: not known; if it is a class, name all classes "
        "with --classes (classes=...)",
        DataWarning,
        stacklevel=5,
    )
    return gold.filter(~gone)


def warn_of_damage(column: pl.Series, what: str, source: str) -> None:
    """Warn of ids that a spreadsheet has shortened: 1.23457E+18, or long numbers that end in zeros."""
    ids = column.unique().drop_nulls()
    if ids.dtype == pl.String:
        damaged = ids.filter(ids.str.contains(_DAMAGED)).to_list()
        long = ids.filter(ids.str.contains(INTEGER.replace("{0,17}", "{15,40}"))).to_list()
    elif ids.dtype == pl.Int64:
        damaged, long = [], [str(number) for number in ids.filter(ids.abs() >= 10**15).to_list()]
    else:
        return
    if len(long) > 2 and all(set(name.lstrip("-")[15:]) == {"0"} for name in long):
        damaged += long
    if damaged:
        rows = int(as_text(column).is_in(damaged).sum())
        warnings.warn(
            f"{source}: {len(damaged):,} {what} ids such as {damaged[0]!r} ({rows:,} row{'s' * (rows != 1)}) "
            "have lost digits in a spreadsheet or as floats; ids that were different may be one now; export the file again "
            "and keep it out of spreadsheets",
            DataWarning,
            stacklevel=5,
        )
