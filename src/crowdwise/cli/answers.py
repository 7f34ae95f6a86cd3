"""What commands on answers other than one class per item share: options, the method, reading and the fit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from crowdwise.cli.declare import column, group, option, page, table
from crowdwise.cli.fitting import STDIN, named, opening_of, set_up
from crowdwise.cli.job import note
from crowdwise.cli.options import ANNOTATORS, MORE, FileOptions, MaybeFeatures, OutputOptions, TaskOptions
from crowdwise.cli.rows import read_features
from crowdwise.errors import SettingError

__all__ = ["ANSWERS", "AnswerOptions", "WeightOptions", "build_task", "fit_answers", "read_answers"]

ANSWERS = "Reading the answers"


@group
class AnswerOptions(OutputOptions):
    """Where the tables and the page go, and who answered."""

    annotators: Path | None = table("--annotators", ANNOTATORS, MORE)
    page: Path | None = page(panel=MORE)
    annotator: str | None = column("--annotator", "annotator", ANSWERS)


@group
class WeightOptions:
    """Which answers of an export count, and how much."""

    question: str | None = option("--question", "NAME", "Which question of a platform's export to read.", panel=ANSWERS)
    weight: str | None = option(
        "--weight", "COLUMN", "Name of the weight column.", panel=ANSWERS, shown="every answer counts 1"
    )


def build_task(options: TaskOptions, family: str, default: str, features: str | None = None) -> Any:
    """Make the chosen method for answers of another kind, checked before any file is read; `features` is their file."""
    from crowdwise.estimator.registry import find, make, select

    methods = select(family=family)
    method = find(options.method or default, methods)
    if method.features and features is None:
        raise SettingError(f"{method.name} learns from features: add --features FILE")
    if features is not None and not method.features:
        others = " or ".join(name for name, other in methods.items() if other.features)
        raise SettingError(f"{method.name} takes answers alone; leave --features out, or name --method {others}")
    return set_up(make(method.name), options)


def read_answers(path: str, kind: Any, files: FileOptions, options: Any = None, names: str = "", **columns: Any) -> Any:
    """Read answers of another kind, such as comparisons; columns are named by options of these `names`, and by `columns`."""
    from crowdwise.io import read
    from crowdwise.io.streams import from_stdin

    reader = partial(read, kind=kind, **named(options, names), **columns, **opening_of(files))
    return from_stdin(reader) if path == STDIN else reader(path)


def fit_answers(estimator: Any, answers: Any, features: MaybeFeatures, **more: Any) -> Any:
    """Fit to answers, and to features where there are any."""
    rows = read_features(features)
    if rows is None:
        return estimator.fit(answers, **more)
    from crowdwise.io.feature_rows import check_answer_rows

    note(check_answer_rows(rows, answers))
    return estimator.fit(rows.X, answers, items=rows.items, **more)
