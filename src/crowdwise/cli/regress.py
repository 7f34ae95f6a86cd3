"""``crowdwise regress``: numbers from the answers of many annotators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import argument, column, file, option
from crowdwise.cli.display import count, number, one_line
from crowdwise.cli.fitting import build_task
from crowdwise.cli.inputs import parse_list, read_answers, read_features
from crowdwise.cli.job import Job, between, interval_rows
from crowdwise.cli.options import ANNOTATORS, MORE, PAGE, MaybeFeatures, OutputOptions, TaskOptions
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    import polars as pl

EXAMPLES = (
    "Example: crowdwise regress values.csv -o estimates.csv --annotators annotators.csv\n\n"
    "Boxes: crowdwise regress boxes.csv --value x1,y1,x2,y2 --method student-crowd\n\n"
    "With features: crowdwise regress values.csv --features X.npz --method gp-crowd-regression"
)
DEFAULT = "gaussian-crowd-bayes"
_READ = "Reading the values"
_VALUE = "Name of the value column; several comma-separated."


@dataclass(frozen=True, kw_only=True)
class Options(OutputOptions):
    """What is read and written."""

    values: str = argument("VALUES", "A table with a row per answer: item, annotator, value; - reads stdin.")
    item: str | None = column("--item", "item", _READ)
    annotator: str | None = column("--annotator", "annotator", _READ)
    value: str | None = option("--value", "A,B", _VALUE, panel=_READ, shown="found by its name")
    weight: str | None = option("--weight", "COLUMN", "Name of the weight column.", panel=_READ, shown="every answer counts 1")
    gold: Path | None = file("--gold", "Known values of some items: item, value.", _READ)
    annotators: Path | None = file("--annotators", ANNOTATORS, MORE)
    plot: Path | None = file("--plot", "Draw estimates and annotators (.png .pdf .svg); needs matplotlib.", MORE)
    page: Path | None = file("--page", PAGE, MORE)
    level: float = option("--level", "SHARE", "Level of the intervals.", 0.95)


def run(options: Options, method: TaskOptions, features: MaybeFeatures) -> None:
    """Estimate numbers from the answers of many annotators: ratings, durations, boxes, time spans.

    Every item gets an estimate with an interval, and every annotator a bias, a noise and a weight. Without --gold, the mean
    bias of the answers counts as zero: nothing in the answers can tell a crowd that is too high as a whole.
    """
    from crowdwise.data.ratings import Ratings
    from crowdwise.io import read_known

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
    data = read_answers(options.values, Ratings, value=columns, **named)
    known = None if options.gold is None else read_known(options.gold, data)
    rows = read_features(features)
    if rows is None:
        estimator.fit(data, known)
    else:
        estimator.fit(rows.X, data, known, items=rows.items)
    result = estimator.result_
    if options.plot is not None:
        from crowdwise.report.plot.numbers import save_estimates

        job.file("--plot", lambda path: save_estimates(result, path, level=options.level))
    job.table("--annotators", result.annotators_frame, "annotator")
    items = result.items_frame(options.level)
    if options.page is not None:
        _write_page(job, estimator, items, options.level)
    job.main(items, "item", document=lambda: _document(estimator, options.level), key="estimates", limit=10)
    job.say(_summary_lines(estimator, options.level, options.gold is not None))


def _check_features(estimator: Any, features: str | None) -> None:
    from crowdwise.estimator.registry import METHODS

    takes = METHODS[estimator.name].features
    if takes and features is None:
        raise SettingError(f"{estimator.name} learns from features: --features FILE")
    if features is not None and not takes:
        family = METHODS[estimator.name].family
        others = " or ".join(name for name, method in METHODS.items() if method.family == family and method.features)
        raise SettingError(f"{estimator.name} takes values alone; --features goes with --method {others}")


def _write_page(job: Job, estimator: Any, items: pl.DataFrame, level: float) -> None:
    """Estimates, the least certain first, and annotators."""
    values = estimator.result_.values
    title, drawn = "Items", None
    if values.n_dimensions == 1:
        items = items.sort(items["high"] - items["low"], descending=True, nulls_last=True)
        unit = f"value, with {100 * level:g}% intervals"
        title = "Items, the widest intervals first"
        drawn = interval_rows(items, "Estimates with the widest intervals", unit, ("low", "estimate", "high"))
    job.page(
        "Numbers from many annotators",
        estimator,
        {"Values": values.n_votes, "Items": values.n_items, "Annotators": values.n_annotators},
        {title: items, "Annotators": estimator.result_.annotators_frame()},
        ["Without known values nothing can tell a crowd that is too high or too low as a whole."],
        drawn,
    )


def _document(estimator: Any, level: float) -> dict[str, Any]:
    """The run and its annotators."""
    values = estimator.result_.values
    sizes = {name: getattr(values, name) for name in ("n_votes", "n_items", "n_annotators", "n_missing")}
    run = {"level": level, "n_iter": estimator.n_iter_, "converged": estimator.converged_}
    return {"method": estimator.name, **sizes, **run, "annotators": estimator.result_.annotators_frame().to_dicts()}


def _summary_lines(estimator: Any, level: float, gold: bool) -> Iterator[str]:
    """What was fitted, how wide the intervals are and whom to look at."""
    import numpy as np

    result = estimator.result_
    values = result.values
    dropped = f"; {count(values.n_missing, 'missing answer')} left out" if values.n_missing else ""
    sizes = ((values.n_votes, "value"), (values.n_items, "item"), (values.n_annotators, "annotator"))
    kept = f"; {count(int((result.scale == 0).all(axis=1).sum()), 'known value')} kept" if gold else ""
    yield f"{estimator.name}: {', '.join(count(n, noun) for n, noun in sizes)}{dropped}{kept}"
    low, high = result.interval(level)
    half = np.nanmedian((high - low) / 2, axis=0)
    named = [""] if values.n_dimensions == 1 else [f"{one_line(name)} " for name in values.names]
    widths = ", ".join(f"{name}±{number(float(width))}" for name, width in zip(named, half, strict=True))
    yield f"median {100 * level:g}% interval: {widths}"
    table = result.annotators_frame()
    if table.height > 1:
        worst = table.filter(table["n_values"] > 0).sort("reliability").head(1)
        name, reliability = worst["annotator"][0], worst["reliability"][0]
        yield f"least reliable annotator: {one_line(name)}, reliability {number(reliability)}"
