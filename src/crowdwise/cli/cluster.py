"""``crowdwise cluster``: from "same or different" answers to clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import argument, column, file, option
from crowdwise.cli.display import count, number, say
from crowdwise.cli.fitting import build_task
from crowdwise.cli.inputs import read_answers, read_features
from crowdwise.cli.job import Job, at_least
from crowdwise.cli.options import ANNOTATORS, MORE, PAGE, MaybeFeatures, OutputOptions, TaskOptions
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    from crowdwise.data.similarities import Similarities
    from crowdwise.io.features import Features
    from crowdwise.methods.clusters.result import ClusterResult

EXAMPLES = (
    "Example: crowdwise cluster pairs.csv --clusters 5 -o clusters.csv --annotators annotators.csv\n\n"
    "With features: crowdwise cluster pairs.csv --clusters 5 --features X.npz -o clusters.csv"
)
_READ = "Reading the answers"


@dataclass(frozen=True, kw_only=True)
class Options(OutputOptions):
    """What is read and written."""

    pairs: str = argument("PAIRS", "A table: item_a, item_b, annotator, same (1 or 0); - reads stdin.")
    clusters: int | None = option("--clusters -k", "K", "Number of clusters.", shown="chosen by held-out answers")
    annotators: Path | None = file("--annotators", ANNOTATORS, MORE)
    page: Path | None = file("--page", PAGE, MORE)
    first: str | None = column("--first", "first item", _READ)
    second: str | None = column("--second", "second item", _READ)
    annotator: str | None = column("--annotator", "annotator", _READ)
    same: str | None = column("--same", "answer", _READ)


def run(options: Options, method: TaskOptions, features: MaybeFeatures) -> None:
    """Cluster items by answers to "are these two of one kind?", and measure who answers well.

    Answers are 1 or 0, yes or no, same or different. Clusters are counted from 1, the largest
    first. hit_rate is how often an annotator says "same" of two items of one cluster,
    false_alarm_rate how often of others; skill is the difference, 0 for guessing. With --features
    a network finds the clusters (crowd-clustering), without them the answers alone do
    (similarity-nmf).
    """
    from crowdwise.data.similarities import Similarities

    reads = options.pairs, features.features
    job = Job(options, reads, tables={"--annotators": options.annotators}, page=options.page)
    at_least("--clusters", options.clusters, 2)
    estimator = build_task(method, "similarity", "similarity-nmf" if features.features is None else "crowd-clustering")
    if options.clusters is not None:
        estimator.set_params(clusters=options.clusters)
    if estimator.needs_features != (features.features is not None):
        given = features.features is not None
        fix = "leave --features out, or use crowd-clustering" if given else "name their file with --features"
        raise SettingError(f"{estimator.name} {'takes no' if given else 'needs'} features; {fix}")
    named: dict[str, Any] = {role: getattr(options, role) for role in ("first", "second", "annotator")}
    votes = read_answers(options.pairs, Similarities, answer=options.same, **named)
    rows = read_features(features)
    result = (estimator.fit(votes) if rows is None else estimator.fit(votes, _matched(rows, votes, options.quiet))).result_
    job.table("--annotators", result.annotator_frame, "annotator")
    table = result.item_frame()
    sizes = {"Answers": votes.n_votes, "Items": votes.n_items, "Annotators": votes.n_annotators}
    sizes["Clusters"] = result.membership.shape[1]
    title = "Clusters from same-or-different answers"
    job.page(title, estimator, sizes, {"Items": table, "Annotators": result.annotator_frame()})
    job.main(table, "item")
    job.say(_summary_lines(result))


def _matched(features: Features, votes: Similarities, quiet: bool) -> Any:
    """Rows of the features in the order of the items, by id, or by order where there are no ids."""
    import numpy as np

    from crowdwise.data.encode import translate

    if features.items is None:
        if len(features) != votes.n_items:
            raise InputError(
                f"{features.source} has {len(features):,} rows and no ids, and the answers are on {votes.n_items:,} items; "
                "add the ids: an array 'items' beside the features in .npz, or a column 'item' in a table"
            )
        if not quiet:
            say(f"{features.source} has no ids: its rows are taken for the items in sorted order")
        return features.X
    place = translate(votes.items, features.items)
    lost = np.flatnonzero(place < 0)
    if len(lost):
        example = votes.items[lost[:1]].tolist()[0]
        raise InputError(
            f"{features.source}: no row for {len(lost):,} of the {votes.n_items:,} items, such as {example!r}; add their rows"
        )
    return features.X[place]


def _summary_lines(result: ClusterResult) -> Iterator[str]:
    import numpy as np

    votes, size = result.votes, np.bincount(result.cluster, minlength=result.membership.shape[1] + 1)[1:]
    dropped = f" ({count(votes.n_missing, 'row')} without an answer dropped)" if votes.n_missing else ""
    answers = f"{count(votes.n_votes, 'answer')}{dropped} by {count(votes.n_annotators, 'annotator')}"
    yield f"{result.method}: {count(votes.n_items, 'item')} in {count(len(size), 'cluster')}, from {answers}"
    if result.held_out:
        scores = ", ".join(f"{k}: {value:.4f}" for k, value in result.held_out.items())
        yield f"log-probability of a held-out answer by number of clusters: {scores}"
    hit, alarm = number(float(result.hit.mean())), number(float(result.false_alarm.mean()))
    sizes = ", ".join(f"{n:,}" for n in size.tolist()[:20])
    yield f"sizes {sizes}; mean hit rate {hit}, mean false-alarm rate {alarm}"
