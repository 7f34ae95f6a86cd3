"""``crowdwise predict``: labels of new items from a saved classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.answers import check_rows, read_features
from crowdwise.cli.declare import argument, file, group
from crowdwise.cli.fitting import read_gold, read_votes
from crowdwise.cli.job import Job, count, note, some
from crowdwise.cli.options import FeatureOptions, OutputOptions, ReadOptions
from crowdwise.errors import InputError, SettingError
from crowdwise.report.text import narrow
from crowdwise.report.trust_text import score_line

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.io.features import Features

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
    from crowdwise.estimator.loading import load
    from crowdwise.estimator.registry import aggregators
    from crowdwise.methods.classify.rows import as_trained, disagreement, prediction_frame, probabilities

    job = Job(options, features)
    if options.votes is None and read != ReadOptions():
        raise SettingError("options of reading the votes do not apply without --votes")
    estimator = load(options.model)
    if estimator.name in aggregators():
        raise InputError(
            f"{options.model} holds {estimator.name}, which knows votes alone; crowdwise train --save makes a classifier"
        )
    rows = read_features(features, read.item)
    assert rows is not None
    X, ignored = as_trained(estimator, rows)
    if ignored:
        note(f"ignored columns that the model was not trained on: {some(ignored, 5)}")
    given = None if options.votes is None else _votes_on(estimator, rows, options.votes, read)
    shares = probabilities(estimator, X, given)
    frame = prediction_frame(estimator, rows, shares, given)
    if getattr(estimator.model_, "n_draws", 1) > 1:
        frame = frame.with_columns(disagreement=disagreement(estimator, X))
    measured: dict[str, Any] = {}
    if options.truth is not None:
        from crowdwise.io.feature_rows import truth_of_rows
        from crowdwise.trust.metrics import score

        gold = read_gold(options.truth, None)
        measured = score(shares, truth_of_rows(rows, estimator.classes_.tolist(), gold, str(options.truth)))
    facts = {"method": estimator.name, "classes": estimator.classes_, "n_items": len(rows)} | measured
    if given is not None:
        facts["n_rows_with_votes"] = int((given.votes_per_item > 0).sum())
    job.main(frame, "item", document=lambda: facts, key="labels", screen=narrow)
    if given is not None:
        note(
            f"votes on {facts['n_rows_with_votes']:,} of {count(len(rows), 'row')}; the others have the classifier's own answer"
        )
    if measured:
        note(score_line(measured))


def _votes_on(estimator: Any, rows: Features, path: str, read: ReadOptions) -> Annotations:
    """Votes on the new items, in the order of the rows and with the classes of the model."""
    from crowdwise.methods.classify.align import aligned_votes

    votes = read_votes(path, read).with_classes(estimator.classes_.tolist())
    check_rows(rows, votes)
    return aligned_votes(rows.X, votes, rows.items, None)
