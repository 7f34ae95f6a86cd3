"""What votes say, where it is not one class of many without order: ``crowdwise aggregate --type``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import option
from crowdwise.cli.display import count
from crowdwise.cli.fitting import build_task
from crowdwise.cli.inputs import parse_list, read_answers, read_votes
from crowdwise.cli.job import Job, among
from crowdwise.cli.options import TaskOptions
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.report.label_text import narrow

if TYPE_CHECKING:
    from crowdwise.cli.aggregate import Options
    from crowdwise.cli.options import MethodOptions, ReadOptions
    from crowdwise.data.annotations import Annotations

__all__ = ["ORDINAL", "ORDINAL_METHOD", "TASKS", "KindOptions", "aggregate", "check_classes", "check_kind"]

_KIND = "What votes say"
ORDINAL, MULTILABEL, PARTIAL = "ordinal", "multilabel", "partial"
KINDS = ("classes", ORDINAL, MULTILABEL, PARTIAL)
ORDINAL_METHOD = "cumulative-link"
# Kind -> family of its methods, default method, title of the page.
TASKS = {
    MULTILABEL: ("several labels", "label-wise", "Sets of labels"),
    PARTIAL: ("partial votes", "partial-dawid-skene", "Classes from votes for and against them"),
}
_TYPE = "classes; ordinal: classes in order; multilabel: several labels per item; partial: votes against classes too."


@dataclass(frozen=True, kw_only=True)
class KindOptions:
    """What a vote says."""

    kind: str | None = option("--type", "TYPE", _TYPE, panel=_KIND, shown="classes")
    separator: str | None = option("--separator", "TEXT", "Text between the labels of an answer.", panel=_KIND, shown="|")
    threshold: float | None = option("--threshold", "P", "Probability from which a label is chosen.", panel=_KIND, shown="0.5")


def check_kind(options: KindOptions) -> None:
    """Refuse unknown kinds and options of others."""
    among("--type", options.kind, KINDS)
    for name, value in (("--separator", options.separator), ("--threshold", options.threshold)):
        if value is not None and options.kind != MULTILABEL:
            raise SettingError(f"{name} is about several labels per item; add --type multilabel")


def check_classes(votes: Annotations, read: ReadOptions, ordinal: bool) -> None:
    """Refuse an alphabetical order of classes, which is none; warn of classes that look like sets, or votes against."""
    if ordinal:
        if votes.classes.dtype == object and read.classes is None and votes.n_classes > 1:
            found = ",".join(str(name) for name in votes.classes)
            raise InputError(
                f"--type ordinal needs the order of the classes, and the alphabet's is none: give all of them from lowest to "
                f"highest with --classes (found {found})"
            )
        return
    names = {name for name in votes.classes.tolist() if isinstance(name, str)}
    joined = sorted(name for name in names if "|" in name and names.issuperset(part.strip() for part in name.split("|")))
    against = sorted(name for name in names if name.startswith("!") and name[1:].strip() in names)
    if joined:
        words = f"labels such as {joined[0]!r} look like several labels at once; if items may have several, add"
        warnings.warn(f"{words} --type multilabel", DataWarning, stacklevel=2)
    if against:
        words = f"labels such as {against[0]!r} look like votes against a class; if they are, add --type partial"
        warnings.warn(words, DataWarning, stacklevel=2)


def aggregate(options: Options, read: ReadOptions, method: MethodOptions, job: Job, together: bool) -> None:
    """Infer sets of labels, or classes from partial votes, and write tables of items and annotators."""
    from crowdwise.report.answer_pages import set_page

    kind = str(options.kind)
    if not together:
        raise SettingError(f"--type {kind} reads one file; put these together first")
    refused: dict[str, Any] = {
        "--save": options.save,
        "--warm-from": options.warm_from,
        "--drop-spammers": options.drop_spammers,
    }
    refused |= {"--explain-choice": options.explain_choice, "--confusion": options.confusion, "--gold": method.gold}
    refused |= {"--history": method.history, "--class-prior": method.class_prior, "--annotator-prior": method.annotator_prior}
    refused |= {"--weight": read.weight if kind == MULTILABEL else None}
    for name, value in refused.items():
        if value not in (None, False):
            raise SettingError(f"{name} does not go with --type {kind}")
    family, default, title = TASKS[kind]
    estimator = build_task(TaskOptions(method=method.method, set=method.set, seed=method.seed), family, default)
    if options.threshold is not None:
        estimator.set_params(threshold=options.threshold)
    separator = "|" if options.separator is None else options.separator
    result = estimator.fit(_answers(kind, options.votes[0], read, separator)).result_
    items = result.items_frame(separator=separator) if kind == MULTILABEL else result.items_frame()
    people = result.annotators_frame().sort("n_votes", descending=True, maintain_order=True)
    job.table("--annotators", lambda: people, "annotator")
    job.page(estimator, lambda: set_page(title, items, people))
    facts = {"method": estimator.name, "iterations": estimator.n_iter_, "converged": estimator.converged_}
    job.main(items, "item", document=lambda: facts | {"annotators": people.to_dicts()}, screen=narrow, limit=10)
    job.say(_summary_lines(estimator, items.height, people.height))


def _summary_lines(estimator: Any, n_items: int, n_annotators: int) -> Iterator[str]:
    state = "converged" if estimator.converged_ else "did not converge"
    sizes = f"{count(n_items, 'item')}, {count(n_annotators, 'annotator')}"
    yield f"{estimator.name}: {sizes}; {state} after {count(estimator.n_iter_, 'iteration')}"


def _answers(kind: str, path: str, read: ReadOptions, separator: str) -> Any:
    """Sets of labels, or votes whose classes are symbols."""
    from crowdwise.data.label_sets import ABSTAIN, LabelSets

    if kind == PARTIAL:
        return read_votes(path, read)
    how: dict[str, Any] = {"item": read.item, "annotator": read.annotator, "label": read.label, "separator": separator}
    how["abstain"] = (*ABSTAIN, *(read.missing or ()))
    if read.classes:
        how["labels"] = parse_list(read.classes, "--classes")
    return read_answers(path, LabelSets, **how)
