"""``crowdwise predict``: labels of new items from a saved classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import io, methods, report, trust
from crowdwise.cli.answers import check_rows, read_features
from crowdwise.cli.declare import argument, file, group
from crowdwise.cli.fitting import read_gold, read_votes
from crowdwise.cli.job import Job
from crowdwise.cli.options import FeatureOptions, OutputOptions, ReadOptions
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.registry import aggregators
from crowdwise.report.text import narrow

EXAMPLES = (
    "Example: crowdwise predict model --features new.npz -o predicted.csv\n\n"
    "With votes on them: crowdwise predict model --features new.npz --votes new_votes.csv -o predicted.csv"
)


@group
class Options(OutputOptions):
    """What is read and written."""

    model: Path = argument("DIR", "A folder written by crowdwise train --save.")
    votes: str | None = file("--votes", "Votes on the new items: labels are inferred from both.")
    truth: Path | None = file("--truth", "True labels of these items, to measure the predictions: item, label.")


def run(options: Options, features: FeatureOptions, read: ReadOptions) -> None:
    """Predict the class of every row of features, with the probability of each class.

    Items are the ids of the features, or row numbers from 0 where the file has none.
    """
    job = Job(options, features)
    if options.votes is None and read != ReadOptions():
        raise SettingError("options of reading the votes do not apply without --votes")
    estimator = crowdwise.load(options.model)
    if estimator.name in aggregators():
        raise InputError(
            f"{options.model} holds {estimator.name}, which knows votes alone; crowdwise train --save makes a classifier"
        )
    rows = read_features(features, read.item)
    assert rows is not None
    given = None if options.votes is None else _votes_on(estimator, rows, options.votes, read)
    found = methods.classify.rows.predictions(estimator, rows, given)
    facts: dict[str, Any] = {"method": estimator.name, "classes": estimator.classes_, "n_items": len(rows)}
    if options.truth is not None:
        gold, classes = read_gold(options.truth, None), estimator.classes_.tolist()
        truth = io.feature_rows.truth_of_rows(rows, classes, gold, str(options.truth))
        facts |= trust.metrics.score(found.probabilities, truth)
    if given is not None:
        facts["n_rows_with_votes"] = int((given.votes_per_item > 0).sum())
    job.main(found.frame, "item", document=lambda: facts, key="labels", screen=narrow)
    job.say(report.prediction_lines(facts, found.ignored))


def _votes_on(estimator: Any, rows: io.features.Features, path: str, read: ReadOptions) -> crowdwise.Annotations:
    """Votes on the new items, in the order of the rows and with the classes of the model."""
    votes = read_votes(path, read).with_classes(estimator.classes_.tolist())
    check_rows(rows, votes)
    return methods.classify.align.aligned_votes(rows.X, votes, rows.items, None)
