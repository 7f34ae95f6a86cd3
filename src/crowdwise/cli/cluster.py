"""``crowdwise cluster``: from "same or different" answers to clusters."""

from __future__ import annotations

import crowdwise
from crowdwise import report
from crowdwise.cli.answers import build_task, fit_answers, read_answers
from crowdwise.cli.declare import argument, column, group, option
from crowdwise.cli.job import Job
from crowdwise.cli.options import ANSWERS, AnswerOptions, FileOptions, MaybeFeatures, TaskOptions

EXAMPLES = (
    "Example: crowdwise cluster pairs.csv --clusters 5 -o clusters.csv --annotators annotators.csv\n\n"
    "With features: crowdwise cluster pairs.csv --clusters 5 --features X.npz -o clusters.csv"
)


@group
class Options(AnswerOptions):
    """What is read and written."""

    pairs: str = argument("PAIRS", "A table: item_a, item_b, annotator, same (1 or 0); - reads stdin.")
    clusters: int | None = option("--clusters -k", "K", "Number of clusters.", shown="chosen by held-out answers", least=2)
    first: str | None = column("--first", "first item", ANSWERS)
    second: str | None = column("--second", "second item", ANSWERS)
    same: str | None = column("--same", "answer", ANSWERS)


def run(options: Options, method: TaskOptions, features: MaybeFeatures, files: FileOptions) -> None:
    """Cluster items by answers to "are these two of one kind?", and measure who answers well.

    Answers are 1 or 0, yes or no, same or different. Clusters are counted from 1, the largest
    first. hit_rate is how often an annotator says "same" of two items of one cluster,
    false_alarm_rate how often of others; skill is the difference, 0 for guessing. With --features
    a network finds the clusters (crowd-clustering), without them the answers alone do
    (similarity-nmf).
    """
    job, default = Job(options, features), "similarity-nmf" if features.features is None else "crowd-clustering"
    estimator = build_task(method, "similarity", default, features.features)
    if options.clusters is not None:
        estimator.set_params(clusters=options.clusters)
    pairs = read_answers(options.pairs, crowdwise.Similarities, files, options, "first second annotator", answer=options.same)
    result = fit_answers(estimator, pairs, features).result_
    job.table("--annotators", lambda: report.by_skill(result), "annotator")
    job.page(estimator, lambda: report.cluster_page(result))
    job.main(result.items_frame(), "item")
    job.say(report.cluster_lines(result))
