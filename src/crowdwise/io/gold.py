"""Read known true labels of some items."""

from __future__ import annotations

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import ALIASES, codes_of, integers, missing_mask, series_of, tidy
from crowdwise.data.gold import UNCLEAR
from crowdwise.data.text_form import one_form
from crowdwise.errors import InputError, did_you_mean, listed
from crowdwise.io.formats import TABLES
from crowdwise.io.limits import limited
from crowdwise.io.reader import find_format, read_export
from crowdwise.io.source import AnyPath, Places, Source, open_source
from crowdwise.io.votes import Request

__all__ = ["read_gold"]

_GOLD = ("gold", "goldlabel", "truelabel", "truth", "groundtruth", "true", "trueclass", "class", "correct")


def read_gold(
    path: AnyPath, votes: Annotations | None = None, *, fold_case: bool = False, max_bytes: int | None = None
) -> pl.DataFrame:
    """Read known true labels as a frame with columns item and label, for ``gold=``.

    Parameters
    ----------
    path : path
        A table with an item column and one called gold, true_label, truth or label; a platform's
        export that holds gold; or, with `votes`, a text file with one label per item in order. Empty cells and,
        with `votes` that have no such class, ``?`` are labels that nobody knows.
    votes : Annotations, optional
        Checks the labels against the classes, and gives the items of a file that names none.
    fold_case : bool
        Whether labels that differ from one class of the votes in case, punctuation or number format are that class.
    max_bytes : int, optional
        As in `read`.
    """
    with limited(max_bytes):
        return _read_gold(path, votes, fold_case)


def _read_gold(path: AnyPath, votes: Annotations | None, fold_case: bool) -> pl.DataFrame:
    source = open_source(path)
    if votes is not None and source.path.suffix.lower() == ".txt" and not any(c in source.data for c in b",;\t|{"):
        return _gold_by_position(source.data.split(), votes, source)
    found = find_format(source, None)
    if found not in TABLES:
        gold = read_export(source, found, Request()).gold
        if gold is None or not len(gold):
            raise InputError(f"{source.name}: this {found} export holds no gold; give a table with columns item and label")
        return gold
    names = source.columns
    plain = {name: "".join(c for c in name.lower() if c.isalnum()) for name in names}
    items = [name for name in names if plain[name] in (*ALIASES["item"], "id", "")]
    labels = [name for name in names if plain[name] in _GOLD] or [name for name in names if plain[name] in ALIASES["label"]]
    if len(labels) > 1 and len(items) == 1:
        raise InputError(
            f"{source.name}: several columns may hold the known labels: {listed(map(repr, labels))}; keep one of them"
        )
    if len(items) != 1 or len(labels) != 1:
        raise InputError(
            f"{source.name}: expected an item column and one called gold, truth or label; found {listed(map(repr, names))}"
        )
    table = source.table([items[0], labels[0]])
    item, label = (integers(one_form(table.frame[name])) for name in (items[0], labels[0]))
    if fold_case and votes is not None:
        label = _folded(label, votes)
    known = ~missing_mask(tidy(label), _unclear(votes))
    if votes is not None:
        # Gold of items that nobody voted on is ignored later, so its classes do not matter.
        voted = pl.Series(codes_of(tidy(item), tidy(series_of(votes.items)).unique()) >= 0)
        _check_classes(label, known & voted, votes, table.where)
    return pl.DataFrame({"item": item, "label": label}).filter(known).unique(maintain_order=True)


def _gold_by_position(lines: list[bytes], votes: Annotations, source: Source) -> pl.DataFrame:
    if len(lines) != votes.n_items:
        raise InputError(
            f"{source.name}: {len(lines)} labels for {votes.n_items} items; give one per item, in the order of the votes"
        )
    label = integers(pl.Series([line.decode() for line in lines]))
    known = ~missing_mask(label, _unclear(votes))
    _check_classes(label, known, votes, Places(source.name, 1))
    return pl.DataFrame({"item": series_of(votes.items), "label": label}).filter(known)


def _unclear(votes: Annotations | None) -> tuple[str, ...]:
    """What an audit's table has where nobody can tell, unless it is a class."""
    return () if votes is None or UNCLEAR in map(str, votes.classes) else (UNCLEAR,)


def _folded(label: pl.Series, votes: Annotations) -> pl.Series:
    """Labels in the spelling of the votes, where one class alone is a variant of them."""
    from crowdwise.io.spelling import key_of

    classes = [str(name) for name in votes.classes]
    keys = [key_of(name) for name in classes]
    one = {key: name for key, name in zip(keys, classes, strict=True) if keys.count(key) == 1}
    text = label.cast(pl.String)
    seen = [name for name in text.drop_nulls().unique().to_list() if name not in classes]
    return integers(text.replace({name: one.get(key_of(name), name) for name in seen}))


def _check_classes(label: pl.Series, known: pl.Series, votes: Annotations, where: Places) -> None:
    codes = codes_of(tidy(label), tidy(series_of(votes.classes)))
    outside = np.flatnonzero(known.to_numpy() & (codes < 0))
    if len(outside):
        from crowdwise.io.spelling import key_of

        text, classes = str(label[int(outside[0])]), [str(c) for c in votes.classes]
        variants = [name for name in classes if key_of(name) == key_of(text)]
        if variants:
            raise InputError(
                f"{where.row(int(outside[0]))}: gold label {text!r} is spelt {variants[0]!r} in the votes; unify them with "
                "--fold-case (fold_case=True)"
            )
        raise InputError(
            f"{where.row(int(outside[0]))}: gold label {text!r} is not among the classes {listed(classes)}"
            f"{did_you_mean(text, classes)} (name every class with classes=... or --classes)"
        )
