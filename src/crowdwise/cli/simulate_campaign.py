"""``crowdwise simulate-campaign``: policies raced on a recorded or simulated crowd."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.campaign_options import MaybeFeatures, learns
from crowdwise.cli.options import FLAG, CampaignMethodOptions, Json, Quiet, ReadOptions
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    import polars as pl

EXAMPLES = (
    "Example: crowdwise simulate-campaign votes.csv --truth truth.csv --policies random+random,warm-information -o race\n\n"
    "With features: crowdwise simulate-campaign votes.csv --truth truth.csv --features X.npz --method dalc --policies "
    "random+random,dalc\n\n"
    "Simulated: crowdwise simulate-campaign --items 500 --annotators 20 --kind one-coin=0.8,uniform-spammer=0.2 -o race"
)
_CROWD, _RACE = "A simulated crowd", "The race"


def _crowd(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_CROWD, **more)


def _race(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_RACE, **more)


def run(
    read: ReadOptions,
    method: CampaignMethodOptions,
    features: MaybeFeatures,
    votes: Annotated[
        str | None, typer.Argument(metavar="VOTES", help="Recorded votes that answer; without them the crowd is simulated.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option("--truth", metavar="FILE", help="True labels: item, label. Or the votes carry gold.")
    ] = None,
    items: Annotated[int, _crowd("--items", metavar="N", help="Number of items.")] = 300,
    annotators: Annotated[int, _crowd("--annotators", metavar="N", help="Number of annotators.")] = 20,
    kind: Annotated[
        str, _crowd("--kind", metavar="KIND", help="A family of annotators or a mix, as in crowdwise simulate.")
    ] = "dirichlet",
    policies: Annotated[
        str, _race("--policies", metavar="A,B", help="As in crowdwise suggest.")
    ] = "random+random,warm-information",
    budget: Annotated[
        float | None, _race("--budget", metavar="X", help="Votes in all.", show_default="3 per item, or half of those recorded")
    ] = None,
    batch: Annotated[float | None, _race("--batch", metavar="X", help="Votes at a time.", show_default="budget / 20")] = None,
    start: Annotated[float, _race("--start", metavar="X", help="Votes on random pairs before the policies begin.")] = 0,
    campaigns: Annotated[int, _race("--campaigns", metavar="N", help="Campaigns per policy, each with a seed of its own.")] = 5,
    explore: Annotated[float, _race("--explore", metavar="SHARE", help="Share of questions asked at random.")] = 0.05,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write curves.csv and curves.png into this folder.")
    ] = None,
    no_plot: Annotated[
        bool, typer.Option("--no-plot", metavar=FLAG, help="Write curves.csv only; needs no matplotlib.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Race policies on the same crowd, and draw accuracy against votes.

    Every campaign starts without votes. Of a recorded crowd only recorded pairs can be asked. With --features
    a classifier is trained after every batch. The table on stdout is the end of the race: accuracy, what the model
    itself expected, and the mean accuracy on the way.
    """
    from crowdwise.campaign.campaign import race, summary, write_curves
    from crowdwise.campaign.oracle import Oracle
    from crowdwise.campaign.policies import policy_of
    from crowdwise.cli.classifier import CAMPAIGN_CLASSIFIER, build_classifier, check_all_rows, taken_by
    from crowdwise.cli.crowd import recorded_crowd, simulated_crowd
    from crowdwise.cli.inputs import STEADY_METHOD, build, parse_list, read_features
    from crowdwise.cli.outputs import emit, print_json
    from crowdwise.cli.progress import steps
    from crowdwise.cli.text import say
    from crowdwise.estimator.storage import check_folder

    if campaigns < 1:
        raise SettingError(f"--campaigns must be at least 1; got {campaigns}")
    if method.gold is not None or method.history is not None:
        raise SettingError("--gold and --history would tell the model what the race is about; give the truth with --truth")
    chosen = [str(name) for name in parse_list(policies, "--policies")]
    for name in chosen:
        try:
            policy_of(name)
        except SettingError as problem:
            raise SettingError(f"--policies: {problem}") from None
    if output is not None:
        check_folder(output)
    trains = learns(method, features)
    estimator: Any = build_classifier(method, CAMPAIGN_CLASSIFIER) if trains else build(method, STEADY_METHOD)
    more: dict[str, Any] = {}
    oracle: Oracle
    if votes is None:
        if features.features is not None:
            raise SettingError("--features belong to recorded votes: name their file; simulated items have none")
        oracle = simulated_crowd(items, annotators, kind, read.classes, method.seed or 0)
    else:
        oracle = recorded_crowd(votes, truth, read)
    if oracle.allowed is not None and features.features is not None:
        rows = read_features(features.given(), read.item)
        check_all_rows(rows, oracle.allowed, quiet)
        more = {"features": taken_by(estimator, rows) if trains else rows.X, "feature_items": rows.items}
    if budget is None:
        budget = 3 * len(oracle.items) if oracle.allowed is None else max(oracle.allowed.n_votes // 2, 1)
    batch = max(budget // 20, 1) if batch is None else batch
    first = method.seed or 0
    with steps(quiet) as progress:
        curves = race(
            chosen,
            oracle,
            estimator,
            budget,
            batch,
            seeds=range(first, first + campaigns),
            start=start,
            explore=explore,
            progress=progress,
            **more,
        )
    if output is not None:
        for path in write_curves(curves, output, plot=not no_plot):
            if not quiet:
                say(f"wrote {path}")
    ends = summary(curves)
    if as_json:
        print_json({"method": estimator.name, "budget": budget, "batch": batch, "policies": ends.to_dicts()})
    elif sys.stdout.isatty():
        emit(_for_terminal(ends), None, "policy", quiet=quiet)
    else:
        emit(ends, None, "policy", quiet=quiet)


def _for_terminal(ends: pl.DataFrame) -> pl.DataFrame:
    """The columns that fit a screen."""
    import polars as pl

    error = pl.format(" ± {}", pl.col("standard_error").round(3)).fill_null("")
    return ends.select(
        "policy",
        pl.col("votes").round().cast(pl.Int64),
        pl.concat_str(pl.col("accuracy").round(3), error).alias("accuracy"),
        pl.col("expected_accuracy").alias("expected by the model"),
        pl.col("on_the_way").alias("mean on the way"),
    )
