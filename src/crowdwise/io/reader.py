"""Read votes, and answers of other kinds, from any file that is recognised.

A file is of the platform whose marks it has (`crowdwise.io.formats`), else of a layout (`crowdwise.io.layouts`),
else a long table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar, overload

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers
from crowdwise.data.encode import ALIASES
from crowdwise.data.gold import GoldConflict, GoldDecides, decided_by_gold
from crowdwise.errors import ArgumentError, InputError, did_you_mean
from crowdwise.io.advice import instead
from crowdwise.io.formats import FORMATS, LAYOUTS, PLATFORMS, TABLES, Platform
from crowdwise.io.source import AnyPath, Source, open_source
from crowdwise.io.votes import Export, Exports, Request, assemble, item_column, note_repeats, read_tidy

__all__ = ["FORMATS", "detect", "find_format", "find_platform", "read", "read_export", "recognised"]


def find_format(source: Source, given: str | None, request: Request | None = None) -> str:
    """Return the format to use: the given name, checked, or the one recognised."""
    request = request or Request()
    if given is not None:
        if given not in FORMATS:
            raise InputError(f"unknown format {given!r}{did_you_mean(given, list(FORMATS))}; known are {', '.join(FORMATS)}")
        return given
    if source.parts == ():
        raise InputError(f"{source.name}: a folder without .json, .jsonl or .xml files; name a file")
    if source.kind == "delimited" and source.data.startswith(b"#FORMAT=WebAnno"):
        raise InputError(f"{source.name}: WebAnno TSV holds spans of text; read it with {instead('spans', source.name)}")
    platform = recognised(source)
    if platform is not None:
        return platform.name
    if source.kind == "xml":
        raise InputError(f"{source.name}: XML that is not CVAT's; export the votes as CSV or JSON")
    if source.kind == "folder":
        raise InputError(f"{source.name}: a folder, and not one of doccano or SageMaker files; name a file")
    if source.kind == "matrix":
        return "answers"
    if not _is_long(source, request):
        from crowdwise.io.layouts import find_layout

        layout = find_layout(source, request)
        if layout is not None:
            return layout
    if source.kind == "delimited":
        return "tsv" if source.separator == "\t" else "csv"
    return "jsonl" if source.kind == "json" else source.kind


def recognised(source: Source) -> Platform | None:
    """The platform whose export this is, if any."""
    return next((platform for platform in PLATFORMS if _is_of(platform, source)), None)


def _is_of(platform: Platform, source: Source) -> bool:
    """Whether the fields are this platform's."""
    first = source.parts[0] if platform.folders and source.parts else source
    if first.kind not in platform.kinds:
        return False
    if not all(any(_has(first.field_names, mark) for mark in group) for group in platform.marks):
        return False
    return not platform.inspects or platform.inspect(source)


def _has(names: list[str], mark: str) -> bool:
    """Whether a name fits the mark; plain marks are not tried as patterns, for a table may have 100,000 columns."""
    return any(fnmatchcase(name, mark) for name in names) if "*" in mark else mark in names


def _is_long(source: Source, request: Request) -> bool:
    """Whether the names of columns, or what the user says of them, are those of a table with a row per vote."""
    plain = {"".join(c for c in name.lower() if c.isalnum()) for name in source.columns}
    given = {"annotator": request.annotator, "label": request.label or request.question}
    return all(name is not None or not plain.isdisjoint(ALIASES[role]) for role, name in given.items())


def find_platform(name: str) -> Platform:
    """The platform of this name."""
    return next(platform for platform in PLATFORMS if platform.name == name)


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
    probabilities: str | Sequence[str] | None = ...,
    sure: str | None = ...,
    encoding: str | None = ...,
    sheet: str | None = ...,
    skip_rows: int | None = ...,
    max_bytes: int | None = ...,
    annotators: str | Sequence[str] | None = ...,
    exclude: str | Sequence[str] | None = ...,
    header: bool = ...,
    transposed: bool = ...,
    workflow_version: str | None = ...,
    repeats: str = ...,
    time: str | None = ...,
    fold_case: bool = ...,
    spelling: Any = ...,
    several: str = ...,
    notes: list[str] | None = ...,
) -> Annotations: ...
@overload
def read(path: AnyPath | Sequence[AnyPath], kind: type[Kind], **options: Any) -> Kind: ...
def read(path: Any, kind: Any = Annotations, *, max_bytes: int | None = None, **options: Any) -> Any:
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
    probabilities : str or sequence of str, optional
        Votes are distributions: the columns of probabilities, one per class (names, or a pattern such as ``p_*``), or one
        column of lists in the order of `classes`, of mappings from class to probability, or of one probability per row and
        label. Logarithms and percents are understood.
    sure : str, optional
        A column that says how probable the label is (0.8, or 80%); the other classes share the rest.
    encoding : str, optional
        Of text that is not UTF-8, such as ``cp1252``, ``latin-1`` or ``utf-16``.
    sheet : str, optional
        Which sheet of a workbook to read, where several are filled. Workbooks (.xlsx, .xls, .ods) need ``crowdwise[excel]``.
    skip_rows : int, optional
        Rows above the header; those with one filled cell or none are found when left out.
    max_bytes : int, optional
        Most bytes that a compressed file may unfold to; 1 GiB when left out. A plain file has no limit.
    annotators, exclude : str or sequence of str, optional
        Of a table with a column per annotator, the columns that vote and those that do not: names, or patterns such as
        ``label_*``. Found by their labels when left out.
    header : bool
        False for a table without a row of column names.
    transposed : bool
        Whether the table has a row per annotator and a column per item, as answers to a form have.
    workflow_version : str, optional
        Of a Zooniverse export, the versions to read: ``27``, or ``27.36`` alone.
    repeats : "all", "last", "first" or "weight"
        Which of an annotator's votes on one item count; with "weight", all of them weigh as much as one. `time` names the
        column that decides which is last; without one, the order of the file does.
    fold_case : bool
        Whether labels, and annotators, that differ in case, as a_b and a.b, or as 1 and 1.0, are one. White space around
        names and Unicode forms are always unified.
    spelling : mapping or path, optional
        Labels and what they become; or a table with the columns from, to and perhaps role (label, annotator or item).
    several : "refuse" or "keep"
        What becomes of a cell that looks like several labels; see `LabelSets`. Kept, it is one class.
    notes : list, optional
        What was taken for what is appended here, a sentence each.

    Returns
    -------
    Annotations or `kind`
        With `gold` where the export marks known answers. A fit keeps them; where they are most labels, a warning says so.

    Raises
    ------
    InputError
        Names the file, the row (the header of a table is row 1) and the fix.
    """
    if max_bytes is not None:
        from crowdwise.io.limits import limited

        with limited(max_bytes):
            return read(path, kind, **options)
    how = {name: options.pop(name, None) for name in ("encoding", "sheet", "skip_rows")}
    if any(value is not None for value in how.values()):
        from crowdwise.io.opening import opening

        with opening(**how):
            return read(path, kind, **options)
    if kind is Annotations:
        return _read_votes(path, **options)
    from crowdwise.data.label_sets import LabelSets

    if isinstance(kind, type) and issubclass(kind, LabelSets):
        from crowdwise.io.sets import read_sets

        return read_sets(path, kind, _exported, **options)
    from crowdwise.io.kinds import read_kind

    return read_kind(path, kind, Exports(recognised, read_export), **options)


def detect(path: AnyPath | Sequence[AnyPath]) -> str:
    """Return the name, from `FORMATS`, of the format that `read` would use."""
    return find_format(open_source(path), None)


def _read_votes(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str | None = None,
    classes: Sequence[Any] | None = None,
    missing: Iterable[Any] = (),
    probabilities: str | Sequence[str] | None = None,
    sure: str | None = None,
    **wanted: Any,
) -> Annotations:
    notes = wanted.pop("notes", None)
    # Given classes are taken at their word: a label that is several is not among them, or is meant.
    wanted |= {"several": "named"} if classes is not None and wanted.get("several") != "keep" else {}
    markers = [missing] if isinstance(missing, str) else list(missing)
    if classes is not None or markers:
        wanted["minus_one"] = "-1" in map(str, markers) or (None if classes is None else "-1" not in map(str, classes))
    known = [name for name in Request.__dataclass_fields__ if name != "minus_one"]
    for name in wanted.keys() - {*known, "minus_one"}:
        raise ArgumentError(f"read takes no {name}{did_you_mean(name, [*known, 'classes', 'missing', 'probabilities'])}")
    request = Request(format=format, **wanted, notes=[] if notes is None else notes)
    if probabilities is not None or sure is not None:
        from crowdwise.io.soft import read_soft

        return read_soft(open_source(path), request, probabilities, sure, classes)
    source, name, export = _exported(path, request)
    if request.repeats != "all":
        from crowdwise.io.repeats import prepared

        export = prepared(export, source, request)
    guessed = request.item is None and name in TABLES and name not in LAYOUTS
    try:
        votes = assemble(export, request, classes=classes, missing=markers)
    except GoldConflict:
        if guessed:
            _doubt_item(source, request)
        raise
    if request.weight is not None:
        from crowdwise.io.soft import warn_of_shares

        warn_of_shares(votes, source.name, request.weight)
    if request.repeats == "all" and not votes.anonymous:
        n = note_repeats(votes, source.name, request)
        if guessed and 2 * n > votes.n_votes:
            _doubt_item(source, request)
    measured = "fit votes.with_gold(None) and compare its labels with votes.gold_labels()"
    if votes.n_gold and (decided := decided_by_gold(votes, measured)):
        warnings.warn(f"{source.name}: {decided}", GoldDecides, stacklevel=3)
    return votes


def _exported(path: AnyPath | Sequence[AnyPath], request: Request) -> tuple[Source, str, Export]:
    """The file, its format, and what it holds."""
    source = open_source(path)
    named = (request.item, request.annotator, request.label, request.annotators) != (None,) * 4
    if not request.header and (source.kind != "matrix" or named):
        from crowdwise.io.headless import Headless

        if source.kind not in ("delimited", "matrix"):
            raise InputError(f"{source.name}: --no-header (header=False) is about CSV and TSV files, not {source.kind}")

        source = Headless(source.path, source.name, source.parts, source.content)
    if request.label is not None:
        from crowdwise.io.ticks import ticked

        source = ticked(source, request)
    name = find_format(source, request.format, request)
    if (
        (name in TABLES or name in ("judges", "doccano"))
        and name not in (*LAYOUTS, "answers")
        and _may_be_distributions(source)
    ):
        from crowdwise.io.soft import refuse_distributions

        refuse_distributions(source, request)
    return source, name, read_export(source, name, request)


def _may_be_distributions(source: Source) -> bool:
    """Whether cells of the first rows begin as lists or mappings of numbers do."""
    if source.kind in ("json", "jsonl"):
        opens = [value if isinstance(value, list | dict) else str(value).lstrip()[:1] for value in source.first.values()]
        return any(isinstance(value, list | dict) or value in ("[", "{") for value in opens)
    return source.kind == "delimited" and any(mark in source.data[:4096] for mark in (b"[0", b"[1", b'":', b"':"))


def _doubt_item(source: Source, request: Request) -> None:
    """Refuse the column that was taken as the item, where another is clearly meant."""
    from crowdwise.io.roles import doubt_item

    records = source.records if source.kind in ("json", "jsonl") else []
    names = [name for name in source.names if not any(isinstance(record.get(name), dict) for _, record in records)]
    doubt_item(source.table(names).frame, source.name, request, item_column(source, request))


def read_export(source: Source, name: str, request: Request) -> Export:
    """Read what a file of the named format holds; columns that it cannot have are refused."""
    if name == "answers":
        from crowdwise.io.wide import read_answers

        return read_answers(source, request)
    if name in LAYOUTS:
        from crowdwise.io.layouts import read_layout

        return read_layout(source, name, request)
    if name in TABLES:
        return read_tidy(source, request)
    return find_platform(name).read(source, request)
