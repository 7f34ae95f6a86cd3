"""``crowdwise regress``: numbers from the answers of many annotators."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdwise.cli.declare import argument, column, file, option
from crowdwise.cli.fitting import build_task, parse_list, read_answers, read_features
from crowdwise.cli.job import Job, between
from crowdwise.cli.options import ANNOTATORS, MORE, PAGE, FileOptions, MaybeFeatures, OutputOptions, TaskOptions
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise regress values.csv -o estimates.csv --annotators annotators.csv\n\n"
    "Boxes: crowdwise regress boxes.csv --value x1,y1,x2,y2 --method student-crowd\n\n"
    "With features: crowdwise regress values.csv --features X.npz --method gp-crowd-regression"
)
DEFAULT = "gaussian-crowd-bayes"
_READ = "Reading the values"
_VALUES = "A table with a row per answer: item, annotator, value; or a platform's ratings or boxes; - reads stdin."
_VALUE = "Name of the value column; several comma-separated."


@dataclass(frozen=True, kw_only=True)
class Options(OutputOptions):
    """What is read and written."""

    values: str = argument("VALUES", _VALUES)
    item: str | None = column("--item", "item", _READ)
    annotator: str | None = column("--annotator", "annotator", _READ)
    value: str | None = option("--value", "A,B", _VALUE, panel=_READ, shown="found by its name")
    question: str | None = option("--question", "NAME", "Which question of a platform's export to read.", panel=_READ)
    weight: str | None = option("--weight", "COLUMN", "Name of the weight column.", panel=_READ, shown="every answer counts 1")
    gold: Path | None = file("--gold", "Known values of some items: item, value.", _READ)
    annotators: Path | None = file("--annotators", ANNOTATORS, MORE)
    plot: Path | None = file("--plot", "Draw estimates and annotators (.png .pdf .svg); needs matplotlib.", MORE)
    page: Path | None = file("--page", PAGE, MORE)
    level: float = option("--level", "SHARE", "Level of the intervals.", 0.95)


def run(options: Options, method: TaskOptions, features: MaybeFeatures, files: FileOptions) -> None:
    """Estimate numbers from the answers of many annotators: ratings, durations, boxes, time spans.

    Every item gets an estimate with an interval, and every annotator a bias, a noise and a weight. Without --gold, the mean
    bias of the answers counts as zero: nothing in the answers can tell a crowd that is too high as a whole.
    """
    from crowdwise.data.ratings import Ratings
    from crowdwise.io import read_known
    from crowdwise.report.answer_pages import number_page
    from crowdwise.report.answer_text import by_weight, number_document, number_lines

    job = Job(
        options,
        (options.values, options.gold, features.features),
        tables={"--annotators": options.annotators},
        page=options.page,
        plot=options.plot,
    )
    between("--level", options.level)
    estimator = build_task(method, "numbers", DEFAULT)
    _check_features(estimator, features.features)
    columns = None if options.value is None else [str(name) for name in parse_list(options.value, "--value")]
    named: dict[str, Any] = {"item": options.item, "annotator": options.annotator, "weight": options.weight}
    named["question"] = options.question
    data = read_answers(options.values, Ratings, files, value=columns, **named)
    known = None if options.gold is None else read_known(options.gold, data)
    rows = read_features(features)
    if rows is None:
        estimator.fit(data, gold=known)
    else:
        estimator.fit(rows.X, data, gold=known, items=rows.items)
    result = estimator.result_
    if options.plot is not None:
        from crowdwise.report.plot.numbers import save_estimates

        job.file("--plot", lambda path: save_estimates(result, path, level=options.level))
    job.table("--annotators", lambda: by_weight(result), "annotator")
    items = result.items_frame(options.level)
    job.page(estimator, lambda: number_page(result, options.level))
    job.main(items, "item", document=lambda: number_document(estimator, options.level), key="estimates", limit=10)
    job.say(number_lines(estimator, options.level, options.gold is not None))


def _check_features(estimator: Any, features: str | None) -> None:
    from crowdwise.estimator.registry import METHODS

    takes = METHODS[estimator.name].features
    if takes and features is None:
        raise SettingError(f"{estimator.name} learns from features: --features FILE")
    if features is not None and not takes:
        family = METHODS[estimator.name].family
        others = " or ".join(name for name, method in METHODS.items() if method.family == family and method.features)
        raise SettingError(f"{estimator.name} takes values alone; --features goes with --method {others}")
