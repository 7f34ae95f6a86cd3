"""``crowdwise aggregate``: from votes to labels with confidence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli import dependent, sharded
from crowdwise.cli.declare import argument, file, flag, option
from crowdwise.cli.fitting import (
    DEFAULT_METHOD,
    STDIN,
    build,
    build_task,
    check_explainable,
    check_known,
    fit_to,
    noted,
    parse_list,
    read_answers,
    read_gold,
    read_kept,
    read_votes,
    settings_of,
    ways_of_reading,
)
from crowdwise.cli.job import Job, among, count, iterations, say, some
from crowdwise.cli.options import (
    ANNOTATORS,
    FDR,
    MORE,
    PAGE,
    KeepOptions,
    MethodOptions,
    OutputOptions,
    ReadOptions,
    TaskOptions,
)
from crowdwise.cli.sharded import ScaleOptions
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.report.text import beside, by_accuracy, choice_lines, facts, label_rows, narrow, ordinal_frame, summary_lines

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.aggregator import Aggregator
    from crowdwise.estimator.outcome import Result


EXAMPLES = (
    "Example: crowdwise aggregate votes.csv -o labels.csv --annotators annotators.csv --page page.html\n\n"
    "Judges of a few families: crowdwise aggregate verdicts.jsonl --groups families.csv\n\n"
    "Ordered classes: crowdwise aggregate votes.csv --type ordinal --classes bad,ok,good\n\n"
    "Several labels per item: crowdwise aggregate answers.csv --type multilabel\n\n"
    "Many files, out of core: crowdwise aggregate 'votes/*.parquet' --engine local --work-dir work -o labels.parquet\n\n"
    "On a cluster: crowdwise aggregate votes/ --engine ray --address auto --shards 64 -o labels\n\n"
    "Incrementally: crowdwise aggregate monday.csv --save model -o labels.csv, "
    "then crowdwise aggregate tuesday.csv --warm-from model --save model -o labels.csv"
)
_VOTES = (
    "A table of votes or a platform's export; - reads stdin. Several tables, a folder of them, or a pattern such as "
    "'votes/*.parquet' are read as one."
)
# A smaller file fits in memory whatever it holds, so nobody need ask how many votes that are.
_SMALL_FILE = 100_000_000
_KIND = "What votes say"
ORDINAL, MULTILABEL, PARTIAL = "ordinal", "multilabel", "partial"
KINDS = ("classes", ORDINAL, MULTILABEL, PARTIAL)
ORDINAL_METHOD = "cumulative-link"
# Kind -> family of its methods, default method, title of the page.
TASKS = {
    MULTILABEL: ("several labels", "consensus-sets", "Sets of labels"),
    PARTIAL: ("partial votes", "partial-dawid-skene", "Classes from votes for and against them"),
}
_TYPE = "classes; ordinal: classes in order; multilabel: several labels per item; partial: votes against classes too."


@dataclass(frozen=True, kw_only=True)
class KindOptions:
    """What a vote says."""

    kind: str | None = option("--type", "TYPE", _TYPE, panel=_KIND, shown="classes")
    separator: str | None = option("--separator", "TEXT", "Text between the labels of an answer.", panel=_KIND, shown="found")
    threshold: float | None = option("--threshold", "P", "Probability from which a label is chosen.", panel=_KIND, shown="0.5")


@dataclass(frozen=True, kw_only=True)
class Options(KindOptions, OutputOptions):
    """What is read and written."""

    votes: list[str] = argument("VOTES", _VOTES)
    annotators: Path | None = file("--annotators", ANNOTATORS, MORE)
    confusion: Path | None = file("--confusion", "Write the confusion matrix of every annotator.", MORE)
    save: Path | None = option("--save", "DIR", "Save the fitted model in this folder, to continue from it later.", panel=MORE)
    page: Path | None = file("--page", PAGE, MORE)
    warm_from: Path | None = option("--warm-from", "DIR", "Add these votes to those of a saved model and fit them together.")
    groups: Path | None = file(
        "--groups", "Annotators who belong together and count as one, such as judges of one model family: annotator, group."
    )
    drop_spammers: bool = flag("--drop-spammers", "Fit again without the votes of spammers, who are listed.")
    fdr: float = option("--fdr", "SHARE", "Share of wrong flags to expect among the spammers.", FDR)
    fill_unvoted: bool = flag("--fill-unvoted", "Label items without votes, by the most frequent class.")
    explain_choice: bool = flag("--explain-choice", "Print the comparison behind --method auto on stderr.")


def run(options: Options, read: ReadOptions, method: MethodOptions, scale: ScaleOptions, keep: KeepOptions) -> None:
    """Infer the label of every item from the votes of its annotators.

    Without -o the labels go to stdout as CSV; on a terminal, the first of them as a table.
    """
    _check_kind(options)
    dependent.check_groups(options.groups, options.kind in TASKS, options.warm_from, method)
    small = scale == ScaleOptions() and _is_small(options.votes)
    engine = "memory" if small else sharded.chosen_engine(options.votes, scale, method.method, options.quiet)
    job = Job(
        # Labels of shards may go into a folder, which has a check of its own.
        options if engine == "memory" else sharded.without_output(options),
        (*options.votes, method.gold, method.history, options.groups),
        tables={"--annotators": options.annotators, "--confusion": options.confusion},
        page=options.page,
        save=options.save,
    )
    together = small or sharded.is_one_file(options.votes)
    if engine != "memory" or not together:
        from crowdwise.scale.places import check_places

        beside = (method.gold, method.history, options.groups)
        check_places({**job.places, "-o": options.output}, options.votes, beside, scale.work_dir)
    if engine != "memory" and options.groups is not None:
        raise SettingError("--groups needs the votes in memory; leave --engine out, or count the members as they are")
    if keep.keep is not None and (engine != "memory" or not together or options.kind in TASKS):
        raise SettingError("--keep needs one file of votes for classes, in memory; join the columns to the labels instead")
    if engine != "memory":
        sharded.aggregate(engine, options, read, method, scale, job)
    elif options.kind in TASKS:
        _aggregate_kind(options, read, method, job, together)
    else:
        _aggregate(options, read, method, job, together, keep)


def _is_small(paths: list[str]) -> bool:
    """Whether there is one file, or stdin, that memory can hold for sure."""
    path = Path(paths[0])
    return len(paths) == 1 and (paths[0] == STDIN or (path.is_file() and path.stat().st_size < _SMALL_FILE))


def _aggregate(options: Options, read: ReadOptions, method: MethodOptions, job: Job, together: bool, keep: KeepOptions) -> None:
    """Fit to votes for one class per item and write what was asked for, the labels last."""
    if options.drop_spammers:
        from crowdwise.trust.crowd.report import check_level

        check_level(options.fdr)
    votes, estimator = _fitted(options, read, method, together)
    result: Result = estimator.result_
    # What is saved: the estimator, for online methods continue from a state that a result does not hold.
    saved: Aggregator | Result = estimator
    dropped: list[Any] = []
    if options.drop_spammers:
        result, dropped = _without_spammers(result, options.fdr)
        saved = result if dropped else estimator
    result, more = dependent.cautious(result, method.trusted)
    if saved is estimator:
        # What is opened later says the same as what is written now.
        estimator.keep_outcome(result)
    else:
        saved = result
    if votes is not None:
        more |= {"n_votes": votes.n_votes, "n_annotators": votes.n_annotators}
    items = (
        ordinal_frame(result, options.fill_unvoted)
        if options.kind == ORDINAL
        else result.items_frame(fill_unvoted=options.fill_unvoted)
    )
    if votes is not None:
        items = dependent.counted(items, votes)
    about = read_kept(options.votes[0], keep, read, result.votes)
    if about is not None:
        items = beside(items, about)
    if options.page is not None:
        from crowdwise.report import write_page

        job.file("--page", lambda path: write_page(result, path, about=about))
    job.file("--save", saved.save)
    job.table("--confusion", result.confusion_frame, "row")
    job.table("--annotators", lambda: by_accuracy(result), "annotator")
    if dropped:
        more["dropped_annotators"] = dropped
    job.main(
        items,
        "item",
        document=lambda: facts(result) | more | {"annotators": by_accuracy(result).to_dicts()},
        key="labels",
        rows=lambda: label_rows(result, items),
        screen=narrow,
        limit=10,
    )
    job.say(summary_lines(result, read=votes, fill_unvoted=options.fill_unvoted))
    # The table is asked for, quiet or not; stderr, as stdout is for labels.
    for line in choice_lines(estimator, not options.quiet, options.explain_choice):
        say(line)


def _fitted(
    options: Options, read: ReadOptions, method: MethodOptions, together: bool
) -> tuple[Annotations | None, Aggregator]:
    """The method fitted to the votes, or a saved model with the votes added; and the votes, where groups were made of them."""
    if options.warm_from is not None:
        if not together:
            raise SettingError("--warm-from reads one file; put these together first")
        return None, _update(options.warm_from, options, read, method)
    ordinal = options.kind == ORDINAL
    default = ORDINAL_METHOD if ordinal else DEFAULT_METHOD
    estimator = build(method, default)
    check_explainable(estimator, options.explain_choice)
    # --type classes says that they are; without it, cells that look like several labels are refused.
    several = "keep" if options.kind == KINDS[0] else None
    data = read_votes(options.votes[0], read, several) if together else sharded.gathered(options.votes, read, options.quiet)
    _check_classes(data, read, ordinal)
    check_known(data, {"--annotators": options.annotators, "--confusion": options.confusion, "--groups": options.groups})
    check_known(data, {"--drop-spammers": options.drop_spammers, "--history": method.history})
    if options.groups is None:
        return None, fit_to(data, estimator, method, options.quiet)
    return data, fit_to(dependent.grouped(data, options.groups, options.quiet), estimator, method, options.quiet)


def _update(folder: Path, options: Options, read: ReadOptions, method: MethodOptions) -> Aggregator:
    """Fold votes into a saved model."""
    from crowdwise.estimator.loading import load
    from crowdwise.estimator.registry import label_methods

    if method.gold_is is not None:
        raise SettingError("--gold-is does not go with --warm-from; fit all votes together")
    if method.history is not None:
        raise SettingError("--history was part of the first fit and is kept; leave it out with --warm-from")
    estimator: Any = load(folder)
    if estimator.name not in label_methods():
        raise SettingError(f"{folder} holds a classifier ({estimator.name}); train it on all votes with crowdwise train")
    if method.method not in (None, estimator.name):
        raise SettingError(f"{folder} was fitted with {estimator.name}, so --method {method.method} cannot continue from it")
    check_explainable(estimator, options.explain_choice)
    estimator.set_params(**settings_of(method, list(estimator.get_params())))
    fresh = read_votes(options.votes[0], read)
    # Gold may be of items of earlier fits, so it is checked against all of them, by `update`.
    gold = read_gold(method.gold, None)
    with iterations(estimator, options.quiet) as progress:
        updated: Aggregator = estimator.update(fresh, gold=gold, progress=progress)
    return updated


def _without_spammers(result: Result, fdr: float) -> tuple[Result, list[Any]]:
    """Refit without the flagged annotators and name them, quiet or not: nobody is dropped silently."""
    from crowdwise.trust.crowd import spammers
    from crowdwise.trust.crowd.pruning import refit_without

    dropped = spammers.score(result, fdr=fdr).flagged
    if dropped:
        say(f"dropped {count(len(dropped), 'spammer')}: {some(dropped, len(dropped))}")
    return refit_without(result, dropped), dropped


# -- votes that are not for one class of many without order: --type ------------------------------


def _check_kind(options: KindOptions) -> None:
    """Refuse unknown kinds and options of others."""
    among("--type", options.kind, KINDS)
    for name, value in (("--separator", options.separator), ("--threshold", options.threshold)):
        if value is not None and options.kind != MULTILABEL:
            raise SettingError(f"{name} is about several labels per item; add --type multilabel")


def _check_classes(votes: Annotations, read: ReadOptions, ordinal: bool) -> None:
    """Refuse an alphabetical order of classes, which is none; warn of classes that look like votes against."""
    if ordinal:
        if votes.classes.dtype == object and read.classes is None and votes.n_classes > 1:
            found = ",".join(str(name) for name in votes.classes)
            raise InputError(
                f"--type ordinal needs the order of the classes, and the alphabet's is none: give all of them from lowest to "
                f"highest with --classes (found {found})"
            )
        return
    names = {name for name in votes.classes.tolist() if isinstance(name, str)}
    against = sorted(name for name in names if name.startswith("!") and name[1:].strip() in names)
    if against:
        words = f"labels such as {against[0]!r} look like votes against a class; if they are, add --type partial"
        warnings.warn(words, DataWarning, stacklevel=2)


def _aggregate_kind(options: Options, read: ReadOptions, method: MethodOptions, job: Job, together: bool) -> None:
    """Infer sets of labels, or classes from partial votes, and write tables of items and annotators."""
    from crowdwise.report.answer_pages import set_page
    from crowdwise.report.answer_text import set_lines

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
    refused["--trusted"] = method.trusted
    if kind == MULTILABEL:
        refused |= {
            "--weight": read.weight,
            "--repeats": read.repeated_votes,
            "--one-label": read.one_label,
            "--gold-is": method.gold_is,
        }
        if method.gold is not None:
            raise SettingError("--gold does not go with --type multilabel; gold in the file itself is used")
    for name, value in refused.items():
        if value not in (None, False):
            raise SettingError(f"{name} does not go with --type {kind}")
    family, default, title = TASKS[kind]
    estimator = build_task(TaskOptions(method=method.method, set=method.set, seed=method.seed), family, default)
    if options.threshold is not None:
        estimator.set_params(threshold=options.threshold)
    result = estimator.fit(_read_kind(kind, options.votes[0], read, options.separator)).result_
    items = result.items_frame(separator=options.separator or "|") if kind == MULTILABEL else result.items_frame()
    people = result.annotators_frame().sort("n_votes", descending=True, maintain_order=True)
    job.table("--annotators", lambda: people, "annotator")
    job.page(estimator, lambda: set_page(title, items, people))
    facts = {"method": estimator.name, "iterations": estimator.n_iter_, "converged": estimator.converged_}
    job.main(items, "item", document=lambda: facts | {"annotators": people.to_dicts()}, screen=narrow, limit=10)
    job.say(_summary_lines(estimator, items.height, people.height))
    if kind == MULTILABEL:
        job.say(set_lines(result))


def _summary_lines(estimator: Any, n_items: int, n_annotators: int) -> Iterator[str]:
    state = "converged" if estimator.converged_ else "did not converge"
    sizes = f"{count(n_items, 'item')}, {count(n_annotators, 'annotator')}"
    yield f"{estimator.name}: {sizes}; {state} after {count(estimator.n_iter_, 'iteration')}"


def _read_kind(kind: str, path: str, read: ReadOptions, separator: str | None) -> Any:
    """Sets of labels, or votes whose classes are symbols."""
    from crowdwise.data.label_sets import ABSTAIN, LabelSets

    if kind == PARTIAL:
        return read_votes(path, read, "keep")
    how: dict[str, Any] = {"separator": separator, "abstain": (*ABSTAIN, *(read.missing or ()))} | ways_of_reading(read)
    if read.classes:
        how["labels"] = parse_list(read.classes, "--classes")
    with noted() as notes:
        return read_answers(path, LabelSets, read, **how, notes=notes)
