"""``crowdwise plan``: how many more votes a target takes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from crowdwise.cli.options import Json, Quiet, ReadOptions, SteadyMethodOptions, VotesOrSaved

EXAMPLES = "Example: crowdwise plan votes.csv --target 0.95"


def run(
    votes: VotesOrSaved,
    read: ReadOptions,
    method: SteadyMethodOptions,
    target: Annotated[float, typer.Option("--target", metavar="SHARE", help="Share of right labels to expect.")] = 0.95,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="Campaigns to simulate.")] = 20,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate how many more votes bring the expected accuracy to a target, by simulated campaigns.

    Each asks about the least certain items; who answers is drawn by the activity so far. The
    estimate believes the model: where that is overconfident, so is the plan.
    """
    from crowdwise.campaign.stopping import expected_accuracy, plan
    from crowdwise.cli.inputs import STEADY_METHOD, result_of
    from crowdwise.cli.outputs import print_json
    from crowdwise.cli.text import count, number
    from crowdwise.errors import SettingError

    if repeats < 1:
        raise SettingError(f"--repeats must be at least 1; got {repeats}")
    if not 0 < target < 1:
        raise SettingError(f"--target must be between 0 and 1; got {target}")
    result = result_of(votes, read, method, quiet, STEADY_METHOD)
    found = plan(result, target, repeats=repeats, random_state=method.seed or 0)
    mean, low, high = expected_accuracy(result)
    if as_json:
        now = {"mean": mean, "low": low, "high": high}
        more: dict[str, Any] = {"mean": found.votes, "low": found.low, "high": found.high}
        print_json(
            {
                "method": result.method,
                "target": target,
                "expected_accuracy": now,
                "more_votes": more,
                "out_of_reach": found.out_of_reach,
            }
        )
        return
    print(f"expected accuracy now: {number(mean)} (95% interval {number(low)} to {number(high)})")
    print("as far as the model's confidence can be believed: check it on some known labels with crowdwise calibrate --truth")
    if found.votes == 0:
        print(f"target {number(target)}: reached")
    elif found.out_of_reach == 1:
        print(
            f"target {number(target)}: out of reach within 50 more votes per item; better annotators are needed, not more votes"
        )
    else:
        end = f"to {found.high:,.0f}" if found.high < float("inf") else "and more"
        each = found.votes / max(result.votes.n_items, 1)
        print(
            f"target {number(target)}: about {count(round(found.votes), 'more vote')} (90% interval {found.low:,.0f} {end}), "
            f"{each:.1f} per item"
        )
        if found.out_of_reach:
            print(f"out of reach within 50 more votes per item in {found.out_of_reach:.0%} of the simulated campaigns")
