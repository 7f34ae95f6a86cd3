"""``crowdwise plan``: how many more votes a target takes."""

from __future__ import annotations

import crowdwise
from crowdwise import campaign, report
from crowdwise.cli.answers import build_campaign, check_rows, fit_rows, learns, read_features
from crowdwise.cli.declare import argument, group, option, share
from crowdwise.cli.fitting import read_votes, result_of
from crowdwise.cli.job import steps
from crowdwise.cli.options import VOTES_OR_SAVED, MaybeFeatures, MethodOptions, ReadOptions, ScreenOptions
from crowdwise.cli.screen import print_answer
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise plan votes.csv --target 0.8\n\n"
    "Votes until the target is as likely as not: crowdwise plan votes.csv --target 0.9 --probability 0.5\n\n"
    "With features: crowdwise plan votes.csv --features X.npz --target 0.8"
)


@group
class Options(ScreenOptions):
    """What is read and asked."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    target: float = share("--target", "Share of right labels to get.", 0.95)
    probability: float = share("--probability", "Probability with which to get it, over crowds and the luck of items.", 0.95)
    campaigns: int = option("--campaigns", "N", "Number of campaigns to simulate.", 20, least=1)


def run(options: Options, read: ReadOptions, method: MethodOptions, features: MaybeFeatures) -> None:
    """Estimate how many more votes reach a target, by simulated campaigns.

    Each asks about the least certain items; who answers is drawn by the activity so far. A target is
    reached when at least that share of the labels is right in 19 crowds of 20 (--probability): the lower
    end of the printed range. It rests on experience with other crowds; to measure it: crowdwise audit.
    With --features a classifier and the votes label the items together, as in crowdwise suggest.
    """
    result = _result(options, read, method, features)
    with steps() as progress:
        asked = options.target, options.probability
        found = campaign.plan(result, *asked, repeats=options.campaigns, random_state=method.seed or 0, progress=progress)
    facts = {"method": result.method, "target": options.target, "probability": options.probability}
    facts |= report.plan_facts(found, result)
    print_answer(options.as_json, lambda: facts, lambda: report.plan_lines(found, result))


def _result(options: Options, read: ReadOptions, method: MethodOptions, features: MaybeFeatures) -> crowdwise.Result:
    """Labels by votes, or by features and votes."""
    if not learns(method, features.features):
        if features.features is not None:
            raise SettingError(f"{method.method} counts votes alone: leave --features out, or name a method of crowdwise train")
        return result_of(options.votes, read, method)
    votes, rows = read_votes(options.votes, read), read_features(features, read.item)
    assert rows is not None
    check_rows(rows, votes)
    model = build_campaign(method, rows)
    fit_rows(rows, votes, model, method)
    found: crowdwise.Result = model.result_
    return found
