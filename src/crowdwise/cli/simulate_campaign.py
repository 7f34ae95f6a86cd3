"""``crowdwise simulate-campaign``: policies raced on a recorded or simulated crowd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import campaign, io, methods, report
from crowdwise.cli.answers import build_campaign, check_policy, check_rows, learns, read_features
from crowdwise.cli.declare import argument, file, flag, group, option, panel
from crowdwise.cli.fitting import parse_list, read_gold, read_votes
from crowdwise.cli.job import Job, note, refuse, steps
from crowdwise.cli.options import GIVE_TRUTH, TRUTH_OR_GOLD, CampaignMethodOptions, MaybeFeatures, ReadOptions, ScreenOptions
from crowdwise.cli.simulate import drawn
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise simulate-campaign votes.csv --truth truth.csv --policies random+random,warm-information -o race\n\n"
    "With features: crowdwise simulate-campaign votes.csv --truth truth.csv --features X.npz --method dalc --policies "
    "random+random,dalc\n\n"
    "Simulated: crowdwise simulate-campaign --items 500 --annotators 20 --kind one-coin=0.8,uniform-spammer=0.2 -o race"
)
_CROWD, _RACE = "A simulated crowd", "The race"
_POLICIES = "Policies as in crowdwise suggest, comma-separated."


@panel(_CROWD)
class CrowdOptions:
    """Who answers, where no votes are recorded."""

    items: int = option("--items", "N", "Number of items.", 300)
    annotators: int = option("--annotators", "N", "Number of annotators.", 20)
    kind: str = option("--kind", "KIND", "A family of annotators or a mix, as in crowdwise simulate.", "dirichlet")


@panel(_RACE)
class RaceOptions:
    """What is raced, and for how long."""

    policies: str = option("--policies", "A,B", _POLICIES, "random+random,warm-information")
    budget: float | None = option("--budget", "X", "Votes in all.", shown="3 per item, or half of those recorded")
    batch: float | None = option("--batch", "X", "Votes at a time.", shown="budget / 20")
    start: float = option("--start", "X", "Votes on random pairs before the policies begin.", 0)
    campaigns: int = option("--campaigns", "N", "Campaigns per policy, each with a seed of its own.", 5, least=1)
    explore: float = option("--explore", "SHARE", "Share of questions asked at random.", 0.05)


@group
class Options(CrowdOptions, RaceOptions, ScreenOptions):
    """What is read and written."""

    votes: str | None = argument("VOTES", "Recorded votes that answer; without them the crowd is simulated.", None)
    truth: Path | None = file("--truth", TRUTH_OR_GOLD)
    folder: Path | None = option("-o --output", "DIR", "Write curves.csv and curves.png into this folder.")
    no_plot: bool = flag("--no-plot", "Write curves.csv only; needs no matplotlib.")


def run(options: Options, read: ReadOptions, method: CampaignMethodOptions, features: MaybeFeatures) -> None:
    """Race policies on the same crowd, and draw accuracy against votes.

    Every campaign starts without votes. Of a recorded crowd only recorded pairs can be asked. With --features
    a classifier is trained after every batch. The table on stdout is the end of the race: accuracy, what was
    expected with its range in nine of ten crowds, and the mean accuracy during the campaign.
    """
    job = Job(options)
    refuse("{} gives away what the race is about; give the truth with --truth", (method, ["gold", "history", "trusted"]))
    chosen = [str(name) for name in parse_list(options.policies, "--policies")]
    trains, first = learns(method, features.features), method.seed or 0
    for name in chosen:
        check_policy("--policies", name, trains)
    if options.folder is not None:
        crowdwise.estimator.check_folder(options.folder)
    if options.votes is None and features.features is not None:
        raise SettingError("--features belong to recorded votes: name their file; simulated items have none")
    rows = read_features(features, read.item)
    estimator = build_campaign(method, rows if trains else None)
    oracle = _oracle(options, read, first)
    more = _features(oracle, rows, estimator if trains else None)
    budget = campaign.usual_budget(oracle) if options.budget is None else options.budget
    batch = max(budget // 20, 1) if options.batch is None else options.batch
    seeds = range(first, first + options.campaigns)
    with steps() as progress:
        more |= {"seeds": seeds, "start": options.start, "explore": options.explore, "progress": progress}
        curves = campaign.race(chosen, oracle, estimator, budget, batch, **more)
    if options.folder is not None:
        for path in campaign.write_curves(curves, options.folder, plot=not options.no_plot):
            note(f"wrote {path}")
    facts = {"method": estimator.name, "budget": budget, "batch": batch}
    job.main(campaign.summary(curves), "policy", document=lambda: facts, key="policies", screen=report.race_table)


def _oracle(options: Options, read: ReadOptions, seed: int) -> campaign.Oracle:
    """Who answers: the recorded votes, or simulated annotators."""
    if options.votes is not None:
        data = read_votes(options.votes, read)
        if options.truth is None and data.gold is None:
            raise SettingError(f"a race needs true labels; {GIVE_TRUTH}")
        return campaign.RecordedCrowd(data, read_gold(options.truth, data))
    sizes = {"n_items": options.items, "n_annotators": options.annotators, "votes_per_item": 1, "random_state": seed}
    return campaign.SimulatedCrowd.of(drawn(read.classes or "3", options.kind, **sizes), seed)


def _features(oracle: campaign.Oracle, rows: io.features.Features | None, classifier: Any) -> dict[str, Any]:
    """Features as `race` takes them."""
    if rows is None or oracle.allowed is None:
        return {}
    check_rows(rows, oracle.allowed, all_items=True)
    X = rows.X if classifier is None else methods.classify.rows.taken_by(classifier, rows)
    return {"features": X, "feature_items": rows.items}
