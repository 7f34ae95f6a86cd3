"""``crowdwise suggest``: which item to send to whom next."""

from __future__ import annotations

from pathlib import Path

import crowdwise
from crowdwise import campaign, io, report
from crowdwise.cli.answers import build_campaign, check_policy, check_rows, fit_rows, learns, read_features
from crowdwise.cli.declare import INPUT, argument, file, flag, group, option, panel
from crowdwise.cli.fitting import DEFAULT_METHOD, careful, parse_list, read_votes
from crowdwise.cli.job import Job
from crowdwise.cli.options import CampaignMethodOptions, MaybeFeatures, MethodOptions, OutputOptions, ReadOptions
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise suggest votes.csv --budget 100 -o assignments.csv\n\n"
    "With limits: crowdwise suggest votes.csv --pool pool.parquet --capacity capacity.csv --least 2 --most 7 --budget 100\n\n"
    "With features: crowdwise suggest votes.csv --features X.npz --policy predictive-entropy+accuracy --budget 100\n\n"
    "Before the first vote: crowdwise suggest --pool pool.csv --capacity capacity.csv --classes cat,dog --budget 100"
)
_POOL = "Who may be asked about what"
_POLICY = "Policy: warm-information, information, error-reduction, targeted, dalc, or ITEM+ANNOTATOR."
_CAPACITY = "Who can answer how often, and at what price: annotator, capacity[, cost]."


@panel(_POOL)
class PoolOptions:
    """Limits; the options of `crowdwise.campaign.pool.Pool.of`."""

    pool: Path | None = option("--pool", "FILE", "Items to ask about: item.", shown="those voted on", place=INPUT)
    capacity: Path | None = file("--capacity", _CAPACITY)
    asked: Path | None = file("--asked", "Earlier assignments (item, annotator): those without a vote still wait.")
    per_item: int = option("--per-item", "N", "Most answers to ask for about one item now.", 1)
    least: int = option("--least", "N", "Items with fewer votes come first.", 0)
    most: int | None = option("--most", "N", "Votes after which an item is left alone.")
    ask_again: bool = flag("--ask-again", "Annotators may be asked twice about an item.")


@group
class Options(PoolOptions, OutputOptions):
    """What is read and written."""

    votes: str | None = argument("VOTES", "The votes so far; - reads stdin.", None)
    budget: float = option("--budget", "X", "What the questions may cost, at 1 each unless --capacity has prices.", 100)
    policy: str = option("--policy", "NAME", _POLICY, "warm-information")
    explore: float = option("--explore", "SHARE", "Share of questions asked at random.", 0.05)


def run(options: Options, read: ReadOptions, method: CampaignMethodOptions, features: MaybeFeatures) -> None:
    """Say which items to send to which annotators next, from the votes so far.

    Policies of pairs weigh items and annotators in one currency, per unit of cost; warm-information asks
    random pairs until votes overlap, and then as information does. ITEM is random,
    entropy, margin, error, disagreement, or with features predictive-entropy, predictive-margin or bald; ANNOTATOR
    is random, accuracy, ucb, thompson, epsilon-greedy or expertise; dalc is predictive-entropy+expertise.
    With --features a classifier is trained (see crowdwise train), and questions are distributed over the features.
    """
    job = Job(options, features, method)
    trains = learns(method, features.features)
    check_policy("--policy", options.policy, trains)
    state, informed = _state(options, read, method, features)
    # A classifier that has seen no vote cannot say what is worth asking.
    found = campaign.suggest(state, options.policy if informed else "random+random", options.budget, explore=options.explore)
    facts = report.question_facts(found, options.policy, options.budget)
    job.main(found.frame(), "question", document=lambda: facts, key="questions")
    job.say(report.question_lines(found, facts, "" if method.method or trains else DEFAULT_METHOD))


def _state(options: Options, read: ReadOptions, method: MethodOptions, features: MaybeFeatures) -> tuple[campaign.State, bool]:
    """A fitted model and the pool, and whether the model has seen votes."""
    import numpy as np

    trains = learns(method, features.features)
    known, limits = campaign.tables.read_pool(_votes(options, read), options.pool, options.capacity, read.item)
    rows = read_features(features, read.item)
    model, table = None, None
    if trains and known.n_votes:
        assert rows is not None
        model = build_campaign(method, rows)
        check_rows(rows, known, all_items=True)
        table = campaign.names.sliceable(fit_rows(rows, known, model, method))
        result = model.result_
    else:
        estimator = build_campaign(MethodOptions(seed=method.seed) if trains else method)
        result = careful(known, estimator, method).result_
        if rows is not None:
            # Only to distribute questions; where rows are missing, they are not.
            table = io.feature_rows.rows_of(rows, result.votes.items)
    limits |= {"per_item": options.per_item, "least": options.least, "most": options.most, "repeats": options.ask_again}
    pool = campaign.tables.beside_asked(campaign.Pool.of(result.votes, **limits), result.votes, options.asked)
    rng = np.random.default_rng(method.seed or 0)
    return campaign.State(result, pool, rng, model, table), bool(not trains or known.n_votes)


def _votes(options: Options, read: ReadOptions) -> crowdwise.Annotations:
    """The votes so far; before the first, the classes alone."""
    if options.votes is not None:
        return read_votes(options.votes, read)
    if options.pool is None or options.capacity is None or read.classes is None:
        raise SettingError("without VOTES, say what there is: --pool FILE, --capacity FILE and --classes A,B,C")
    classes = parse_list(read.classes, "--classes")
    return crowdwise.Annotations.from_arrays([], [], [], items=[], annotators=[], classes=classes)
