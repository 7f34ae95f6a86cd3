"""``crowdwise plan``: how many more votes a target takes."""

from __future__ import annotations

from crowdwise.cli.declare import argument, group, option, share
from crowdwise.cli.fitting import result_of
from crowdwise.cli.job import steps
from crowdwise.cli.options import VOTES_OR_SAVED, MethodOptions, ReadOptions, ScreenOptions
from crowdwise.cli.screen import print_answer

EXAMPLES = "Example: crowdwise plan votes.csv --target 0.95"


@group
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
    from crowdwise.report.trust_text import plan_facts, plan_lines

    result = result_of(options.votes, read, method)
    with steps() as progress:
        found = plan(result, options.target, repeats=options.campaigns, random_state=method.seed or 0, progress=progress)
    now = expected_accuracy(result)
    facts = {"method": result.method, "target": options.target} | plan_facts(found, now)
    print_answer(options.as_json, lambda: facts, lambda: plan_lines(found, options.target, result.votes.n_items, now))
