"""``crowdwise cluster``: from "same or different" answers to clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdwise.cli.declare import argument, column, file, option
from crowdwise.cli.fitting import build_task, read_answers, read_features
from crowdwise.cli.job import Job, at_least
from crowdwise.cli.options import ANNOTATORS, MORE, PAGE, FileOptions, MaybeFeatures, OutputOptions, TaskOptions
from crowdwise.errors import SettingError

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


def run(options: Options, method: TaskOptions, features: MaybeFeatures, files: FileOptions) -> None:
    """Cluster items by answers to "are these two of one kind?", and measure who answers well.

    Answers are 1 or 0, yes or no, same or different. Clusters are counted from 1, the largest
    first. hit_rate is how often an annotator says "same" of two items of one cluster,
    false_alarm_rate how often of others; skill is the difference, 0 for guessing. With --features
    a network finds the clusters (crowd-clustering), without them the answers alone do
    (similarity-nmf).
    """
    from crowdwise.data.similarities import Similarities
    from crowdwise.report.answer_pages import cluster_page
    from crowdwise.report.answer_text import by_skill, cluster_lines

    reads = options.pairs, features.features
    job = Job(options, reads, tables={"--annotators": options.annotators}, page=options.page)
    at_least("--clusters", options.clusters, 2)
    estimator = build_task(method, "similarity", "similarity-nmf" if features.features is None else "crowd-clustering")
    if options.clusters is not None:
        estimator.set_params(clusters=options.clusters)
    if hasattr(estimator, "predict_proba") != (features.features is not None):
        given = features.features is not None
        fix = "leave --features out, or use crowd-clustering" if given else "name their file with --features"
        raise SettingError(f"{estimator.name} {'takes no' if given else 'needs'} features; {fix}")
    named: dict[str, Any] = {role: getattr(options, role) for role in ("first", "second", "annotator")}
    votes = read_answers(options.pairs, Similarities, files, answer=options.same, **named)
    rows = read_features(features)
    if rows is None:
        result = estimator.fit(votes).result_
    else:
        from crowdwise.io.feature_rows import rows_of

        X, line = rows_of(rows, votes)
        job.say([line] if line else [])
        result = estimator.fit(X, votes).result_
    job.table("--annotators", lambda: by_skill(result), "annotator")
    table = result.items_frame()
    job.page(estimator, lambda: cluster_page(result))
    job.main(table, "item")
    job.say(cluster_lines(result))
