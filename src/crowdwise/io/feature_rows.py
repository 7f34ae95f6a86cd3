"""Whether rows of features and items of votes belong together: by id, or else by length and order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers
from crowdwise.data.encode import codes_of, series_of, tidy, translate
from crowdwise.data.gold import encode_gold
from crowdwise.data.markup import clean
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.io.features import Features

__all__ = ["check_all_rows", "check_answer_rows", "check_rows", "of_items", "rows_of", "truth_of_rows", "with_rows"]


def check_rows(features: Features, votes: Annotations) -> str:
    """Refuse features and votes that do not line up, by id or else by length; returns a line where order decides."""
    name, n_rows = features.source, len(features)
    if features.items is None:
        if votes.n_items != n_rows:
            raise InputError(
                f"{name} has {n_rows:,} rows and no ids, and the votes are on {votes.n_items:,} items; "
                "add the ids: an array 'items' beside the features in .npz, or a column 'item' in a table "
                "(--features-item NAME if it is called otherwise)"
            )
        column = _id_column(features, votes)
        if column is not None:
            raise InputError(f"{name}: the column {column!r} holds the items' ids; say so with --features-item {column}")
        some = ", ".join(clean(item) for item in votes.items[:3])
        line = f"{name} has no ids: its rows are taken for the items of the votes in sorted order ({some}, ...)"
        # Files are seldom in the alphabetical order of their ids; in the order of their numbers they often are.
        if votes.items.dtype == object:
            warnings.warn(f"{line}; add ids if they are in another", DataWarning, stacklevel=2)
            return ""
        return line
    lost = np.flatnonzero((translate(votes.items, features.items) < 0) & (votes.votes_per_item > 0))
    if len(lost):
        example, other = votes.items[lost[:1]].tolist()[0], features.items[:1].tolist()[0]
        raise InputError(
            f"{name}: no row for {len(lost):,} of the {int((votes.votes_per_item > 0).sum()):,} items with votes, such as "
            f"{example!r} (ids there are such as {other!r}); add their rows, or leave their votes out with --drop-unmatched"
        )
    return ""


def check_all_rows(rows: Features, votes: Annotations) -> str:
    """Refuse features without a row for every item, with votes or not: anything may be asked about."""
    line = check_rows(rows, votes)
    if rows.items is not None:
        lost = votes.items[translate(votes.items, rows.items) < 0].tolist()
        if lost:
            raise InputError(f"{rows.source}: no row for {len(lost):,} items of the pool, such as {lost[0]!r}; add their rows")
    return line


def _id_column(features: Features, votes: Annotations) -> str | None:
    """A column of a table whose numbers are exactly the ids of the votes: no feature, but the ids under another name."""
    if features.names is None or votes.items.dtype.kind not in "iu":
        return None
    ids = np.sort(votes.items)
    found = (name for k, name in enumerate(features.names) if np.array_equal(np.sort(features.X[:, k]), ids))
    return next(found, None)


def check_answer_rows(features: Features, answers: Answers) -> str:
    """Refuse features that lack a row of an item of answers of any kind; returns a line where order decides."""
    if features.items is None:
        if len(features) != answers.n_items:
            raise InputError(
                f"{features.source} has {len(features):,} rows and no ids, and the answers are on {answers.n_items:,} items; "
                "add the ids: an array 'items' beside the features in .npz, or a column 'item' in a table"
            )
        return f"{features.source} has no ids: its rows are taken for the items in sorted order"
    lost = np.flatnonzero(translate(answers.items, features.items) < 0)
    if len(lost):
        example = answers.items[lost[:1]].tolist()[0]
        raise InputError(
            f"{features.source}: no row for {len(lost):,} of the {answers.n_items:,} items, such as {example!r}; add their rows"
        )
    return ""


def with_rows(votes: Annotations, rows: Features) -> tuple[Annotations, str]:
    """The votes on items that have a row, and a line on those left out, if any."""
    if rows.items is None:
        raise SettingError(f"--drop-unmatched needs the ids of the rows, and {rows.source} has none")
    kept = votes[translate(votes.items, rows.items) >= 0]
    n_votes, n_items = votes.n_votes - kept.n_votes, votes.n_items - kept.n_items
    return kept, f"left out {n_votes:,} votes on {n_items:,} items without features" if n_items else ""


def rows_of(features: Features, items: Any) -> Any:
    """The rows of these items, in their order; None where the file has no ids, or lacks one of them."""
    if features.items is None:
        return None
    place = translate(items, features.items)
    return None if (place < 0).any() else features.X[place]


def truth_of_rows(features: Features, classes: Any, gold: pl.DataFrame, path: str) -> Any:
    """Class code of every row, -1 where the table of true labels does not name it; others of its items are left aside."""
    items = range(len(features)) if features.items is None else features.items.tolist()
    nobody = Annotations.from_arrays([], [], [], items=items, annotators=[], classes=list(classes))
    return encode_gold(nobody, of_items(gold, nobody.items, path, features.source))


def of_items(frame: pl.DataFrame, items: Any, path: str, whose: str) -> pl.DataFrame:
    """The rows of these items; a table without any is refused."""
    found = frame.filter(pl.Series(codes_of(tidy(frame["item"]), tidy(series_of(items))) >= 0))
    if not found.height:
        raise InputError(f"{path}: names no item of {whose}; check that both use the same ids")
    return found
