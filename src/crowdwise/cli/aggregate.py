"""``crowdwise aggregate``: from votes to labels with confidence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.answer_kinds import AnswerKind, Separator, Threshold
from crowdwise.cli.choice import ExplainChoice
from crowdwise.cli.options import (
    DropSpammers,
    FalseDiscovery,
    Json,
    MethodOptions,
    Output,
    Quiet,
    ReadOptions,
    SpreadsheetSafe,
)
from crowdwise.cli.spread import ScaleOptions, VotesPaths
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.estimator.base import Aggregator
    from crowdwise.estimator.result import Result

EXAMPLES = (
    "Example: crowdwise aggregate votes.csv -o labels.csv --annotators annotators.csv --page page.html\n\n"
    "Ordered classes: crowdwise aggregate votes.csv --type ordinal --classes bad,ok,good\n\n"
    "Several labels per item: crowdwise aggregate answers.csv --type multilabel\n\n"
    "Many files, out of core: crowdwise aggregate 'votes/*.parquet' --engine local --work-dir work -o labels.parquet\n\n"
    "On a cluster: crowdwise aggregate votes/ --engine ray --address auto --shards 64 -o labels\n\n"
    "Incrementally: crowdwise aggregate monday.csv --save model -o labels.csv, "
    "then crowdwise aggregate tuesday.csv --warm-from model --save model -o labels.csv"
)
_MORE = "More results"


def run(
    votes: VotesPaths,
    read: ReadOptions,
    method: MethodOptions,
    scale: ScaleOptions,
    output: Output = None,
    annotators: Annotated[
        Path | None,
        typer.Option("--annotators", metavar="FILE", rich_help_panel=_MORE, help="Write a table of the annotators."),
    ] = None,
    confusion: Annotated[
        Path | None,
        typer.Option("--confusion", metavar="FILE", rich_help_panel=_MORE, help="Write every annotator's confusion matrix."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", rich_help_panel=_MORE, help="Save the fitted model, to go on from it later."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", rich_help_panel=_MORE, help="Write a page to open in a browser (.html)."),
    ] = None,
    warm_from: Annotated[
        Path | None,
        typer.Option("--warm-from", metavar="DIR", help="Add these votes to those of a saved model and fit them together."),
    ] = None,
    drop_spammers: DropSpammers = False,
    fdr: FalseDiscovery = 0.05,
    kind: AnswerKind = None,
    separator: Separator = None,
    threshold: Threshold = None,
    explain_choice: ExplainChoice = False,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Infer the label of every item from the votes of its annotators.

    Without -o the labels go to stdout as CSV; on a terminal, the first of them as a table.
    """
    from crowdwise.cli.account import rank_annotators, tell
    from crowdwise.cli.answer_kinds import (
        ORDINAL,
        ORDINAL_METHOD,
        aggregate_others,
        check_kind,
        check_order,
        hint_at_kind,
        ranked,
    )
    from crowdwise.cli.choice import check_explainable, tell_choice
    from crowdwise.cli.inputs import DEFAULT_METHOD, STEADY_METHOD, build, fit_to, read_votes
    from crowdwise.cli.outputs import check_outputs, emit, to_stdout, write, wrote
    from crowdwise.cli.places import check_places
    from crowdwise.cli.spread import aggregate_spread, chosen_engine, gathered, is_one_file

    outputs = {"-o": output, "--annotators": annotators, "--confusion": confusion, "--page": page}
    others = check_kind(kind, separator, threshold)
    engine = chosen_engine(votes, scale, method.method, quiet)
    # Labels of shards may go into a folder, which has a check of its own.
    checked = outputs if engine == "memory" else {option: path for option, path in outputs.items() if option != "-o"}
    check_outputs(checked, (*votes, method.gold, method.history))
    if any(to_stdout(path) for option, path in outputs.items() if option != "-o"):
        raise SettingError("only -o can go to stdout")
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    if engine != "memory" or not is_one_file(votes):
        check_places(outputs, votes, (method.gold, method.history), scale.work_dir)
    refused: dict[str, Any] = {"--save": save, "--warm-from": warm_from}
    refused |= {"--drop-spammers": drop_spammers, "--explain-choice": explain_choice}
    if engine != "memory":
        refused |= {f"--type {kind}": kind, "--page": page}
        aggregate_spread(engine, votes, read, method, scale, outputs, refused, spreadsheet_safe, as_json, quiet)
        return
    together = is_one_file(votes)
    if not together and (others or warm_from is not None):
        option = f"--type {kind}" if others else "--warm-from"
        raise SettingError(f"{option} reads one file; put these together first")
    if others:
        refused |= {"--confusion": confusion}
        where = output, annotators, page
        aggregate_others(
            str(kind), votes[0], read, method, *where, refused, separator, threshold, as_json, quiet, spreadsheet_safe
        )
        return
    if save is not None and save.exists() and not save.is_dir():
        raise SettingError(f"--save: {save} is a file; name a folder")
    if drop_spammers:
        from crowdwise.trust.crowd.report import check_level

        check_level(fdr)
    if warm_from is None:
        default = ORDINAL_METHOD if kind == ORDINAL else STEADY_METHOD if drop_spammers else DEFAULT_METHOD
        estimator = build(method, default)
        check_explainable(estimator, explain_choice)
        data = read_votes(votes[0], read) if together else gathered(votes, read, quiet)
        (check_order if kind == ORDINAL else hint_at_kind)(data, read)
        estimator = fit_to(data, estimator, method, quiet)
    else:
        estimator = _update(warm_from, votes[0], read, method, quiet, explain_choice)
    result: Result = estimator.result_
    # What is saved: the estimator, for online methods go on from a state that a result does not hold.
    saved: Aggregator | Result = estimator
    dropped: list[Any] = []
    if drop_spammers:
        result, dropped = _without_spammers(result, fdr)
        saved = result if dropped else estimator

    items = result.items_frame() if kind != ORDINAL else ranked(result)
    people = None if annotators is None else rank_annotators(result)
    matrices = None if confusion is None else result.confusion_frame()
    # The labels come last: where they are, everything else is too.
    if page is not None:
        from crowdwise.report import write_page

        write_page(result, page)
        wrote(page, quiet)
    if save is not None:
        saved.save(save)
        wrote(save, quiet)
    if matrices is not None and confusion is not None:
        write(matrices, confusion, "row", quiet, spreadsheet_safe)
    if people is not None and annotators is not None:
        write(people, annotators, "annotator", quiet, spreadsheet_safe)
    if as_json:
        _print_json(result, items, output, quiet, dropped)
    elif output is None and sys.stdout.isatty():
        emit(items.select(name for name in items.columns if not name.startswith("p(")), None, "item", limit=10)
    else:
        emit(items, output, "item", quiet=quiet, safe=spreadsheet_safe)
    if not quiet:
        tell(result)
    tell_choice(estimator, explain_choice, quiet)


def _update(
    folder: Path, votes: str, read: ReadOptions, method: MethodOptions, quiet: bool, explain_choice: bool
) -> Aggregator:
    """Fold votes into a saved model."""
    from crowdwise.cli.choice import check_explainable
    from crowdwise.cli.inputs import read_gold, read_votes, settings_of
    from crowdwise.cli.progress import iterations
    from crowdwise.estimator.loading import load
    from crowdwise.estimator.registry import label_methods

    if method.history is not None:
        raise SettingError("--history was part of the first fit and is kept; leave it out with --warm-from")
    estimator: Aggregator = load(folder)
    if estimator.name not in label_methods():
        raise SettingError(f"{folder} holds a classifier ({estimator.name}); train it on all votes with crowdwise train")
    if method.method not in (None, estimator.name):
        raise SettingError(f"{folder} was fitted with {estimator.name}, so --method {method.method} cannot go on from it")
    check_explainable(estimator, explain_choice)
    estimator.set_params(**settings_of(method, list(estimator.get_params())))
    fresh = read_votes(votes, read)
    # Gold may be of items of before, so it is checked against all of them, by `update`.
    gold = None if method.gold is None else read_gold(method.gold, None)
    with iterations(estimator, quiet) as progress:
        estimator.update(fresh, gold=gold, progress=progress)
    return estimator


def _without_spammers(result: Result, fdr: float) -> tuple[Result, list[Any]]:
    """Refit without the flagged annotators and name them, quiet or not: nobody is dropped silently."""
    from crowdwise.cli.text import count, one_line, say
    from crowdwise.trust.crowd import spammers
    from crowdwise.trust.crowd.pruning import refit_without

    dropped = spammers.score(result, fdr=fdr).flagged
    if dropped:
        say(f"dropped {count(len(dropped), 'spammer')}: {', '.join(one_line(name) for name in dropped)}")
    return refit_without(result, dropped), dropped


def _print_json(result: Result, items: pl.DataFrame, output: Path | None, quiet: bool, dropped: list[Any]) -> None:
    """Print the run and its annotators; the labels too, unless they have a file."""
    from crowdwise.cli.account import facts, rank_annotators
    from crowdwise.cli.outputs import print_json, write

    document = facts(result)
    if dropped:
        document["dropped_annotators"] = dropped
    if output is None:
        names = [str(name) for name in result.votes.classes]
        rows = items.select(name for name in items.columns if not name.startswith("p(")).to_dicts()
        for row, shares in zip(rows, result.posterior.tolist(), strict=True):
            row["probabilities"] = dict(zip(names, shares, strict=True))
        document["labels"] = rows
    else:
        write(items, output, "item", quiet)
    document["annotators"] = rank_annotators(result).to_dicts()
    print_json(document)
