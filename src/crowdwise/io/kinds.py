"""Read answers of every kind but votes for classes, and what else is known of items: groups and values."""

from __future__ import annotations

from typing import Any, TypeVar

import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers
from crowdwise.data.columns import columns_by_role
from crowdwise.data.groups import Groups, encode_groups
from crowdwise.data.known_values import known_columns
from crowdwise.data.ratings import Ratings
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import InputError
from crowdwise.io.conll import is_conll, read_conll
from crowdwise.io.file_columns import FileColumns
from crowdwise.io.source import AnyPath

__all__ = ["read_groups", "read_kind", "read_known", "read_tags"]

Kind = TypeVar("Kind", bound=Answers)


def read_kind(path: AnyPath, kind: type[Kind], **options: Any) -> Kind:
    """Read answers of this kind from a table with one row per answer; options are those of its `from_frame`."""
    given: Any = kind
    if not (isinstance(given, type) and issubclass(given, Answers)):
        raise InputError(f"expected a kind of answers such as Comparisons or Ratings, got {kind!r}")
    if issubclass(kind, TokenVotes):
        return read_tags(path, kind, **options)
    return kind.from_frame(FileColumns(path), **options)


Tags = TypeVar("Tags", bound=TokenVotes)


def read_tags(path: AnyPath, kind: type[Tags], *, format: str | None = None, **options: Any) -> Tags:
    """Read a CoNLL file with a column per annotator, or a long table with one row per tag.

    CoNLL: one token per line, then a tag per annotator, between tabs or blanks; an empty line after every sequence;
    ``?``, ``-`` or nothing between two tabs where an annotator did not label. A first line that begins with "token"
    names the annotators. A table (CSV, TSV, JSONL, Parquet, Arrow) has the columns sequence, position, annotator, label
    and perhaps token.

    Parameters
    ----------
    format : "conll" or "table", optional
        What the file is; by default its suffix or its first line decides.
    """
    if format not in (None, "conll", "table"):
        raise InputError(f"format must be 'conll' or 'table', got {format!r}")
    named = any(value is not None for name, value in options.items() if name != "classes")
    if format == "conll" or (format is None and not named and is_conll(path)):
        table = read_conll(path)
        return kind.from_columns(table.frame, table.where, options.get("classes"))
    return kind.from_frame(FileColumns(path), **options)


def read_groups(path: AnyPath, votes: Annotations, *, item: str | None = None, group: str | None = None) -> Groups:
    """Read the group of every item from a table with a row per item, or from the votes' own file with a row per vote.

    Parameters
    ----------
    item, group : str, optional
        Names of the columns; by default found among the usual ones.
    """
    table, where = columns_by_role(FileColumns(path), {"item": item, "group": group})
    return encode_groups(votes, table["item"], table["group"], where)


def read_known(path: AnyPath, ratings: Ratings) -> pl.DataFrame:
    """Read known values of some items from a table, for `Ratings.known`."""
    item, value, absent = known_columns(FileColumns(path), ratings.names)
    frame = pl.DataFrame({"item": item} | {name: value[:, k] for k, name in enumerate(ratings.names)})
    return frame.filter(pl.Series(~absent) & frame["item"].is_not_null())
