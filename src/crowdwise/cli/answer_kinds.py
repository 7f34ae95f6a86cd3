"""What votes say, where it is not one class of many without order: ``crowdwise aggregate --type``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.errors import DataWarning, InputError, SettingError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.cli.options import MethodOptions, ReadOptions
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.result import Result

__all__ = ["ORDINAL", "ORDINAL_METHOD", "AnswerKind", "Separator", "Threshold"]

_KIND = "What votes say"
ORDINAL, MULTILABEL, PARTIAL = "ordinal", "multilabel", "partial"
KINDS = ("classes", ORDINAL, MULTILABEL, PARTIAL)
ORDINAL_METHOD = "cumulative-link"
# Kind -> family of its methods, default method.
_TASKS = {MULTILABEL: ("several labels", "label-wise"), PARTIAL: ("partial votes", "partial-dawid-skene")}

AnswerKind = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        rich_help_panel=_KIND,
        help="classes; ordinal: classes in order; multilabel: several labels per item; partial: votes against classes too.",
        show_default="classes",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator", metavar="TEXT", rich_help_panel=_KIND, help="Between the labels of an answer.", show_default="|"
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold", metavar="P", rich_help_panel=_KIND, help="Probability from which a label is chosen.", show_default="0.5"
    ),
]


def check_kind(kind: str | None, separator: str | None, threshold: float | None) -> bool:
    """Refuse unknown kinds and options of others; say whether votes are no classes."""
    if kind is not None and kind not in KINDS:
        raise SettingError(f"--type: no type {kind!r}{did_you_mean(kind, list(KINDS))} (there are {', '.join(KINDS)})")
    for option, value in (("--separator", separator), ("--threshold", threshold)):
        if value is not None and kind != MULTILABEL:
            raise SettingError(f"{option} is about several labels per item; add --type multilabel")
    return kind in _TASKS


def check_order(votes: Annotations, read: ReadOptions) -> None:
    """Refuse classes in alphabetical order, which is no order."""
    if votes.classes.dtype == object and read.classes is None and votes.n_classes > 1:
        found = ",".join(str(name) for name in votes.classes)
        raise InputError(
            f"--type ordinal needs the order of the classes, and the alphabet's is none: give all of them from lowest to "
            f"highest with --classes (found {found})"
        )


def hint_at_kind(votes: Annotations, read: ReadOptions) -> None:
    """Warn of classes that look like sets of labels, or like votes against a class."""
    names = {name for name in votes.classes.tolist() if isinstance(name, str)}
    joined = sorted(name for name in names if "|" in name and names.issuperset(part.strip() for part in name.split("|")))
    against = sorted(name for name in names if name.startswith("!") and name[1:].strip() in names)
    if joined:
        words = (
            f"labels such as {joined[0]!r} look like several labels at once; if items may have several, add --type multilabel"
        )
        warnings.warn(words, DataWarning, stacklevel=2)
    if against:
        words = f"labels such as {against[0]!r} look like votes against a class; if they are, add --type partial"
        warnings.warn(words, DataWarning, stacklevel=2)


def ranked(result: Result) -> pl.DataFrame:
    """The table of items, with the median class and the expected rank from 1."""
    import polars as pl

    from crowdwise.data.encode import series_of
    from crowdwise.kernels.posterior import expected_rank, median_class

    frame = result.items_frame()
    median = series_of(result.votes.classes)[median_class(result.posterior)]
    more = [pl.Series("median", median), pl.Series("expected_rank", expected_rank(result.posterior))]
    names = frame.columns
    return frame.with_columns(more).select(*names[:3], "median", "expected_rank", *names[3:])


def aggregate_others(
    kind: str,
    path: str,
    read: ReadOptions,
    method: MethodOptions,
    output: Path | None,
    annotators: Path | None,
    page: Path | None,
    refused: Mapping[str, Any],
    separator: str | None,
    threshold: float | None,
    as_json: bool,
    quiet: bool,
    safe: bool,
) -> None:
    """Infer sets of labels, or classes from partial votes, and write tables of items and annotators."""
    from crowdwise.cli.inputs import build_task
    from crowdwise.cli.options import TaskOptions
    from crowdwise.cli.outputs import emit, print_json, write
    from crowdwise.cli.pages import write_answers_page
    from crowdwise.cli.text import count, say

    given = dict(refused) | {"--gold": method.gold, "--history": method.history, "--class-prior": method.class_prior}
    given |= {"--worker-prior": method.worker_prior, "--weight": read.weight if kind == MULTILABEL else None}
    for option, value in given.items():
        if value not in (None, False):
            raise SettingError(f"{option} does not go with --type {kind}")
    family, default = _TASKS[kind]
    estimator = build_task(TaskOptions(method=method.method, set=method.set, seed=method.seed), family, default)
    if threshold is not None:
        estimator.set_params(threshold=threshold)
    estimator.fit(_answers(kind, path, read, separator))
    result = estimator.result_
    items = (
        result.items_frame(separator="|" if separator is None else separator) if kind == MULTILABEL else result.items_frame()
    )
    people = result.annotators_frame()
    if kind == MULTILABEL:
        people = people.sort("n_votes", descending=True, maintain_order=True)
    if annotators is not None:
        write(people, annotators, "annotator", quiet, safe)
    sure = items.sort("confidence", maintain_order=True)
    write_answers_page(
        page,
        quiet,
        title="Sets of labels" if kind == MULTILABEL else "Classes from votes for and against them",
        estimator=estimator,
        facts={"Items": items.height, "Annotators": people.height},
        tables={"Items, the least certain first": sure, "Annotators": people},
    )
    plain = items.select(name for name in items.columns if not name.startswith("p("))
    if as_json:
        facts = {"method": estimator.name, "iterations": estimator.n_iter_, "converged": estimator.converged_}
        if output is not None:
            write(items, output, "item", quiet, safe)
        print_json(facts | ({"items": items.to_dicts()} if output is None else {}) | {"annotators": people.to_dicts()})
    elif output is None and sys.stdout.isatty():
        emit(plain, None, "item", limit=10)
    else:
        emit(items, output, "item", quiet=quiet, safe=safe)
    if not quiet:
        state = "converged" if estimator.converged_ else "did not converge"
        sizes = f"{count(items.height, 'item')}, {count(people.height, 'annotator')}"
        say(f"{estimator.name}: {sizes}; {state} after {count(estimator.n_iter_, 'iteration')}")


def _answers(kind: str, path: str, read: ReadOptions, separator: str | None) -> Any:
    """Sets of labels, or votes whose classes are symbols."""
    from crowdwise.cli.inputs import from_path, parse_list, read_votes
    from crowdwise.data.label_sets import ABSTAIN, LabelSets
    from crowdwise.io import read as read_file

    if kind == PARTIAL:
        return read_votes(path, read)
    columns: dict[str, Any] = {"item": read.item, "annotator": read.annotator, "label": read.label}
    how: dict[str, Any] = {"separator": "|" if separator is None else separator, "abstain": (*ABSTAIN, *(read.missing or ()))}
    if read.classes:
        how["labels"] = parse_list(read.classes, "--classes")
    return from_path(path, lambda path: read_file(path, LabelSets, **columns, **how))
