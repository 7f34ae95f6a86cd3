"""``crowdwise regress``: numbers from the answers of many annotators."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import crowdwise
from crowdwise import io, report
from crowdwise.cli.answers import build_task, fit_answers, read_answers
from crowdwise.cli.declare import argument, column, file, group, option, plot, share
from crowdwise.cli.fitting import parse_list
from crowdwise.cli.job import Job
from crowdwise.cli.options import ANSWERS, MORE, AnswerOptions, FileOptions, MaybeFeatures, TaskOptions, WeightOptions

EXAMPLES = (
    "Example: crowdwise regress values.csv -o estimates.csv --annotators annotators.csv\n\n"
    "Boxes: crowdwise regress boxes.csv --value x1,y1,x2,y2 --method student-crowd\n\n"
    "With features: crowdwise regress values.csv --features X.npz --method gp-crowd-regression"
)
_VALUES = "A table with a row per answer: item, annotator, value; or a platform's ratings or boxes; - reads stdin."
_VALUE = "Name of the value column; several comma-separated."


@group
class Options(WeightOptions, AnswerOptions):
    """What is read and written."""

    values: str = argument("VALUES", _VALUES)
    item: str | None = column("--item", "item", ANSWERS)
    value: str | None = option("--value", "A,B", _VALUE, panel=ANSWERS, shown="found by its name")
    gold: Path | None = file("--gold", "Known values of some items: item, value.", ANSWERS)
    plot: Path | None = plot("estimates and annotators", MORE)
    level: float = share("--level", "Level of the intervals.", 0.95)


def run(options: Options, method: TaskOptions, features: MaybeFeatures, files: FileOptions) -> None:
    """Estimate numbers from the answers of many annotators: ratings, durations, boxes, time spans.

    Every item gets an estimate with an interval, and every annotator a bias, a noise and a weight. Without --gold, the mean
    bias of the answers counts as zero: nothing in the answers shows that a crowd is too high as a whole.
    """
    job = Job(options, features)
    estimator = build_task(method, "numbers", "gaussian-crowd-bayes", features.features)
    columns = None if options.value is None else [str(name) for name in parse_list(options.value, "--value")]
    data = read_answers(options.values, crowdwise.Ratings, files, options, "item annotator weight question", value=columns)
    known = None if options.gold is None else io.read_known(options.gold, data)
    result = fit_answers(estimator, data, features, gold=known).result_
    job.file("--plot", lambda path: report.plot.save_estimates(result, path, level=options.level))
    job.table("--annotators", lambda: report.by_weight(result), "annotator")
    job.page(estimator, lambda: report.number_page(result, options.level))
    document = partial(report.number_document, estimator, options.level)
    job.main(result.items_frame(options.level), "item", document=document, key="estimates", limit=10)
    job.say(report.number_lines(estimator, options.level, options.gold is not None))
