"""``crowdwise fairness``: how groups of items are treated, and labels that treat them alike."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.options import (
    FLAG,
    FalseDiscovery,
    Json,
    MethodOptions,
    Output,
    Quiet,
    ReadOptions,
    SpreadsheetSafe,
    TaskOptions,
    VotesPath,
)
from crowdwise.errors import SettingError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.data.annotations import Annotations
    from crowdwise.trust.fairness import Audit, Groups, ParityLabels

EXAMPLES = (
    "Example: crowdwise fairness votes.csv --group sex --truth truth.csv\n\n"
    "Labels within two points of parity: crowdwise fairness votes.csv --group sex --parity demographic --within 0.02 "
    "-o labels.csv\n\n"
    "Of a classifier: crowdwise fairness votes.csv --groups groups.csv --truth truth.csv --predicted predicted.csv"
)
Group = Annotated[
    str | None, typer.Option("--group", metavar="COLUMN", help="Column of the votes that says which group an item is in.")
]
GroupsFile = Annotated[
    Path | None, typer.Option("--groups", metavar="FILE", help="A table of the items' groups instead: item, group.")
]
_METHOD = "item-group-ds"


def run(
    votes: VotesPath,
    read: ReadOptions,
    method: TaskOptions,
    group: Group = None,
    groups: GroupsFile = None,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", metavar="FILE", help="True labels to measure against: item, label. The fit is not told."),
    ] = None,
    positive: Annotated[
        str | None, typer.Option("--positive", metavar="CLASS", help="The class whose rates are compared.")
    ] = None,
    predicted: Annotated[
        Path | None, typer.Option("--predicted", metavar="FILE", help="A classifier's labels to measure too: item, label.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="DIR", help="Or the classifier itself, as crowdwise train --save wrote it."),
    ] = None,
    features: Annotated[
        Path | None, typer.Option("--features", metavar="FILE", help="The items' features, for --model.")
    ] = None,
    soft: Annotated[bool, typer.Option("--soft", metavar=FLAG, help="Rates from class probabilities, not labels.")] = False,
    parity: Annotated[
        str | None,
        typer.Option("--parity", metavar="RATE", help="Make labels alike in: demographic, opportunity or false-positives."),
    ] = None,
    within: Annotated[
        float, typer.Option("--within", metavar="GAP", help="Largest difference between groups that --parity allows.")
    ] = 0.02,
    split_ties: Annotated[
        bool, typer.Option("--split-ties", metavar=FLAG, help="Let --parity label items of equal probability differently.")
    ] = False,
    output: Output = None,
    annotators: Annotated[
        Path | None,
        typer.Option("--annotators", metavar="FILE", help="Write how differently each annotator treats the groups."),
    ] = None,
    fdr: FalseDiscovery = 0.05,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare how groups of items are treated by annotators, by the consensus and by a classifier, with intervals.

    A gap is the largest difference between two groups; one whose interval reaches below zero may be chance. Without --truth
    only differences in how often a class is given can be seen: a bias that all annotators share looks like the truth.
    """
    from crowdwise.cli.inputs import read_gold, read_votes
    from crowdwise.cli.outputs import check_outputs, emit, print_csv, print_json, to_stdout, write
    from crowdwise.cli.text import say
    from crowdwise.trust.fairness import audit, parity_labels
    from crowdwise.trust.fairness.parity import CONSTRAINTS

    inputs = (votes, groups, truth, predicted, features)
    check_outputs({"-o": output, "--annotators": annotators}, inputs)
    if to_stdout(annotators):
        raise SettingError("only -o can go to stdout")
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    if parity is not None and parity not in CONSTRAINTS:
        raise SettingError(
            f"--parity must be one of {', '.join(CONSTRAINTS)}; got {parity!r}{did_you_mean(parity, list(CONSTRAINTS))}"
        )
    if parity is None and (within != 0.02 or split_ties):
        raise SettingError("--within and --split-ties say how to meet --parity; name the rate with it")
    if not 0 <= within <= 1:
        raise SettingError(f"--within must lie between 0 and 1; got {within}")
    if not 0 < fdr < 1:
        raise SettingError(f"--fdr must lie strictly between 0 and 1; got {fdr}")
    if (model is None) != (features is None) or (model is not None and predicted is not None):
        raise SettingError("a classifier is measured by --predicted FILE, or by --model DIR and --features FILE together")
    check_groups(votes, group, groups)
    estimator = _estimator(method)
    data = read_votes(votes, read)
    found = item_groups(votes, read, group, groups, data)
    known = None if truth is None else read_gold(truth, data)
    said = _predictions(data, predicted, model, features, quiet)
    fitted = estimator.fit(data.with_groups(found) if estimator.name == _METHOD else data)
    seed = 0 if method.seed is None else method.seed
    given: dict[str, Any] = {"truth": known, "positive": positive, "random_state": seed}
    seen = audit(fitted, found, predictions=said, soft=soft, fdr=fdr, **given)
    alike = None
    if parity is not None:
        alike = parity_labels(fitted, found, constraint=parity, within=within, split_ties=split_ties, **given)
    if annotators is not None:
        write(seen.annotators, annotators, "annotator", quiet, spreadsheet_safe)
    if as_json:
        print_json(_document(fitted, seen, alike))
    elif sys.stdout.isatty() and not to_stdout(output):
        _show(seen, alike)
    elif not to_stdout(output):
        print_csv(seen.gaps, spreadsheet_safe)
    if output is not None:
        labels = _labels(fitted.result_.items_frame(), found) if alike is None else alike.items_frame()
        emit(labels, output, "item", quiet=quiet, safe=spreadsheet_safe)
    if not quiet:
        for note in seen.notes:
            say(f"note: {note}")
        if alike is not None:
            say(_told(alike))


def check_groups(votes: str, group: str | None, groups: Path | None) -> None:
    """Refuse anything but one source of groups, before any work."""
    from crowdwise.cli.inputs import STDIN, is_saved

    if (group is None) == (groups is None):
        raise SettingError("say which group items are in, by --group COLUMN of the votes or by --groups FILE, and not by both")
    if group is not None and (votes == STDIN or is_saved(votes)):
        raise SettingError("--group reads a column of the file of votes; with stdin or a saved model, use --groups FILE")


def item_groups(votes: str, read: ReadOptions, group: str | None, groups: Path | None, data: Annotations) -> Groups:
    """The group of every item, from the votes' own file or from another."""
    from crowdwise.io import read_groups

    if groups is not None:
        return read_groups(groups, data)
    return read_groups(votes, data, item=read.item, group=group)


def _estimator(method: TaskOptions) -> Any:
    from crowdwise.cli.inputs import build, build_task

    if method.method in (None, _METHOD):
        return build_task(method, "fairness", _METHOD)
    return build(MethodOptions(method=method.method, set=method.set, seed=method.seed))


def _predictions(data: Annotations, predicted: Path | None, model: Path | None, features: Path | None, quiet: bool) -> Any:
    """What a classifier says of the items of the votes, as item and label; others are left aside."""
    import polars as pl

    from crowdwise.cli.inputs import read_features
    from crowdwise.cli.options import FeatureOptions
    from crowdwise.cli.predict import _fitting, _probabilities, _table
    from crowdwise.data.columns import columns_by_role
    from crowdwise.data.encode import codes_of, series_of, tidy
    from crowdwise.estimator.loading import load
    from crowdwise.io.file_columns import FileColumns

    if predicted is not None:
        frame = columns_by_role(FileColumns(predicted), {"item": None, "label": None})[0]
    elif model is not None:
        classifier, rows = load(model), read_features(FeatureOptions(features=str(features)))
        frame = _table(classifier, rows, _probabilities(classifier, _fitting(classifier, rows, quiet), None), None)
    else:
        return None
    ours = codes_of(tidy(frame["item"]), tidy(series_of(data.items))) >= 0
    if not ours.any():
        from crowdwise.errors import InputError

        raise InputError(f"{predicted or features}: names no item of the votes; check that both use the same ids")
    return frame.select("item", "label").filter(pl.Series(ours))


def _labels(items: pl.DataFrame, groups: Groups) -> pl.DataFrame:
    from crowdwise.data.encode import series_of

    return items.insert_column(1, series_of(groups.names)[groups.codes].alias("group"))


def _document(fitted: Any, seen: Audit, alike: ParityLabels | None) -> dict[str, Any]:
    result = fitted.result_
    document: dict[str, Any] = {
        "method": result.method,
        "groups": seen.group_frame.to_dicts(),
        "rates": seen.rates.to_dicts(),
        "gaps": seen.gaps.to_dicts(),
        "annotators": seen.annotators.to_dicts(),
        "notes": list(seen.notes),
    }
    if alike is not None:
        names = ("constraint", "within", "gap_before", "gap", "accuracy_before", "accuracy", "cost", "expected_cost")
        facts = {name: getattr(alike, name) for name in (*names, "n_changed", "n_known", "against")}
        document["parity"] = facts | {"groups": alike.groups_frame().to_dicts()}
    return document


def _show(seen: Audit, alike: ParityLabels | None, most: int = 10) -> None:
    import polars as pl

    from crowdwise.cli.display import print_rows, print_table

    width = 6
    if seen.groups.n_groups <= width:
        names = [str(name) for name in seen.groups.names]
        rows = [
            [of, _short(against), measure, name, *(f"{_digits(r)} ({n:,.0f})" for r, n in part.select("rate", "n").rows())]
            for (of, against, measure, name), part in seen.rates.group_by(
                "of", "against", "measure", "class", maintain_order=True
            )
        ]
        title = "Rates, and how many items or votes they are shares of"
        print_rows(["of", "against", "measure", "class", *names], rows, title, names)
    gaps = [
        [of, _short(against), measure, name, f"{high} over {low}" if high is not None else "", _digits(gap), _span(start, stop)]
        for of, against, measure, name, high, low, gap, start, stop, _ in seen.gaps.rows()
    ]
    columns = ["of", "against", "measure", "class", "groups", "gap", "95 % interval"]
    print_rows(columns, gaps, "Largest gaps between two groups", ["gap", "95 % interval"])
    shown = seen.annotators.drop_nulls("score").sort("probability", "score", descending=True)
    if shown.height:
        title = "Annotators whose answers differ most between groups"
        # Of two groups, the farthest pair is known.
        hidden = ["n_least", "q_value", *(["group", "other"] if seen.groups.n_groups == 2 else [])]
        print_table(shown.select(pl.exclude(hidden)).head(most), title)
    if alike is not None:
        print_table(alike.groups_frame(), f"Labels within {alike.within} of parity ({alike.constraint})")


def _short(against: Any) -> str:
    return "circular" if "circular" in against else str(against)


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _span(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _told(alike: ParityLabels) -> str:
    """The price of parity in a sentence."""
    from crowdwise.cli.text import count

    met = f"{alike.constraint} gap {alike.gap_before:.3f} -> {alike.gap:.3f}"
    met += f" (against {alike.against})" if alike.against else ""
    changed = f"{count(alike.n_changed, 'label')} changed"
    if alike.n_known:
        cost, low, high = alike.cost
        rest = f"accuracy {alike.accuracy_before:.3f} -> {alike.accuracy:.3f} on {count(alike.n_known, 'known label')}"
        change = f"lost {cost:.3f} ({low:.3f} to {high:.3f})"
        if cost < 0:
            change = f"gained {-cost:.3f} ({-high:.3f} to {-low:.3f})"
        return f"{met}; {changed}; {rest}: {change}"
    return (
        f"{met}; {changed} against the labels without the constraint; no truth was given, so the cost is not known "
        f"(the model expects to lose {alike.expected_cost:.3f} in accuracy)"
    )
