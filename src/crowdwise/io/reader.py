"""Read votes, and answers of other kinds, from any file that is recognised.

Every format stands in one table: its name, what it is, and by which marks a file of it is recognised. A platform is a line here
and a module of `crowdwise.io.platforms` with `read(source, request)`. Marks are data, so that a file is recognised without
loading the readers of other platforms. Where names alone do not decide, the module also has `matches(source)`, which looks at
the first record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Protocol, TypeVar, cast, overload

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers
from crowdwise.data.encode import ALIASES
from crowdwise.data.gold import GoldConflict
from crowdwise.errors import InputError, did_you_mean
from crowdwise.io.source import AnyPath, Source, open_source
from crowdwise.io.votes import (
    Export,
    Exports,
    Request,
    assemble,
    column_names,
    item_column,
    note_repeats,
    read_columns,
    read_tidy,
)

__all__ = ["FORMATS", "TABLES", "Platform", "detect", "find_format", "find_platform", "read"]
__all__ += ["read_export", "recognised"]


TABLES: dict[str, str] = {
    "tidy": "one row per vote with item, annotator and label, in any of the next five",
    "csv": "comma-separated text, also .csv.gz; the separators ; tab and | are found",
    "tsv": "tab-separated text, also .tsv.gz",
    "jsonl": "one JSON object per line (.jsonl, .ndjson), also .gz; or a JSON list of objects (.json)",
    "parquet": "Parquet; only the needed columns are read",
    "arrow": "Arrow IPC or Feather (.arrow, .ipc, .feather)",
    "wide": "a row per item, a column per annotator, empty cells (or -1) for absent votes",
    "lists": "a row per item, with lists of annotators and of labels in its cells",
    "counts": "votes counted per class, in a column each or in a mapping per record; nobody knows who voted",
    "keyed": "JSON with an entry per item, and lists, comma-separated text or answers in its fields",
    "answers": "LabelMe / CrowdLayer answers.txt: numbers between spaces, items x annotators, -1 for absent votes",
}
LAYOUTS = ("wide", "lists", "counts", "keyed")
_TEXT, _JSON, _BINARY = ("delimited",), ("json", "jsonl"), ("parquet", "arrow")


class Reader(Protocol):
    """A module that reads the exports of one platform."""

    def read(self, source: Source, request: Request) -> Export:
        """Return the votes of the export."""
        ...


@dataclass(frozen=True)
class Platform:
    """A platform whose exports are read.

    Attributes
    ----------
    module
        Its module in `crowdwise.io.platforms`.
    kinds
        Kinds of files (`Source.kind`).
    marks
        Columns of a table, or keys of the first JSON record, also ``outer.inner``: of each group one must be there. ``*``
        stands for any text.
    inspects
        Whether the module's `matches` has the last word.
    folders
        Whether an export may be a folder, or several files; the first of them is looked at.
    weights
        Whether a column of weights may be named.
    """

    name: str
    module: str
    description: str
    kinds: tuple[str, ...]
    marks: tuple[tuple[str, ...], ...] = ()
    inspects: bool = False
    folders: bool = False
    weights: bool = False

    def load(self) -> Reader:
        """The platform's module."""
        return cast("Reader", import_module(f"crowdwise.io.platforms.{self.module}"))

    def matches(self, source: Source) -> bool:
        """Say whether the fields are this platform's."""
        first = source.parts[0] if self.folders and source.parts else source
        if first.kind not in self.kinds:
            return False
        if not all(any(_has(first.field_names, mark) for mark in group) for group in self.marks):
            return False
        return not self.inspects or bool(import_module(f"crowdwise.io.platforms.{self.module}").matches(source))


def _has(names: list[str], mark: str) -> bool:
    """Whether a name fits the mark; plain marks are not tried as patterns, for a table may have 100,000 columns."""
    return any(fnmatchcase(name, mark) for name in names) if "*" in mark else mark in names


# From the most to the least telling fields: the last three would also fit files of others.
_PLATFORMS = (
    Platform(
        "mturk", "mturk", "Mechanical Turk batch CSV: HITId, WorkerId, Answer.*; rejected assignments are left out",
        _TEXT, (("HITId",), ("WorkerId",), ("Answer.*",)), weights=True,
    ),
    Platform(
        "mturk-api", "mturk_api",
        "Mechanical Turk API assignments as JSON: HITId, WorkerId, Answer as QuestionFormAnswers XML",
        _JSON, (("Assignments", "HITId"),), inspects=True,
    ),
    Platform(
        "toloka", "toloka", "Toloka TSV: INPUT:*, OUTPUT:*, ASSIGNMENT:worker_id; GOLDEN:* becomes gold",
        _TEXT, (("ASSIGNMENT:worker_id",), ("OUTPUT:*",)), weights=True,
    ),
    Platform(
        "zooniverse", "zooniverse",
        "Zooniverse classification CSV: subject_ids, user_name, annotations as JSON by task; gold_standard becomes gold",
        _TEXT, (("subject_ids",), ("user_name",), ("annotations",)),
    ),
    Platform(
        "appen", "appen",
        "Appen full CSV: _unit_id, _worker_id, <question>, <question>_gold; weight='_trust' weighs by trust",
        _TEXT, (("_unit_id",), ("_worker_id",)), weights=True,
    ),
    Platform(
        "labelbox", "labelbox", "Labelbox export v2 NDJSON: data_row.id, projects.*.labels with classifications by name",
        _JSON, (("data_row",), ("projects",)), inspects=True,
    ),
    Platform(
        "label-studio", "label_studio",
        "Label Studio JSON: tasks with annotations; ground_truth becomes gold, predictions vote as model:<version> if asked",
        _JSON, (("annotations", "completions"),), inspects=True,
    ),
    Platform(
        "label-studio-min", "label_studio_table",
        "Label Studio CSV or JSON_MIN: id, annotator, annotation_id and a column per question",
        _TEXT + _JSON, (("id",), ("annotator",), ("annotation_id",)),
    ),
    Platform(
        "argilla", "argilla",
        "Argilla 2.x records: responses by question and user; drafts and discarded ones are missing, suggestions vote if asked",
        _JSON + _BINARY, (("responses", "*.responses"),), inspects=True,
    ),
    Platform(
        "sagemaker", "sagemaker",
        "SageMaker Ground Truth: annotationsFromAllWorkers manifest, consolidation request, or worker-response folder",
        _JSON, (("*.annotationsFromAllWorkers", "datasetObjectId", "answers"),), inspects=True, folders=True,
    ),
    Platform(
        "prodigy", "prodigy",
        "Prodigy JSONL: _input_hash, _annotator_id or _session_id, answer, accept; ignored answers are missing",
        _JSON, (("answer",), ("_input_hash", "_task_hash")),
    ),
    Platform(
        "doccano", "doccano", "doccano: a folder with <user>.jsonl files, or several files; the annotator is the file name",
        _JSON, (("id",), ("text",), ("label", "labels", "entities")), inspects=True, folders=True,
    ),
    Platform(
        "potato", "potato",
        "Potato annotated_instances.jsonl: label_annotations by schema; the annotator is user_id or the folder of the file",
        _JSON, (("id", "instance_id"), ("label_annotations", "span_annotations")), folders=True,
    ),
    Platform(
        "cvat", "cvat", 'CVAT XML "for images": tags of images are votes, the annotator is the file name or the assignee',
        ("xml",), inspects=True, folders=True,
    ),
    Platform(
        "judges", "judges",
        'LLM-judge votes as JSONL: id, judge or model, verdict or score; or "judgments": [{judge, label}] below an item',
        _JSON, (("item*", "*id", "key"), ("judg*", "model*", "verdicts", "votes", "ratings")), inspects=True,
    ),
    Platform("peerannot", "peerannot", "peerannot answers.json: {item: {annotator: label}}", ("json",), inspects=True),
)  # fmt: skip

FORMATS: dict[str, str] = TABLES | {platform.name: platform.description for platform in _PLATFORMS}
"""Name and one-line description of every format that `read` knows."""


def find_format(source: Source, given: str | None, request: Request | None = None) -> str:
    """Return the format to use: the given name, checked, or the one recognised."""
    request = request or Request()
    if given is not None:
        if given not in FORMATS:
            raise InputError(f"unknown format {given!r}{did_you_mean(given, list(FORMATS))}; known are {', '.join(FORMATS)}")
        return given
    if source.parts == ():
        raise InputError(f"{source.name}: a folder without .json, .jsonl or .xml files; name a file")
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
    return next((platform for platform in _PLATFORMS if platform.matches(source)), None)


def _is_long(source: Source, request: Request) -> bool:
    """Whether the names of columns, or what the user says of them, are those of a table with a row per vote."""
    plain = {"".join(c for c in name.lower() if c.isalnum()) for name in source.columns}
    given = {"annotator": request.annotator, "label": request.label or request.question}
    return all(name is not None or not plain.isdisjoint(ALIASES[role]) for role, name in given.items())


def find_platform(name: str) -> Platform:
    """The platform of this name."""
    return next(platform for platform in _PLATFORMS if platform.name == name)


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
        With `gold` where the export marks known answers.

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
    wanted |= {"several": "keep"} if classes is not None else {}
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
        votes = assemble(export, request, classes=classes, missing=missing)
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
    return votes


def _exported(path: AnyPath | Sequence[AnyPath], request: Request) -> tuple[Source, str, Export]:
    """The file, its format, and what it holds."""
    source = open_source(path)
    if not request.header and source.kind != "matrix":
        from crowdwise.io.wide import Headless

        if source.kind != "delimited":
            raise InputError(f"{source.name}: --no-header (header=False) is about CSV and TSV files, not {source.kind}")

        source = Headless(source.path, source.name, source.parts)
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
        return any(isinstance(value, list | dict) for value in source.first.values())
    return source.kind == "delimited" and any(mark in source.data[:4096] for mark in (b"[0", b"[1", b'":', b"':"))


def _doubt_item(source: Source, request: Request) -> None:
    """Refuse the column that was taken as the item, where another is clearly meant."""
    from crowdwise.io.roles import doubt_item

    records = source.records if source.kind in ("json", "jsonl") else []
    names = [name for name in column_names(source) if not any(isinstance(record.get(name), dict) for _, record in records)]
    doubt_item(read_columns(source, names).frame, source.name, request, item_column(source, request))


def read_export(source: Source, name: str, request: Request) -> Export:
    """Read what a file of the named format holds; columns that it cannot have are refused."""
    if name == "answers":
        from crowdwise.io.wide import read_answers

        return read_answers(source)
    if name in LAYOUTS:
        from crowdwise.io.layouts import read_layout

        return read_layout(source, name, request)
    if name in TABLES:
        return read_tidy(source, request)
    platform = find_platform(name)
    kinds = {part.kind for part in source.parts or () if platform.folders} or {source.kind}
    if not kinds <= set(platform.kinds):
        raise InputError(
            f"{source.name}: {', '.join(sorted(kinds - set(platform.kinds)))} content, and {name} exports are "
            f"{' or '.join(platform.kinds)}; leave format= or --format out, and it is recognised"
        )
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
    except (InputError, MemoryError):
        raise
    except Exception as error:
        # The first record was recognised; readers trust the shape from there instead of checking every level.
        raise InputError(
            f"{source.last_place}: recognised as {name}, but this record is not shaped like it; "
            "export it again, or name another format with format=... or --format"
        ) from error
