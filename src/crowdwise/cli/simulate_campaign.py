"""``crowdwise simulate-campaign``: policies raced on a recorded or simulated crowd."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import argument, file, flag, option
from crowdwise.cli.fitting import build, parse_list, read_gold, read_votes
from crowdwise.cli.job import Job, refuse, steps
from crowdwise.cli.options import GIVE_TRUTH, CampaignMethodOptions, MaybeFeatures, ReadOptions, ScreenOptions
from crowdwise.cli.rows import CAMPAIGN_CLASSIFIER, CAMPAIGN_METHOD, build_classifier, check_rows, learns, read_features
from crowdwise.cli.simulate import drawn
from crowdwise.cli.suggest import check_policy
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.campaign.oracle import Oracle

EXAMPLES = (
    "Example: crowdwise simulate-campaign votes.csv --truth truth.csv --policies random+random,warm-information -o race\n\n"
    "With features: crowdwise simulate-campaign votes.csv --truth truth.csv --features X.npz --method dalc --policies "
    "random+random,dalc\n\n"
    "Simulated: crowdwise simulate-campaign --items 500 --annotators 20 --kind one-coin=0.8,uniform-spammer=0.2 -o race"
)
_CROWD, _RACE = "A simulated crowd", "The race"
_POLICIES = "Policies as in crowdwise suggest, comma-separated."


@dataclass(frozen=True, kw_only=True)
class CrowdOptions:
    """Who answers, where no votes are recorded."""

    items: int = option("--items", "N", "Number of items.", 300, _CROWD)
    annotators: int = option("--annotators", "N", "Number of annotators.", 20, _CROWD)
    kind: str = option("--kind", "KIND", "A family of annotators or a mix, as in crowdwise simulate.", "dirichlet", _CROWD)


@dataclass(frozen=True, kw_only=True)
class RaceOptions:
    """What is raced, and for how long."""

    policies: str = option("--policies", "A,B", _POLICIES, "random+random,warm-information", _RACE)
    budget: float | None = option("--budget", "X", "Votes in all.", panel=_RACE, shown="3 per item, or half of those recorded")
    batch: float | None = option("--batch", "X", "Votes at a time.", panel=_RACE, shown="budget / 20")
    start: float = option("--start", "X", "Votes on random pairs before the policies begin.", 0.0, _RACE)
    campaigns: int = option("--campaigns", "N", "Campaigns per policy, each with a seed of its own.", 5, _RACE, least=1)
    explore: float = option("--explore", "SHARE", "Share of questions asked at random.", 0.05, _RACE)


@dataclass(frozen=True, kw_only=True)
class Options(ScreenOptions):
    """What is read and written."""

    votes: str | None = argument("VOTES", "Recorded votes that answer; without them the crowd is simulated.", None)
    truth: Path | None = file("--truth", "True labels: item, label. May be left out if the votes carry gold.")
    folder: Path | None = option("-o --output", "DIR", "Write curves.csv and curves.png into this folder.")
    no_plot: bool = flag("--no-plot", "Write curves.csv only; needs no matplotlib.")


def run(
    options: Options,
    read: ReadOptions,
    method: CampaignMethodOptions,
    features: MaybeFeatures,
    crowd: CrowdOptions,
    how: RaceOptions,
) -> None:
    """Race policies on the same crowd, and draw accuracy against votes.

    Every campaign starts without votes. Of a recorded crowd only recorded pairs can be asked. With --features
    a classifier is trained after every batch. The table on stdout is the end of the race: accuracy, what the model
    itself expected, and the mean accuracy during the campaign.
    """
    from crowdwise.campaign.campaign import race, summary, write_curves
    from crowdwise.estimator.storage import check_folder
    from crowdwise.report.trust_text import race_table

    job = Job(options)
    refuse("{} gives away what the race is about; give the truth with --truth", (method, ["gold", "history", "trusted"]))
    chosen = [str(name) for name in parse_list(how.policies, "--policies")]
    for name in chosen:
        check_policy(name, "--policies")
    if options.folder is not None:
        check_folder(options.folder)
    trains, first = learns(method, features.features), method.seed or 0
    estimator: Any = build_classifier(method, CAMPAIGN_CLASSIFIER) if trains else build(method, CAMPAIGN_METHOD)
    oracle = _oracle(options, read, crowd, features, first)
    more = _features(oracle, read, features, estimator if trains else None)
    budget = _budget(oracle) if how.budget is None else how.budget
    batch = max(budget // 20, 1) if how.batch is None else how.batch
    seeds = range(first, first + how.campaigns)
    with steps() as progress:
        more |= {"seeds": seeds, "start": how.start, "explore": how.explore, "progress": progress}
        curves = race(chosen, oracle, estimator, budget, batch, **more)
    if options.folder is not None:
        for path in write_curves(curves, options.folder, plot=not options.no_plot):
            job.say([f"wrote {path}"])
    facts = {"method": estimator.name, "budget": budget, "batch": batch}
    job.main(summary(curves), "policy", document=lambda: facts, key="policies", screen=race_table)


def _oracle(options: Options, read: ReadOptions, crowd: CrowdOptions, features: MaybeFeatures, seed: int) -> Oracle:
    """Who answers: the recorded votes, or simulated annotators."""
    from crowdwise.campaign.oracle import RecordedCrowd, SimulatedCrowd

    if options.votes is not None:
        data = read_votes(options.votes, read)
        if options.truth is None and data.gold is None:
            raise SettingError(f"a race needs true labels; {GIVE_TRUTH}")
        return RecordedCrowd(data, read_gold(options.truth, data))
    if features.features is not None:
        raise SettingError("--features belong to recorded votes: name their file; simulated items have none")
    return SimulatedCrowd.of(drawn(crowd.items, crowd.annotators, read.classes or "3", crowd.kind, 1, seed), seed)


def _features(oracle: Oracle, read: ReadOptions, features: MaybeFeatures, classifier: Any) -> dict[str, Any]:
    """Features as `race` takes them."""
    rows = read_features(features, read.item)
    if rows is None or oracle.allowed is None:
        return {}
    from crowdwise.methods.classify.rows import taken_by

    check_rows(rows, oracle.allowed, all_items=True)
    return {"features": rows.X if classifier is None else taken_by(classifier, rows), "feature_items": rows.items}


def _budget(oracle: Oracle) -> int:
    return 3 * len(oracle.items) if oracle.allowed is None else max(oracle.allowed.n_votes // 2, 1)
