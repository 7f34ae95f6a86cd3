"""``crowdwise regress``: numbers from the answers of many annotators."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.options import Json, Output, Page, Quiet, SpreadsheetSafe, TaskOptions, column
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.data.ratings import Ratings
    from crowdwise.methods.ratings.base import RatingMethod

EXAMPLES = (
    "Example: crowdwise regress values.csv -o estimates.csv --annotators annotators.csv\n\n"
    "Boxes: crowdwise regress boxes.csv --value x1,y1,x2,y2 --method student-crowd\n\n"
    "With features: crowdwise regress values.csv --features X.npz --method gp-crowd-regression"
)
DEFAULT = "gaussian-crowd-bayes"
_READ, _MORE = "Reading the values", "More results"


def run(
    values: Annotated[
        str, typer.Argument(metavar="VALUES", help="A table with a row per answer: item, annotator, value; - reads stdin.")
    ],
    method: TaskOptions,
    item: Annotated[str | None, column("--item", "the items", _READ)] = None,
    annotator: Annotated[str | None, column("--annotator", "the annotators", _READ)] = None,
    value: Annotated[
        str | None,
        typer.Option("--value", metavar="A,B", rich_help_panel=_READ, help="Column of the value; several between commas."),
    ] = None,
    weight: Annotated[str | None, column("--weight", "the answers' weights", _READ)] = None,
    gold: Annotated[
        Path | None,
        typer.Option("--gold", metavar="FILE", rich_help_panel=_READ, help="Known values of some items: item, value."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option("--features", metavar="FILE", rich_help_panel=_READ, help="One row per item, for methods that use them."),
    ] = None,
    output: Output = None,
    annotators: Annotated[
        Path | None,
        typer.Option("--annotators", metavar="FILE", rich_help_panel=_MORE, help="Write a table of the annotators."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", rich_help_panel=_MORE, help="Draw estimates and annotators (.png .pdf .svg)."),
    ] = None,
    page: Page = None,
    level: Annotated[float, typer.Option("--level", metavar="SHARE", help="Level of the intervals.")] = 0.95,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate numbers from the answers of many annotators: ratings, durations, boxes, time spans.

    Every item gets an estimate with an interval, and every annotator a bias, a noise and a weight. Without --gold, the mean
    bias of the answers counts as zero: nothing in the answers can tell a crowd that is too high as a whole.
    """
    from crowdwise.cli.calibrate import check_plot
    from crowdwise.cli.inputs import build_task, from_path, parse_list
    from crowdwise.cli.outputs import check_outputs, emit, print_json, to_stdout, write, wrote
    from crowdwise.data.ratings import Ratings
    from crowdwise.io import read, read_known

    check_outputs({"-o": output, "--annotators": annotators, "--page": page}, (values, gold, features))
    check_plot(plot, (values, gold, features, output, annotators, page))
    if to_stdout(annotators):
        raise SettingError("only -o can go to stdout")
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    if not 0 < level < 1:
        raise SettingError(f"--level must lie between 0 and 1, such as 0.95; got {level}")
    estimator = build_task(method, "numbers", DEFAULT)
    wants = hasattr(estimator, "predict")
    if wants != (features is not None):
        others = "gp-crowd-regression or crowd-layer-regression"
        raise SettingError(
            f"{estimator.name} learns from features: --features FILE"
            if wants
            else f"{estimator.name} takes values alone; --features goes with --method {others}"
        )
    columns = None if value is None else [str(name) for name in parse_list(value, "--value")]
    names: dict[str, Any] = {"item": item, "annotator": annotator, "value": columns, "weight": weight}
    data = from_path(values, lambda path: read(path, Ratings, **names))
    known = None if gold is None else read_known(gold, data)
    _fit(estimator, data, known, features)

    result = estimator.result_
    if plot is not None:
        from crowdwise.report.plot.numbers import save_estimates

        save_estimates(result, plot, level=level)
        wrote(plot, quiet)
    if annotators is not None:
        write(_by_weight(estimator), annotators, "annotator", quiet, spreadsheet_safe)
    items = result.items_frame(level)
    if page is not None:
        _write_page(estimator, items, page, level, quiet)
    if as_json:
        document = _document(estimator, level)
        if output is None:
            document["estimates"] = items.to_dicts()
        else:
            write(items, output, "item", quiet, spreadsheet_safe)
        print_json(document)
    else:
        terminal = output is None and sys.stdout.isatty()
        emit(items, output, "item", limit=10 if terminal else 20, quiet=quiet, safe=spreadsheet_safe)
    if not quiet:
        _tell(estimator, level, gold is not None)


def _by_weight(estimator: RatingMethod) -> pl.DataFrame:
    """Annotators, those who weigh most first."""
    return estimator.annotators_frame().sort("weight", descending=True, maintain_order=True)


def _write_page(estimator: RatingMethod, items: pl.DataFrame, page: Path, level: float, quiet: bool) -> None:
    """Estimates, the least certain first, and annotators."""
    from crowdwise.cli.pages import interval_rows, write_answers_page

    values = estimator.result_.votes
    one, drawn = values.n_dimensions == 1, None
    if one:
        items = items.sort(items["high"] - items["low"], descending=True, nulls_last=True)
        title = "Estimates with the widest intervals"
        drawn = interval_rows(items, title, f"value, with {100 * level:g}% intervals", "item", ("low", "estimate", "high"))
    write_answers_page(
        page,
        quiet,
        title="Numbers from many annotators",
        estimator=estimator,
        facts={"Values": values.n_votes, "Items": values.n_items, "Annotators": values.n_annotators},
        tables={
            f"Items{', the widest intervals first' if one else ''}": items,
            "Annotators": _by_weight(estimator),
        },
        notes=["Without known values nothing can tell a crowd that is too high or too low as a whole."],
        intervals=drawn,
    )


def _fit(estimator: RatingMethod, data: Ratings, known: Any, features: str | None) -> None:
    if features is None:
        estimator.fit(data, gold=known)
        return
    from crowdwise.io.features import read_features

    rows = read_features(features)
    fit: Any = estimator.fit
    fit(rows.X, data, gold=known, items=rows.items)


def _document(estimator: RatingMethod, level: float) -> dict[str, Any]:
    """The run and its annotators."""
    values = estimator.result_.votes
    return {
        "method": estimator.name,
        "n_votes": values.n_votes,
        "n_items": values.n_items,
        "n_annotators": values.n_annotators,
        "n_missing": values.n_missing,
        "level": level,
        "n_iter": estimator.n_iter_,
        "converged": estimator.converged_,
        "annotators": _by_weight(estimator).to_dicts(),
    }


def _tell(estimator: RatingMethod, level: float, gold: bool) -> None:
    """Say on stderr what was fitted, how wide the intervals are and whom to look at."""
    import numpy as np

    from crowdwise.cli.text import count, number, one_line, say

    result = estimator.result_
    values = result.votes
    dropped = f"; {count(values.n_missing, 'missing answer')} left out" if values.n_missing else ""
    sizes = ((values.n_votes, "value"), (values.n_items, "item"), (values.n_annotators, "annotator"))
    told = f"; {count(int((result.scale == 0).all(axis=1).sum()), 'known value')} kept" if gold else ""
    say(f"{estimator.name}: {', '.join(count(n, noun) for n, noun in sizes)}{dropped}{told}")
    low, high = result.interval(level)
    half = np.nanmedian((high - low) / 2, axis=0)
    named = [""] if values.n_dimensions == 1 else [f"{one_line(name)} " for name in values.names]
    widths = ", ".join(f"{name}±{number(float(width))}" for name, width in zip(named, half, strict=True))
    say(f"median {100 * level:g}% interval: {widths}")
    table = result.annotators_frame()
    if table.height > 1:
        worst = table.filter(table["n_votes"] > 0).sort("reliability").head(1)
        name, reliability = worst["annotator"][0], worst["reliability"][0]
        say(f"least reliable annotator: {one_line(name)}, reliability {number(reliability)}")
