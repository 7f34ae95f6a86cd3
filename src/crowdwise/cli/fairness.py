"""``crowdwise fairness``: how groups of items are treated, and labels that treat them alike."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import io, methods, report, trust
from crowdwise.cli.answers import build_task
from crowdwise.cli.declare import argument, file, flag, group, option, share, table
from crowdwise.cli.fitting import build, check_own_column, read_gold, read_votes
from crowdwise.cli.job import Job, among, to_stdout
from crowdwise.cli.options import FDR, TRUTH, VOTES, OutputOptions, ReadOptions, TaskOptions
from crowdwise.cli.screen import print_tables
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise fairness votes.csv --group sex --truth truth.csv\n\n"
    "Labels within two points of parity: crowdwise fairness votes.csv --group sex --parity demographic --within 0.02 "
    "-o labels.csv\n\n"
    "Of a classifier: crowdwise fairness votes.csv --groups groups.csv --truth truth.csv --predicted predicted.csv"
)
_METHOD, _PARITY, _CLASSIFIER, _WITHIN = "item-group-ds", "Labels alike in all groups", "A classifier to measure too", 0.02


@group
class GroupOptions:
    """Which group an item is in."""

    group: str | None = option("--group", "COLUMN", "Name of the column of the votes that says which group an item is in.")
    groups: Path | None = file("--groups", "A table of the items' groups instead: item, group.")


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES)
    truth: Path | None = file("--truth", TRUTH)
    positive: str | None = option("--positive", "CLASS", "The class whose rates are compared.")
    soft: bool = flag("--soft", "Take rates from class probabilities, not labels.")
    annotators: Path | None = table("--annotators", "Write how differently each annotator treats the groups.")
    fdr: float = share("--fdr", "Share of wrong flags to expect among the flags of a check.", FDR)
    predicted: Path | None = file("--predicted", "A classifier's labels: item, label.", _CLASSIFIER)
    model: Path | None = option("--model", "DIR", "The classifier itself, saved by crowdwise train.", panel=_CLASSIFIER)
    features: Path | None = file("--features", "The items' features, for --model.", _CLASSIFIER)
    parity: str | None = option(
        "--parity", "RATE", "Rate to equal: demographic, opportunity or false-positives.", panel=_PARITY
    )
    within: float = option(
        "--within", "GAP", "Largest difference between groups that --parity allows.", _WITHIN, _PARITY, least=0
    )
    split_ties: bool = flag("--split-ties", "Let --parity label items of equal probability differently.", _PARITY)


def run(options: Options, groups: GroupOptions, read: ReadOptions, method: TaskOptions) -> None:
    """Compare how groups of items are treated by annotators, by the consensus and by a classifier, with intervals.

    A gap is the largest difference between two groups; one whose interval reaches below zero may be chance. Without --truth
    only differences in how often a class is given can be seen: a bias that all annotators share looks like the truth.
    """
    job = Job(options, groups)
    _check(options)
    check_groups(options.votes, groups)
    estimator = build_task(method, "fairness", _METHOD) if method.method in (None, _METHOD) else build(method)
    data = read_votes(options.votes, read)
    found = item_groups(options.votes, read, groups, data)
    given: dict[str, Any] = {"truth": read_gold(options.truth, data), "positive": options.positive}
    given["random_state"] = method.seed or 0
    said = _predictions(data, options)
    fitted = estimator.fit(data.with_groups(found) if estimator.name == _METHOD else data)
    seen = trust.fairness.audit(fitted, found, predictions=said, soft=options.soft, fdr=options.fdr, **given)
    alike = None
    if options.parity is not None:
        more: dict[str, Any] = {"constraint": options.parity, "within": options.within, "split_ties": options.split_ties}
        alike = trust.fairness.parity_labels(fitted, found, **more, **given)
    job.table("--annotators", lambda: seen.annotators, "annotator")
    items = fitted.result_.items_frame()
    labels = items.insert_column(1, found.of_items) if alike is None else alike.items_frame()
    job.table("-o", lambda: labels, "item")
    if not to_stdout(options.output):
        facts = partial(report.fairness_text.document, fitted.result_.method, seen, alike)
        job.answer(seen.gaps, facts, lambda: print_tables(report.fairness_text.tables(seen, alike)))
    job.say(f"note: {note}" for note in seen.notes)
    job.say([] if alike is None else [report.fairness_text.price(alike)])


def _check(options: Options) -> None:
    """Refuse options that do not go together."""
    among("--parity", options.parity, trust.fairness.parity.CONSTRAINTS)
    if options.parity is None and (options.within != _WITHIN or options.split_ties):
        raise SettingError("--within and --split-ties say how to meet --parity; name the rate with it")
    both = options.model is not None and options.predicted is not None
    if (options.model is None) != (options.features is None) or both:
        raise SettingError("a classifier is measured by --predicted FILE, or by --model DIR and --features FILE together")


def check_groups(votes: str, groups: GroupOptions) -> None:
    """Refuse anything but one source of groups, before any work."""
    if (groups.group is None) == (groups.groups is None):
        raise SettingError("say which group items are in, by --group COLUMN of the votes or by --groups FILE, and not by both")
    if groups.group is not None:
        check_own_column(votes, "--group", "with stdin or a saved model, use --groups FILE")


def item_groups(votes: str, read: ReadOptions, groups: GroupOptions, data: crowdwise.Annotations) -> trust.fairness.Groups:
    """The group of every item, from the votes' own file or from another."""
    if groups.groups is not None:
        return io.read_groups(groups.groups, data)
    return io.read_groups(votes, data, item=read.item, group=groups.group)


def _predictions(data: crowdwise.Annotations, options: Options) -> Any:
    """What a classifier says of the items of the votes, as item and label; others are left aside."""
    if options.predicted is None and options.model is None:
        return None
    if options.predicted is not None:
        frame = io.file_columns.read_roles(options.predicted, {"item": None, "label": None}, fixed=True)
    else:
        rows = io.read_features(str(options.features))
        frame = methods.classify.rows.predictions(crowdwise.load(str(options.model)), rows).frame
    return io.feature_rows.of_items(
        frame.select("item", "label"), data.items, str(options.predicted or options.features), "the votes"
    )
