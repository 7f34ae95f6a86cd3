"""Every format that is read, in one table: its name, what it is, and by which marks a file of it is recognised.

A platform is a line here and a module of `crowdwise.io.platforms` with `read(source, request)`. Marks are data, so that a
file is recognised without loading the readers of other platforms. Where names alone do not decide, the module also has
`matches(source)`, which looks at the first record.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from crowdwise.errors import InputError, did_you_mean
from crowdwise.io.exports import Export, Request
from crowdwise.io.source import Source

__all__ = ["FORMATS", "LAYOUTS", "PLATFORMS", "TABLES", "Platform", "Reader"]


TABLES: dict[str, str] = {
    "tidy": "one row per vote with item, annotator and label, in any of the next five",
    "csv": "comma-separated text, also .csv.gz; the separators ; tab and | are found",
    "tsv": "tab-separated text, also .tsv.gz",
    "jsonl": "one JSON object per line (.jsonl, .ndjson), also .gz; or a JSON list of objects (.json)",
    "parquet": "Parquet; only the needed columns are read",
    "arrow": "Arrow IPC or Feather (.arrow, .ipc, .feather)",
    "wide": "a row per item, a column per annotator, empty cells (or -1) for absent votes",
    "lists": "a row per item, with lists of annotators and of labels in its cells",
    "pairs": "a row per item, pairs of columns for who voted and what: annotator_1, label_1, annotator_2, label_2",
    "counts": "votes counted per class, in columns, a mapping per record, or rows of item and label; nobody knows who voted",
    "keyed": "JSON with an entry per item, and lists, comma-separated text or answers in its fields",
    "answers": "LabelMe / CrowdLayer answers.txt: numbers between spaces, items x annotators, -1 for absent votes",
}
LAYOUTS = ("wide", "lists", "pairs", "counts", "keyed")
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

    def inspect(self, source: Source) -> bool:
        """What the module itself says of a file whose fields fit."""
        return not self.inspects or bool(import_module(f"crowdwise.io.platforms.{self.module}").matches(source))

    def read(self, source: Source, request: Request) -> Export:
        """Read an export; columns that it cannot have are refused."""
        kinds = {part.kind for part in source.parts or () if self.folders} or {source.kind}
        if not kinds <= set(self.kinds):
            raise InputError(
                f"{source.name}: {', '.join(sorted(kinds - set(self.kinds)))} content, and {self.name} exports are "
                f"{' or '.join(self.kinds)}; leave format= or --format out, and it is recognised"
            )
        given = {"item": request.item, "annotator": request.annotator, "weight": request.weight}
        for role, column in given.items():
            if column is None:
                continue
            if source.kind != "delimited" or (role == "weight" and not self.weights):
                raise InputError(
                    f"{source.name}: a {self.name} export has no column for the {role}; leave {role}= out, "
                    "or read it with format='tidy'"
                )
            if column not in source.columns:
                raise InputError(
                    f"{source.name}: no column {column!r}; found {', '.join(map(repr, source.columns))}"
                    + did_you_mean(column, source.columns)
                )
        try:
            return self.load().read(source, request)
        except (InputError, MemoryError):
            raise
        except Exception as error:
            # The first record was recognised; readers trust the shape from there instead of checking every level.
            raise InputError(
                f"{source.last_place}: recognised as {self.name}, but this record is not shaped like it; "
                "export it again, or name another format with format=... or --format"
            ) from error


# From the most to the least telling fields: the last three would also fit files of others.
PLATFORMS = (
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
        _JSON, (("item*", "*id", "key"), ("judg*", "model*", "grader*", "evaluator", "verdicts", "votes", "ratings")),
        inspects=True,
    ),
    Platform("peerannot", "peerannot", "peerannot answers.json: {item: {annotator: label}}", ("json",), inspects=True),
)  # fmt: skip

FORMATS: dict[str, str] = TABLES | {platform.name: platform.description for platform in PLATFORMS}
"""Name and one-line description of every format that `read` knows."""
