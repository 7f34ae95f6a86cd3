"""``crowdwise aggregate``: from votes to labels with confidence."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import report, scale
from crowdwise.cli import fitting, sharded
from crowdwise.cli.declare import argument, file, flag, folder, group, option, page, panel, share, table
from crowdwise.cli.job import Job, among, progress_of, refuse
from crowdwise.cli.options import ANNOTATORS, EDGES, FDR, GROUPS, MORE, KeepOptions, MethodOptions, OutputOptions, ReadOptions
from crowdwise.cli.sharded import ScaleOptions
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.estimator.registry import METHODS, aggregators
from crowdwise.report.text import beside, ordinal_frame, summary_lines

EXAMPLES = (
    "Example: crowdwise aggregate votes.csv -o labels.csv --annotators annotators.csv --page page.html\n\n"
    "Judges of a few families: crowdwise aggregate verdicts.jsonl --groups families.csv\n\n"
    "Two factions: crowdwise aggregate votes.csv --drop-colluders --trusted ann --readings readings.csv -o labels.csv\n\n"
    "Ordered classes: crowdwise aggregate votes.csv --type ordinal --classes bad,ok,good\n\n"
    "Neighbours on a map or in a text: crowdwise aggregate votes.csv --edges edges.csv\n\n"
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
_TYPE = (
    "What votes are for: classes, ordinal (classes in order), multilabel (several per item) or partial (also against classes)."
)


@panel(_KIND)
class KindOptions:
    """What a vote says."""

    kind: str | None = option("--type", "TYPE", _TYPE, shown="classes")
    separator: str | None = option("--separator", "TEXT", "Text between the labels of an answer.", shown="found")
    threshold: float | None = option("--threshold", "P", "Probability from which a label is chosen.", shown="0.5")


@group
class CostOptions:
    """What labels are chosen by."""

    costs: Path | None = file(
        "--costs", "What mistakes cost: true, label, cost, or a square table. Labels are those expected to cost least."
    )
    abstain: float | None = option(
        "--abstain", "COST", "Cost of giving no label: items whose label is expected to cost more get none."
    )


@group
class Options(KindOptions, CostOptions, OutputOptions):
    """What is read and written."""

    votes: list[str] = argument("VOTES", _VOTES)
    annotators: Path | None = table("--annotators", ANNOTATORS, MORE)
    confusion: Path | None = table("--confusion", "Write the confusion matrix of every annotator.", MORE)
    save: Path | None = folder("--save", "Save the fitted model in this folder, to continue from it later.", MORE)
    page: Path | None = page(panel=MORE)
    warm_from: Path | None = option("--warm-from", "DIR", "Add these votes to those of a saved model and fit them together.")
    groups: Path | None = file("--groups", GROUPS)
    edges: Path | None = file("--edges", EDGES)
    fuse_groups: bool = flag(
        "--fuse-groups", "Count annotators who seem to share errors as one; --trusted and --gold choose who they are."
    )
    drop_colluders: bool = flag(
        "--drop-colluders", "Fit again without groups who share errors and work against the others, who are listed."
    )
    readings: Path | None = table("--readings", "Write the labels by every reading of the votes, where factions exist.", MORE)
    drop_spammers: bool = flag("--drop-spammers", "Fit again without the votes of spammers, who are listed.")
    fdr: float = share("--fdr", "Share of wrong flags to expect among the spammers.", FDR)
    fill_unvoted: bool = flag("--fill-unvoted", "Label items without votes, by the most frequent class.")
    explain_choice: bool = flag("--explain-choice", "Print the comparison behind --method auto on stderr.")


def run(options: Options, read: ReadOptions, method: MethodOptions, where: ScaleOptions, keep: KeepOptions) -> None:
    """Infer the label of every item from the votes of its annotators.

    Without -o the labels go to stdout as CSV; on a terminal, the first of them as a table.
    """
    _check(options, method)
    small = where == ScaleOptions() and _is_small(options.votes)
    engine = "memory" if small else sharded.chosen_engine(options.votes, where, method.method)
    # Labels of shards may go into a folder, which has a check of its own.
    job = Job(options if engine == "memory" else replace(options, output=None), method)
    together, several = small, options.kind in (MULTILABEL, PARTIAL)
    if not small:
        together = scale.places.is_one_file(options.votes)
        if engine != "memory" or not together:
            scale.places.check_places({**job.places, "-o": options.output}, options.votes, job.reads, where.work_dir)
    if engine != "memory" or not together or several:
        refuse("{} needs one file of votes for classes, in memory; join the columns to the labels instead", (keep, ["keep"]))
    if engine != "memory":
        sharded.aggregate(engine, options, read, method, where, job)
    elif several:
        from crowdwise.cli import label_sets

        label_sets.aggregate(options, read, method, job, together)
    else:
        _aggregate(options, read, method, job, together, keep)


def _check(options: Options, method: MethodOptions) -> None:
    """Refuse unknown kinds of votes, and options that do not go together."""
    among("--type", options.kind, KINDS)
    if options.annotators is not None and not options.annotators.suffix and str(options.annotators) != fitting.STDIN:
        raise SettingError("--annotators writes a table (.csv ...); columns that vote are named by --annotator-columns")
    if options.kind == MULTILABEL:
        refuse(
            "{} is for one class per item; with --type multilabel, --threshold weighs the two mistakes",
            (options, ["costs", "abstain"]),
        )
    else:
        refuse("{} is about several labels per item; add --type multilabel", (options, ["separator", "threshold"]))
    if options.kind not in (None, KINDS[0]):
        refuse("{} is for votes with one class per item, in no order; it does not go with this --type", (options, ["edges"]))
    if options.kind in (MULTILABEL, PARTIAL):
        words = "{} is for votes with one class per item; it does not go with this --type"
        refuse(words, (options, ["groups", "fuse_groups", "drop_colluders", "readings"]))
    if options.groups is not None:
        fitting.check_groups(method, (options, ["warm_from", "fuse_groups", "drop_colluders"]))
    if options.fuse_groups:
        words = "{} does not go with --fuse-groups, which makes one annotator of several; leave one out"
        refuse(words, (options, ["warm_from", "drop_colluders"]), (method, ["history"]))
    if method.gold_is == "truth":
        words = "{} changes labels after they are compared with gold; leave out --gold-is truth, and compare the labels written"
        refuse(words, (options, ["fuse_groups", "drop_colluders"]))


def _is_small(paths: list[str]) -> bool:
    """Whether there is one file, or stdin, that memory can hold for sure."""
    path = Path(paths[0])
    return len(paths) == 1 and (paths[0] == fitting.STDIN or (path.is_file() and path.stat().st_size < _SMALL_FILE))


def _aggregate(options: Options, read: ReadOptions, method: MethodOptions, job: Job, together: bool, keep: KeepOptions) -> None:
    """Fit to votes for one class per item and write what was asked for, the labels last."""
    grouped, estimator = _fitted(options, read, method, together)
    result, changed = estimator.result_, False
    heeded = fitting.cautious(
        result,
        method.trusted,
        fuse=options.fuse_groups,
        drop=options.drop_colluders,
        given=options.groups is not None,
        fdr=options.fdr if options.drop_spammers else None,
    )
    costs = fitting.read_costs(options, result.votes.classes)
    more: dict[str, Any] = {}
    if heeded is not None:
        result, changed = heeded.result, heeded.changed
        more, grouped = heeded.document(costs), heeded.grouped or grouped
    if not changed:
        # What is opened later says the same as what is written now.
        estimator.keep_outcome(result)
    filled = options.fill_unvoted
    items = ordinal_frame(result, filled) if options.kind == ORDINAL else result.items_frame(fill_unvoted=filled)
    if grouped is not None:
        items, more = grouped.items(items), more | grouped.facts
    if costs is not None:
        items = costs.applied(items, result.posterior)
        more |= report.cost_facts(items)
        job.say(report.cost_lines(costs, **report.cost_facts(items)))
    about = fitting.read_kept(options.votes[0], keep, read, result.votes)
    items = beside(items, about)
    job.file("--page", lambda path: report.write_page(result, path, about=about))
    # The estimator, for online methods continue from a state that a result does not hold.
    job.file("--save", (result if changed else estimator).save)
    job.table("--confusion", result.confusion_frame, "row")
    job.table("--readings", lambda: items.select("item", "label") if heeded is None else heeded.frame(items, costs), "item")
    job.labels(result, items, more, None if grouped is None else grouped.people)
    votes = None if grouped is None else grouped.votes
    in_doubt = heeded is not None and not changed
    job.say(summary_lines(result, read=votes, fill_unvoted=filled, by_cost=costs is not None, in_doubt=in_doubt))
    fitting.say_choice(estimator, options.explain_choice)


def _fitted(
    options: Options, read: ReadOptions, method: MethodOptions, together: bool
) -> tuple[report.Grouped | None, crowdwise.estimator.Aggregator]:
    """The method fitted to the votes, or a saved model with the votes added; and the groups that were made of them."""
    if options.warm_from is not None:
        if not together:
            raise SettingError("--warm-from reads one file; put these together first")
        return None, _update(options.warm_from, options, read, method)
    ordinal = options.kind == ORDINAL
    estimator = fitting.build(method, "cumulative-link" if ordinal else None, options.edges is not None)
    fitting.check_explainable(estimator, options.explain_choice)
    # --type classes says that they are; without it, cells that look like several labels are refused.
    several = "keep" if options.kind == KINDS[0] else None
    data = fitting.read_votes(options.votes[0], read, several) if together else sharded.gathered(options.votes, read)
    _check_classes(data, read, ordinal)
    if options.edges is not None:
        estimator.set_params(edges=fitting.read_edges(options.edges, data.items))
    fitting.read_costs(options, data.classes)  # what is wrong with them is said before the fit
    if data.anonymous:
        about = (options, ["annotators", "confusion", "groups", "fuse_groups", "drop_colluders", "drop_spammers"])
        refuse(fitting.ANONYMOUS, about, (method, ["history"]))
    if options.groups is None:
        return None, fitting.fit_to(data, estimator, method)
    grouped = fitting.read_grouped(data, options.groups)
    return grouped, fitting.fit_to(grouped.fused, estimator, method)


def _update(folder: Path, options: Options, read: ReadOptions, method: MethodOptions) -> crowdwise.estimator.Aggregator:
    """Fold votes into a saved model."""
    refuse(
        "{} was part of the first fit; leave it out with --warm-from, or fit all votes together",
        (method, ["gold_is", "history"]),
    )
    estimator: Any = crowdwise.load(folder)
    if estimator.name not in aggregators():
        raise SettingError(f"{folder} holds a classifier ({estimator.name}); train it on all votes with crowdwise train")
    if method.method not in (None, estimator.name):
        raise SettingError(f"{folder} was fitted with {estimator.name}, so --method {method.method} cannot continue from it")
    fitting.check_explainable(estimator, options.explain_choice)
    estimator.set_params(**fitting.settings_of(method, list(estimator.get_params())))
    if options.edges is not None and not METHODS[estimator.name].edges:
        raise SettingError(f"--edges: {folder} was fitted with {estimator.name}, which takes no edges; fit all votes together")
    fresh = fitting.read_votes(options.votes[0], read)
    if options.edges is not None:
        known = estimator.result_.votes.items.tolist()
        estimator.set_params(edges=fitting.read_edges(options.edges, [*known, *fresh.items.tolist()]))
    # Gold may be of items of earlier fits, so it is checked against all of them, by `update`.
    gold = fitting.read_gold(method.gold, None)
    with progress_of(estimator) as progress:
        updated: crowdwise.estimator.Aggregator = estimator.update(fresh, gold=gold, progress=progress)
    return updated


def _check_classes(votes: crowdwise.Annotations, read: ReadOptions, ordinal: bool) -> None:
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
