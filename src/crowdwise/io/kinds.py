"""Read answers of every kind but votes for classes, and what else is known of items: groups and values."""

from __future__ import annotations

from typing import Any, TypeVar

import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers
from crowdwise.data.columns import columns_by_role, plays_role
from crowdwise.data.comparisons import Comparisons
from crowdwise.data.groups import Groups, encode_groups
from crowdwise.data.known_values import known_columns
from crowdwise.data.ratings import Ratings
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import InputError
from crowdwise.io.advice import instead
from crowdwise.io.conll import is_conll, read_conll
from crowdwise.io.file_columns import FileColumns
from crowdwise.io.source import AnyPath
from crowdwise.io.votes import Exports, Request

__all__ = ["TAG_FORMATS", "read_groups", "read_kind", "read_known", "read_tags"]

Kind = TypeVar("Kind", bound=Answers)
TAG_FORMATS = ("conll", "table", "label-studio", "prodigy", "doccano", "potato", "webanno", "offsets")


def read_kind(path: Any, kind: type[Kind], exports: Exports, **options: Any) -> Kind:
    """Read answers of this kind from a table with one row per answer; options are those of its `from_frame`.

    Numbers, comparisons and tags also come from the exports of platforms, which `exports` knows; `question` picks a question.
    """
    given: Any = kind
    if not (isinstance(given, type) and issubclass(given, Answers)):
        raise InputError(f"expected a kind of answers such as Comparisons or Ratings, got {kind!r}")
    if issubclass(kind, TokenVotes):
        return read_tags(path, kind, exports, **options)
    if issubclass(kind, Ratings | Comparisons):
        from crowdwise.io import platform_answers

        found: Any = platform_answers.read(path, kind, exports, options)
        if found is not None:
            return found  # type: ignore[no-any-return]
        options.pop("question", None)
    file = FileColumns(path)
    try:
        return kind.from_frame(file, **options)
    except InputError as problem:
        raise InputError(f"{problem}{_example(file, options) if issubclass(kind, Ratings) else ''}") from None


def _example(file: FileColumns, options: dict[str, Any]) -> str:
    """The command that names the columns of numbers that annotators gave, where one can be told and none is named."""
    if file.source.kind not in ("delimited", "parquet", "arrow") or any(options.get(role) is not None for role in _RATED):
        return ""
    lost = [role for role in _RATED[:2] if not plays_role(file.names, role)]
    if not lost or not plays_role(file.names, "value"):
        return ""
    from crowdwise.io.roles import by_alias, example_columns

    value = by_alias(file.names, "value")[0]
    found, _ = example_columns(file.source, Request(label=value), lost)
    words = [word for role in lost for word in (f"--{role}", found[role])] if found else []
    return f", for example: {instead('regress', file.name, *words)}" if words else ""


_RATED = ("item", "annotator", "value")
Tags = TypeVar("Tags", bound=TokenVotes)


def read_tags(
    path: Any, kind: type[Tags], exports: Exports, *, format: str | None = None, question: str | None = None, **options: Any
) -> Tags:
    """Read a CoNLL file with a column per annotator, a long table with one row per tag, or what tools that mark text export.

    CoNLL: one token per line, then a tag per annotator, between tabs or blanks; an empty line after every sequence;
    ``?``, ``-`` or nothing between two tabs where an annotator did not label. A first line that begins with "token"
    names the annotators. A table (CSV, TSV, JSONL, Parquet, Arrow) has the columns sequence, position, annotator, label
    and perhaps token. Exports with spans of characters are cut into tokens, see `crowdwise.io.offsets`.

    Parameters
    ----------
    format : str, optional
        What the file is, one of `TAG_FORMATS`; by default its suffix or its content decides.
    question : str, optional
        Which question, or layer, to read where an export has several.
    """
    if format is not None and format not in TAG_FORMATS:
        raise InputError(f"format must be one of {', '.join(TAG_FORMATS)}; got {format!r}")
    classes = options.get("classes")
    named = [name for name, value in options.items() if value is not None and name not in ("classes", "annotator")]
    if format not in ("conll", "table") and not named:
        from crowdwise.io.span_formats import read_spans

        table = read_spans(path, exports, format, question, options.get("annotator"))
        if table is not None:
            return kind.from_columns(table.frame, table.where, classes)
    if format == "conll" or (format is None and not named and options.get("annotator") is None and is_conll(path)):
        table = read_conll(path)
        return kind.from_columns(table.frame, table.where, classes)
    return kind.from_frame(FileColumns(path), **options)


def read_groups(path: AnyPath, votes: Annotations, *, item: str | None = None, group: str | None = None) -> Groups:
    """Read the group of every item from a table with a row per item, or from the votes' own file with a row per vote.

    Parameters
    ----------
    item, group : str, optional
        Names of the columns; by default found among the usual ones.
    """
    table, where = columns_by_role(FileColumns(path), {"item": item, "group": group}, fixed=group is None)
    return encode_groups(votes, table["item"], table["group"], where)


def read_known(path: AnyPath, ratings: Ratings) -> pl.DataFrame:
    """Read known values of some items from a table, for `Ratings.known`."""
    item, value, absent = known_columns(FileColumns(path), ratings.names)
    frame = pl.DataFrame({"item": item} | {name: value[:, k] for k, name in enumerate(ratings.names)})
    return frame.filter(pl.Series(~absent) & frame["item"].is_not_null())
