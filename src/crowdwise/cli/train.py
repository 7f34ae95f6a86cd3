"""``crowdwise train``: a classifier from features and votes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.choice import ExplainChoice
from crowdwise.cli.classifier import CAMPAIGN_CLASSIFIER, DEFAULT_CLASSIFIER, build_classifier, taken_by
from crowdwise.cli.options import (
    FLAG,
    WORKER_PRIOR,
    FeatureOptions,
    Json,
    Output,
    Quiet,
    ReadOptions,
    SpreadsheetSafe,
    VotesPath,
)
from crowdwise.errors import SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.io.features import Features
    from crowdwise.methods.classify.base import CrowdClassifier

EXAMPLES = (
    "Example: crowdwise train votes.csv --features X.npz --save model -o labels.csv\n\n"
    "Then: crowdwise predict model --features new.npz -o predicted.csv\n\n"
    "Settings: crowdwise train votes.csv --features X.npz --method geocrowdnet-f --set epochs=50\n\n"
    "Bayesian: crowdwise train votes.csv --features X.npz --method deep-bp --worker-prior dir:2,1\n\n"
    "Two processes: crowdwise train votes.csv --features X.npz --method ccem --workers 2\n\n"
    "The same: torchrun --nproc-per-node 2 -m crowdwise train votes.csv --features X.npz --method ccem"
)
_METHOD, _MORE, _PROCESSES = "Method", "More results", "Several processes"
_ENGINES = ("torchrun", "ray")


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Which classifier to train, and what is known beside the votes."""

    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            metavar="NAME",
            rich_help_panel=_METHOD,
            show_default=DEFAULT_CLASSIFIER,
            help="See crowdwise methods.",
        ),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            rich_help_panel=_METHOD,
            help="A setting of the method; see crowdwise methods NAME. May be repeated.",
        ),
    ] = None
    worker_prior: Annotated[
        str | None, typer.Option("--worker-prior", metavar="PRIOR", rich_help_panel=_METHOD, help=WORKER_PRIOR)
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", rich_help_panel=_METHOD, help="Seed of everything random.", show_default="0"),
    ] = None
    gold: Annotated[
        Path | None,
        typer.Option("--gold", metavar="FILE", rich_help_panel=_METHOD, help="Known labels of some items: item, label."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """How many processes train, and what starts them."""

    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            rich_help_panel=_PROCESSES,
            show_default="1",
            help=f"Processes that share every batch of a network or a Gaussian process; --method is then {CAMPAIGN_CLASSIFIER} "
            "unless named. Started by torchrun itself, the command needs no --workers.",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="NAME",
            rich_help_panel=_PROCESSES,
            show_default=_ENGINES[0],
            help="What starts them on this machine: torchrun or ray.",
        ),
    ] = None


def run(
    votes: VotesPath,
    features: FeatureOptions,
    read: ReadOptions,
    method: TrainOptions,
    processes: ProcessOptions,
    output: Output = None,
    annotators: Annotated[
        Path | None,
        typer.Option("--annotators", metavar="FILE", rich_help_panel=_MORE, help="Write a table of the annotators."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", rich_help_panel=_MORE, help="Save the classifier, to predict with it later."),
    ] = None,
    drop_unmatched: Annotated[
        bool, typer.Option("--drop-unmatched", metavar=FLAG, help="Leave out votes on items that have no features.")
    ] = False,
    explain_choice: ExplainChoice = False,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a classifier on features and votes; it learns whom of the annotators to trust on the way.

    Rows and votes meet by the items' ids; rows without votes are labelled too. The labels of all
    rows, from features and votes together, go to -o, or to stdout as CSV.
    """
    from crowdwise.cli.account import rank_annotators, tell
    from crowdwise.cli.choice import check_explainable, tell_choice
    from crowdwise.cli.inputs import check_rows, read_features, read_gold, read_votes
    from crowdwise.cli.outputs import check_outputs, emit, to_stdout, write, wrote
    from crowdwise.cli.progress import epochs
    from crowdwise.cli.text import count, say

    # First of all: of several processes, only one is to speak.
    n_launched = _launched(votes)
    check_outputs({"-o": output, "--annotators": annotators}, (votes, features.features, method.gold))
    if to_stdout(annotators):
        raise SettingError("only -o can go to stdout")
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    engine = _engine(processes, n_launched)
    several = engine is not None or n_launched > 1
    estimator = build_classifier(method, CAMPAIGN_CLASSIFIER if several else DEFAULT_CLASSIFIER)
    check_explainable(estimator, explain_choice)
    if several:
        _check_trainable(estimator)
        if method.method is None and not quiet:
            say(f"method: {CAMPAIGN_CLASSIFIER} (several processes train one, so none is chosen; --method names another)")
    if save is not None:
        _check_save(estimator, save)
    rows = read_features(features, read.item)
    data = read_votes(votes, read)
    if drop_unmatched:
        data = _matched(data, rows)
    check_rows(rows, data, quiet)
    X, gold = taken_by(estimator, rows), read_gold(method.gold, data)
    checkpoint = getattr(estimator, "checkpoint", None)
    if checkpoint is not None and Path(checkpoint).exists() and not quiet:
        say(f"going on from {checkpoint}")
    # Only where there is one: not every classifier's `fit` knows of engines.
    more = {} if engine is None else {"engine": engine}
    try:
        with _joined(n_launched) as rank, epochs(estimator, quiet) as progress:
            estimator.fit(X, data, items=rows.items, gold=gold, progress=progress, **more)
    except KeyboardInterrupt:
        if checkpoint is not None and Path(checkpoint).exists():
            say(f"{checkpoint} keeps the epochs that were finished; the same command goes on from there")
        raise
    if rank:
        return

    # The labels come last: where they are, everything else is too.
    result = estimator.result_
    if save is not None:
        estimator.save(save)
        wrote(save, quiet)
    if annotators is not None:
        write(rank_annotators(result), annotators, "annotator", quiet, spreadsheet_safe)
    items = result.items_frame()
    if as_json:
        if output is not None:
            write(items, output, "item", quiet, spreadsheet_safe)
        _print_json(estimator, rows, with_labels=output is None)
    elif output is None and sys.stdout.isatty():
        emit(items.select("item", "label", "confidence", "n_votes", "note"), None, "item", limit=10)
    else:
        emit(items, output, "item", quiet=quiet, safe=spreadsheet_safe)
    if not quiet:
        shape = " x ".join(f"{size:,}" for size in rows.X.shape[1:])
        say(f"{count(len(rows), 'row')} of {shape} features")
        tell(result, estimator)
    tell_choice(estimator, explain_choice, quiet)


def _launched(votes: str) -> int:
    """Processes that torchrun started together with this one; only the first of them speaks."""
    # Known without torch, which takes a second to load.
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 1
    from crowdwise.scale.training import launched

    if launched() > 1:
        # On other machines errors are shown: files may be missing there alone.
        if os.environ.get("RANK") != "0" and os.environ.get("GROUP_RANK", "0") == "0":
            sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if votes == "-":
            raise SettingError("only one of several processes could read the votes from stdin; name a file")
    return launched()


def _engine(options: ProcessOptions, n_launched: int) -> Any:
    """What starts the processes, or None where this one trains alone or torchrun has started them."""
    if options.engine is not None and options.engine not in _ENGINES:
        raise SettingError(f"--engine must be {' or '.join(_ENGINES)}{did_you_mean(options.engine, list(_ENGINES))}")
    if options.workers is None:
        if options.engine is not None:
            raise SettingError("--engine needs --workers: the number of processes to start")
        return None
    if n_launched > 1:
        raise SettingError("torchrun has started the processes already; leave --workers out")
    from crowdwise.scale.training import Torchrun, check_workers

    check_workers(options.workers)
    if options.engine == "ray":
        from crowdwise.scale.training_ray import RayTrain

        return RayTrain(options.workers)
    return Torchrun(options.workers) if options.workers > 1 else None


def _check_trainable(estimator: CrowdClassifier) -> None:
    from crowdwise.scale.training import check_trainable

    check_trainable(estimator)


@contextmanager
def _joined(n_launched: int) -> Iterator[int]:
    """The group of the processes that torchrun started, if it did; gives this one's rank."""
    if n_launched == 1:
        yield 0
        return
    from crowdwise.scale.training import joined

    with joined() as rank:
        yield rank


def _matched(votes: Annotations, rows: Features) -> Annotations:
    """The votes on items that have a row; says how many were left out, quiet or not."""
    from crowdwise.cli.text import count, say
    from crowdwise.data.encode import codes_of, series_of, tidy

    if rows.items is None:
        raise SettingError(f"--drop-unmatched needs the ids of the rows, and {rows.source} has none")
    kept = votes[codes_of(tidy(series_of(votes.items)), tidy(series_of(rows.items))) >= 0]
    if kept.n_items < votes.n_items:
        lost = count(votes.n_votes - kept.n_votes, "vote")
        say(f"left out {lost} on {count(votes.n_items - kept.n_items, 'item')} without features")
    return kept


def _check_save(estimator: CrowdClassifier, folder: Path) -> None:
    try:
        estimator.check_save(folder)
    except SettingError as problem:
        raise SettingError(f"--save: {problem}") from None


def _print_json(estimator: CrowdClassifier, rows: Features, with_labels: bool) -> None:
    """Print the run and its annotators; the labels too, unless they have a file."""
    from crowdwise.cli.account import facts, rank_annotators, training
    from crowdwise.cli.outputs import print_json

    result = estimator.result_
    document = facts(result) | training(estimator)
    document |= {"features": rows.source, "n_rows": len(rows), "row_shape": list(rows.X.shape[1:])}
    if with_labels:
        names = [str(name) for name in result.votes.classes]
        labels = result.items_frame(probabilities=False).to_dicts()
        for row, shares in zip(labels, result.posterior.tolist(), strict=True):
            row["probabilities"] = dict(zip(names, shares, strict=True))
        document["labels"] = labels
    document["annotators"] = rank_annotators(result).to_dicts()
    print_json(document)
