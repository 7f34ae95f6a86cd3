"""``crowdwise simulate-campaign``: policies raced on a recorded or simulated crowd."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.options import FLAG, Json, MethodOptions, Quiet, ReadOptions
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.active.oracle import Oracle

EXAMPLES = (
    "Example: crowdwise simulate-campaign votes.csv --truth truth.csv --policies random+random,information -o race\n\n"
    "Simulated: crowdwise simulate-campaign --items 500 --annotators 20 --kind one-coin=0.8,uniform-spammer=0.2 -o race"
)
_CROWD, _RACE = "A simulated crowd", "The race"


def _crowd(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_CROWD, **more)


def _race(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_RACE, **more)


def run(
    read: ReadOptions,
    method: MethodOptions,
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
    policies: Annotated[str, _race("--policies", metavar="A,B", help="As in crowdwise suggest.")] = "random+random,information",
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

    Every campaign starts without votes. Of a recorded crowd only recorded pairs can be asked. The
    table on stdout is the end of the race: accuracy, what the model itself expected, and the mean accuracy on the way.
    """
    from crowdwise.active.campaign import race, summary, write_curves
    from crowdwise.active.policies import policy_of
    from crowdwise.cli.inputs import build, parse_list
    from crowdwise.cli.outputs import emit, print_json
    from crowdwise.cli.progress import steps
    from crowdwise.cli.text import say
    from crowdwise.storage import check_folder

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
    estimator = build(method)
    oracle = _simulated(items, annotators, kind, read, method.seed or 0) if votes is None else _recorded(votes, truth, read)
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
        )
    if output is not None:
        for path in write_curves(curves, output, plot=not no_plot):
            if not quiet:
                say(f"wrote {path}")
    ends = summary(curves)
    if as_json:
        print_json({"method": estimator.name, "budget": budget, "batch": batch, "policies": ends.to_dicts()})
    else:
        emit(ends, None, "policy", quiet=quiet)


def _recorded(path: str, truth: Path | None, read: ReadOptions) -> Oracle:
    from crowdwise.active.oracle import RecordedCrowd
    from crowdwise.cli.inputs import read_gold, read_votes

    data = read_votes(path, read)
    if truth is None and data.gold is None:
        raise SettingError("give the true labels with --truth FILE (columns item and label)")
    return RecordedCrowd(data, read_gold(truth, data))


def _simulated(items: int, annotators: int, kind: str, read: ReadOptions, seed: int) -> Oracle:
    from crowdwise.active.oracle import SimulatedCrowd
    from crowdwise.cli.inputs import parse_list
    from crowdwise.cli.simulate import _mix
    from crowdwise.simulate import simulate

    classes = read.classes or "3"
    named = None if classes.strip().isdigit() else parse_list(classes, "--classes")
    drawn = simulate(
        n_items=items,
        n_annotators=annotators,
        n_classes=int(classes) if named is None else len(named),
        classes=named,
        votes_per_item=1,
        annotators=_mix(kind),
        random_state=seed,
    )
    return SimulatedCrowd.of(drawn, seed)
