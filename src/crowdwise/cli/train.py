"""``crowdwise train``: a classifier from features and votes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crowdwise import io, scale
from crowdwise.cli.answers import QUICK_CLASSIFIER, build_classifier, check_rows, fit_rows, read_features
from crowdwise.cli.declare import argument, flag, folder, group, option, panel, table
from crowdwise.cli.fitting import DEFAULT_CLASSIFIER, STDIN, check_explainable, read_votes, say_choice
from crowdwise.cli.job import Job, count, naming, note, say
from crowdwise.cli.options import ANNOTATORS, MORE, VOTES, FeatureOptions, OutputOptions, ReadOptions, TrainOptions
from crowdwise.report.text import summary_lines, training

EXAMPLES = (
    "Example: crowdwise train votes.csv --features X.npz --save model -o labels.csv\n\n"
    "Then: crowdwise predict model --features new.npz -o predicted.csv\n\n"
    "Settings: crowdwise train votes.csv --features X.npz --method geocrowdnet-f --set epochs=50\n\n"
    "Bayesian: crowdwise train votes.csv --features X.npz --method deep-bp --annotator-prior dir:2,1\n\n"
    "Two processes: crowdwise train votes.csv --features X.npz --method ccem --workers 2\n\n"
    "The same: torchrun --nproc-per-node 2 -m crowdwise train votes.csv --features X.npz --method ccem"
)
_PROCESSES = "Several processes"
_WORKERS = (
    f"Processes that share every batch of a network or a Gaussian process; --method is then {QUICK_CLASSIFIER} "
    "unless named. Started by torchrun itself, the command needs no --workers."
)


@panel(_PROCESSES)
class ProcessOptions:
    """How many processes train, and what starts them."""

    workers: int | None = option("--workers", "N", _WORKERS, shown="1")
    engine: str | None = option("--engine", "NAME", "What starts them on this machine: torchrun or ray.", shown="torchrun")


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES)
    annotators: Path | None = table("--annotators", ANNOTATORS, MORE)
    save: Path | None = folder("--save", "Save the classifier in this folder, to predict with it later.", MORE)
    drop_unmatched: bool = flag("--drop-unmatched", "Leave out votes on items that have no features.")
    explain_choice: bool = flag("--explain-choice", "Print the comparison behind --method auto on stderr.")


def run(options: Options, features: FeatureOptions, read: ReadOptions, method: TrainOptions, processes: ProcessOptions) -> None:
    """Train a classifier on features and votes, and learn which annotators to trust.

    Rows and votes meet by the items' ids; rows without votes are labelled too. The labels of all
    rows, from features and votes together, go to -o, or to stdout as CSV.
    """
    # First of all: of several processes, only one is to speak.
    n_launched = scale.processes.processes_running(options.votes == STDIN)
    job = Job(options, features, method)
    engine = scale.processes.starter(processes.workers, processes.engine, n_launched)
    estimator = _classifier(options, method, several=engine is not None or n_launched > 1)
    rows = read_features(features, read.item)
    assert rows is not None
    data = read_votes(options.votes, read)
    if options.drop_unmatched:
        data, line = io.feature_rows.with_rows(data, rows)
        say(line)
    check_rows(rows, data)
    # Only where there is one: not every classifier's `fit` knows of engines.
    more = {} if engine is None else {"engine": engine}
    checkpoint = None if getattr(estimator, "checkpoint", None) is None else Path(estimator.checkpoint)
    if checkpoint is not None and checkpoint.exists():
        note(f"resuming from {checkpoint}")
    with scale.processes.group(n_launched) as rank, scale.processes.resumable(checkpoint):
        fit_rows(rows, data, estimator, method, **more)
    if rank:
        return
    result = estimator.result_
    job.file("--save", estimator.save)
    source = {"features": rows.source, "n_rows": len(rows), "row_shape": list(rows.X.shape[1:])}
    job.labels(result, result.items_frame(), training(estimator) | source)
    note(f"{count(len(rows), 'row')} of {' x '.join(f'{size:,}' for size in rows.X.shape[1:])} features")
    job.say(summary_lines(result, estimator))
    say_choice(estimator, options.explain_choice)


def _classifier(options: Options, method: TrainOptions, several: bool) -> Any:
    """The classifier with its settings, refused before any file is read where it cannot do what is asked."""
    estimator = build_classifier(method, QUICK_CLASSIFIER if several else DEFAULT_CLASSIFIER)
    check_explainable(estimator, options.explain_choice)
    if several:
        scale.training.check_trainable(estimator)
        if method.method is None:
            words = "several processes train one, so none is chosen; --method names another"
            note(f"method: {QUICK_CLASSIFIER} ({words})")
    if options.save is not None:
        with naming("--save"):
            estimator.check_save(options.save)
    return estimator
