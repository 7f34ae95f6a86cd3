"""``crowdwise suggest``: which item to send to whom next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.cli.declare import INPUT, argument, file, flag, group, option
from crowdwise.cli.fitting import careful, parse_list, read_votes
from crowdwise.cli.job import Job, naming
from crowdwise.cli.options import CampaignMethodOptions, MaybeFeatures, MethodOptions, OutputOptions, ReadOptions
from crowdwise.cli.rows import build_campaign, check_rows, fit_rows, learns, read_features
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.campaign.policies import State

EXAMPLES = (
    "Example: crowdwise suggest votes.csv --budget 100 -o assignments.csv\n\n"
    "With limits: crowdwise suggest votes.csv --pool pool.parquet --capacity capacity.csv --least 2 --most 7 --budget 100\n\n"
    "With features: crowdwise suggest votes.csv --features X.npz --policy predictive-entropy+accuracy --budget 100\n\n"
    "Before the first vote: crowdwise suggest --pool pool.csv --capacity capacity.csv --classes cat,dog --budget 100"
)
_POOL = "Who may be asked about what"
_POLICY = "Policy: warm-information, information, error-reduction, dalc, or ITEM+ANNOTATOR."
_CAPACITY = "Who can answer how often, and at what price: annotator, capacity[, cost]."
_NO_VOTES = "without VOTES, say what there is: --pool FILE, --capacity FILE and --classes A,B,C"


@group
class PoolOptions:
    """Limits; the options of `crowdwise.campaign.pool.Pool.of`."""

    pool: Path | None = option("--pool", "FILE", "Items to ask about: item.", panel=_POOL, shown="those voted on", place=INPUT)
    capacity: Path | None = file("--capacity", _CAPACITY, _POOL)
    asked: Path | None = file("--asked", "Earlier assignments (item, annotator): those without a vote still wait.", _POOL)
    per_item: int = option("--per-item", "N", "Most answers to ask for about one item now.", 1, _POOL)
    least: int = option("--least", "N", "Items with fewer votes come first.", 0, _POOL)
    most: int | None = option("--most", "N", "Votes after which an item is left alone.", panel=_POOL)
    ask_again: bool = flag("--ask-again", "Annotators may be asked twice about an item.", _POOL)


@group
class Options(PoolOptions, OutputOptions):
    """What is read and written."""

    votes: str | None = argument("VOTES", "The votes so far; - reads stdin.", None)
    budget: float = option("--budget", "X", "What the questions may cost, at 1 each unless --capacity has prices.", 100.0)
    policy: str = option("--policy", "NAME", _POLICY, "warm-information")
    explore: float = option("--explore", "SHARE", "Share of questions asked at random.", 0.05)


def run(options: Options, read: ReadOptions, method: CampaignMethodOptions, features: MaybeFeatures) -> None:
    """Say which items to send to which annotators next, from the votes so far.

    Policies of pairs weigh items and annotators in one currency, per unit of cost; warm-information asks
    random pairs until votes overlap, and then as information does. ITEM is random,
    entropy, margin, error, disagreement, or with features predictive-entropy or bald; ANNOTATOR is random,
    accuracy, ucb, thompson, epsilon-greedy or expertise. With --features a classifier is trained
    (see crowdwise train), and questions are distributed over the features.
    """
    from crowdwise.campaign.assign import suggest
    from crowdwise.campaign.policies import policy_of
    from crowdwise.report.trust_text import question_facts, question_lines

    job = Job(options, features, method)
    with naming("--policy"):
        policy_of(options.policy)
    state, informed = _state(options, read, method, features)
    # A classifier that has seen no vote cannot say what is worth asking.
    found = suggest(state, options.policy if informed else "random+random", options.budget, explore=options.explore)
    facts = question_facts(found, options.policy, options.budget)
    job.main(found.frame(), "question", document=lambda: facts, key="questions")
    job.say(question_lines(found, facts))


def _state(options: Options, read: ReadOptions, method: MethodOptions, features: MaybeFeatures) -> tuple[State, bool]:
    """A fitted model and the pool, and whether the model has seen votes."""
    import numpy as np

    from crowdwise.campaign.names import sliceable
    from crowdwise.campaign.policies import State
    from crowdwise.campaign.pool import Pool, extended
    from crowdwise.campaign.tables import beside_asked, read_capacity, read_ids
    from crowdwise.data.annotations import Annotations
    from crowdwise.data.encode import translate

    trains = learns(method, features.features)
    if options.votes is None:
        if options.pool is None or options.capacity is None or read.classes is None:
            raise SettingError(_NO_VOTES)
        data = Annotations.from_arrays([], [], [], items=[], annotators=[], classes=parse_list(read.classes, "--classes"))
    else:
        data = read_votes(options.votes, read)
    items = None if options.pool is None else read_ids(options.pool, "item", read.item, data.items)
    people, capacity, cost = read_capacity(options.capacity, data)
    rows = read_features(features, read.item)
    known = extended(data, () if items is None else items, people)
    model, table = None, None
    if trains and known.n_votes:
        assert rows is not None
        model = build_campaign(method, trains)
        check_rows(rows, known, all_items=True)
        table = sliceable(fit_rows(rows, known, model, method))
        result = model.result_
    else:
        estimator = build_campaign(MethodOptions(seed=method.seed) if trains else method, False)
        result = careful(known, estimator, method).result_
        if rows is not None and rows.items is not None:
            place = translate(result.votes.items, rows.items)
            # Only to distribute questions; where rows are missing, they are not.
            table = None if (place < 0).any() else rows.X[place]
    bounds = {name: getattr(options, name) for name in ("per_item", "least", "most")}
    pool = Pool.of(result.votes, items=items, capacity=capacity, cost=cost, repeats=options.ask_again, **bounds)
    if options.asked is not None:
        pool = beside_asked(pool, result.votes, options.asked)
    rng = np.random.default_rng(method.seed or 0)
    return State(result, pool, rng, model, table), bool(not trains or known.n_votes)
