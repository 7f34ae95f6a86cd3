"""``crowdwise plan``: how many more votes a target takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crowdwise.cli.declare import argument, option
from crowdwise.cli.fitting import result_of
from crowdwise.cli.job import at_least, between, number, print_json, steps
from crowdwise.cli.options import VOTES_OR_SAVED, MethodOptions, ReadOptions, ScreenOptions

EXAMPLES = "Example: crowdwise plan votes.csv --target 0.95"


@dataclass(frozen=True, kw_only=True)
class Options(ScreenOptions):
    """What is read and asked."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    target: float = option("--target", "SHARE", "Share of right labels to expect.", 0.95)
    repeats: int = option("--repeats", "N", "Number of campaigns to simulate.", 20)


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Estimate how many more votes bring the expected accuracy to a target, by simulated campaigns.

    Each asks about the least certain items; who answers is drawn by the activity so far. The
    estimate believes the model: where that is overconfident, so is the plan.
    """
    from crowdwise.campaign.stopping import expected_accuracy, plan
    from crowdwise.report.trust_text import plan_lines

    at_least("--repeats", options.repeats, 1)
    between("--target", options.target)
    result = result_of(options.votes, read, method, options.quiet)
    with steps(options.quiet) as progress:
        found = plan(result, options.target, repeats=options.repeats, random_state=method.seed or 0, progress=progress)
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
