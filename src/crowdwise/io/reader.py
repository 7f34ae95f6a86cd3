"""Read votes, and answers of other kinds, from any file that is recognised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, overload

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers
from crowdwise.errors import InputError, did_you_mean
from crowdwise.io.export import Export, Request, assemble
from crowdwise.io.formats import TABLES, find_format, find_platform
from crowdwise.io.matrix import read_answers, read_wide
from crowdwise.io.source import AnyPath, Source, open_source
from crowdwise.io.tables import read_tidy

__all__ = ["detect", "read", "read_export"]

Kind = TypeVar("Kind", bound=Answers)


@overload
def read(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str | None = ...,
    item: str | None = ...,
    annotator: str | None = ...,
    label: str | None = ...,
    weight: str | None = ...,
    classes: Sequence[Any] | None = ...,
    missing: Iterable[Any] = ...,
    question: str | None = ...,
    predictions: bool = ...,
) -> Annotations: ...
@overload
def read(path: AnyPath | Sequence[AnyPath], kind: type[Kind], **options: Any) -> Kind: ...
def read(path: Any, kind: Any = Annotations, **options: Any) -> Any:
    """Read answers from a table, or votes for classes from a platform's export.

    Parameters
    ----------
    path : path or sequence of paths
        A file; for doccano and SageMaker also a folder or several files.
    kind : type
        What the file holds: `Annotations`, `Comparisons`, `Similarities`, `Ratings`, `TokenVotes` or `LabelSets`. Kinds other
        than `Annotations` come from a table (CSV, TSV, JSONL, JSON, Parquet, Arrow; text also with .gz after it) and take
        the options of their `from_frame`; `TokenVotes` also come from CoNLL files, see `read_tags`.
    format : str, optional
        A name from `FORMATS`; recognised from suffix and content when left out.
    item, annotator, label, weight : str, optional
        Column names; found by the usual aliases when left out. Votes are weighted only on request.
    classes : sequence, optional
        All classes, in order; a label outside them is an error. Default: those that occur.
    missing : iterable
        Answers that mean "don't know"; they are dropped and counted like empty ones.
    question : str, optional
        Which question to read where an export holds several.
    predictions : bool
        Whether a platform's model predictions vote, as annotators ``model:<version>``.

    Returns
    -------
    Annotations or `kind`
        With `gold` where the export marks known answers.

    Raises
    ------
    InputError
        Names the file, the row (the header of a table is row 1) and the fix.
    """
    if kind is Annotations:
        return _read_votes(path, **options)
    from crowdwise.io.kinds import read_kind

    return read_kind(path, kind, **options)


def detect(path: AnyPath | Sequence[AnyPath]) -> str:
    """Return the name, from `FORMATS`, of the format that `read` would use."""
    return find_format(open_source(path), None)


def _read_votes(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str | None = None,
    classes: Sequence[Any] | None = None,
    missing: Iterable[Any] = (),
    **wanted: Any,
) -> Annotations:
    source, request = open_source(path), Request(**wanted)
    return assemble(read_export(source, find_format(source, format), request), classes=classes, missing=missing)


def read_export(source: Source, name: str, request: Request) -> Export:
    """Read what a file of the named format holds; columns that it cannot have are refused."""
    if name == "wide":
        return read_wide(source, request.item)
    if name == "answers":
        return read_answers(source)
    if name in TABLES:
        return read_tidy(source, request)
    platform = find_platform(name)
    given = {"item": request.item, "annotator": request.annotator, "weight": request.weight}
    for role, column in given.items():
        if column is None:
            continue
        if source.kind != "delimited" or (role == "weight" and not platform.weights):
            raise InputError(
                f"{source.name}: a {name} export has no column for the {role}; leave {role}= out, or read it with format='tidy'"
            )
        if column not in source.columns:
            raise InputError(
                f"{source.name}: no column {column!r}; found {', '.join(map(repr, source.columns))}"
                + did_you_mean(column, source.columns)
            )
    try:
        return platform.load().read(source, request)
    except (AttributeError, IndexError, KeyError, TypeError, UnicodeEncodeError) as error:
        # The first record was recognised; readers trust the shape from there instead of checking every level.
        raise InputError(
            f"{source.last_place}: recognised as {name}, but this record is not shaped like it; "
            "export it again, or name another format with format=... or --format"
        ) from error
