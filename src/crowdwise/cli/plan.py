"""``crowdwise plan``: how many more votes a target takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crowdwise.cli.declare import argument, option, share
from crowdwise.cli.fitting import result_of
from crowdwise.cli.job import number
from crowdwise.cli.options import VOTES_OR_SAVED, MethodOptions, ReadOptions, ScreenOptions
from crowdwise.cli.screen import print_json

EXAMPLES = "Example: crowdwise plan votes.csv --target 0.95"


@dataclass(frozen=True, kw_only=True)
class Options(ScreenOptions):
    """What is read and asked."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    target: float = share("--target", "Share of right labels to expect.", 0.95)
    campaigns: int = option("--campaigns", "N", "Number of campaigns to simulate.", 20, least=1)


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Estimate how many more votes bring the expected accuracy to a target, by simulated campaigns.

    Each asks about the least certain items; who answers is drawn by the activity so far. The
    estimate believes the model: where that is overconfident, so is the plan.
    """
    from crowdwise.campaign.stopping import expected_accuracy, plan
    from crowdwise.report.trust_text import plan_lines

    result = result_of(options.votes, read, method)
    found = plan(result, options.target, repeats=options.campaigns, random_state=method.seed or 0)
    now = dict(zip(("mean", "low", "high"), expected_accuracy(result), strict=True))
    if options.as_json:
        more: dict[str, Any] = {"mean": found.votes, "low": found.low, "high": found.high}
        document = {"method": result.method, "target": options.target, "expected_accuracy": now, "more_votes": more}
        print_json(document | {"out_of_reach": found.out_of_reach})
        return
    print(f"expected accuracy now: {number(now['mean'])} (95% interval {number(now['low'])} to {number(now['high'])})")
    print("as far as experience with other crowds goes; to measure it on these labels: crowdwise audit")
    for line in plan_lines(found, options.target, result.votes.n_items):
        print(line)
