"""``crowdwise suggest``: which item to send to whom next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.campaign_options import MaybeFeatures, PoolOptions, learns
from crowdwise.cli.options import CampaignMethodOptions, Json, MethodOptions, Output, Quiet, ReadOptions, SpreadsheetSafe
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.campaign.assign import Assignments
    from crowdwise.campaign.policies import State
    from crowdwise.data.annotations import Annotations

EXAMPLES = (
    "Example: crowdwise suggest votes.csv --budget 100 -o assignments.csv\n\n"
    "With limits: crowdwise suggest votes.csv --pool pool.parquet --capacity capacity.csv --least 2 --most 7 --budget 100\n\n"
    "With features: crowdwise suggest votes.csv --features X.npz --policy predictive-entropy+accuracy --budget 100\n\n"
    "Before the first vote: crowdwise suggest --pool pool.csv --capacity capacity.csv --classes cat,dog --budget 100"
)


def run(
    read: ReadOptions,
    method: CampaignMethodOptions,
    limits: PoolOptions,
    features: MaybeFeatures,
    votes: Annotated[str | None, typer.Argument(metavar="VOTES", help="The votes so far; - reads stdin.")] = None,
    budget: Annotated[
        float, typer.Option("--budget", metavar="X", help="What the questions may cost; 1 each by default.")
    ] = 100,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", metavar="NAME", help="warm-information, information, error-reduction, dalc, or ITEM+ANNOTATOR."
        ),
    ] = "warm-information",
    explore: Annotated[float, typer.Option("--explore", metavar="SHARE", help="Share of questions asked at random.")] = 0.05,
    output: Output = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say which items to send to which annotators next, from the votes so far.

    Policies of pairs weigh items and annotators in one currency, per unit of cost; warm-information asks
    random pairs until votes overlap, and then as information does. ITEM is random,
    entropy, margin, error, disagreement, or with features predictive-entropy or bald; ANNOTATOR is random,
    accuracy, ucb, thompson, epsilon-greedy or expertise. With --features a classifier is trained
    (see crowdwise train), and questions are spread out over the features.
    """
    from crowdwise.campaign.assign import suggest
    from crowdwise.campaign.policies import policy_of
    from crowdwise.cli.outputs import check_outputs, emit, print_json, to_stdout, write

    check_outputs({"-o": output}, (votes, limits.pool, limits.capacity, limits.asked, features.features, method.gold))
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    try:
        policy_of(policy)
    except SettingError as problem:
        raise SettingError(f"--policy: {problem}") from None
    state, informed = _state(votes, read, method, limits, features, quiet)
    # A classifier that has seen no vote cannot say what is worth asking.
    found = suggest(state, policy if informed else "random+random", budget, explore=explore)
    frame = found.frame()
    if as_json:
        if output is not None:
            write(frame, output, "question", quiet, spreadsheet_safe)
        print_json(_facts(found, policy, budget) | ({} if output is not None else {"questions": frame.to_dicts()}))
    else:
        emit(frame, output, "question", quiet=quiet, safe=spreadsheet_safe)
    if not quiet:
        _tell(found, budget)


def _state(
    path: str | None, read: ReadOptions, method: MethodOptions, limits: PoolOptions, features: MaybeFeatures, quiet: bool
) -> tuple[State, bool]:
    """A fitted model and the pool, and whether the model has seen votes."""
    import numpy as np

    from crowdwise.campaign.policies import State
    from crowdwise.campaign.pool import Pool, extended
    from crowdwise.cli.inputs import STEADY_METHOD, build, read_gold, read_history, read_votes
    from crowdwise.cli.inputs import read_features as read_rows
    from crowdwise.cli.pool import beside_asked, read_capacity, read_ids
    from crowdwise.cli.progress import iterations
    from crowdwise.data.encode import translate

    trains = learns(method, features)
    data = _no_votes(read) if path is None else read_votes(path, read)
    items = None if limits.pool is None else read_ids(limits.pool, "item", read.item, data.items)
    people, capacity, cost = read_capacity(limits.capacity, data)
    rows = None
    if features.features is not None:
        rows = read_rows(features.given(), read.item)
    known = extended(data, () if items is None else items, people)
    rng = np.random.default_rng(0 if method.seed is None else method.seed)
    if path is None and (items is None or not people):
        raise SettingError("without VOTES, say what there is: --pool FILE, --capacity FILE and --classes A,B,C")
    model, table = None, None
    if trains and known.n_votes:
        model, table = _trained(method, known, rows, quiet)
        result = model.result_
    else:
        estimator = build(MethodOptions(seed=method.seed) if trains else method, STEADY_METHOD)
        gold, history = read_gold(method.gold, known), read_history(method.history)
        with iterations(estimator, quiet) as progress:
            result = estimator.fit(known, gold=gold, history=history, progress=progress).result_
        if rows is not None and rows.items is not None:
            place = translate(result.votes.items, rows.items)
            # Only to spread questions out; where rows are missing, they are not.
            table = None if (place < 0).any() else rows.X[place]
    pool = Pool.of(
        result.votes,
        items=items,
        capacity=capacity,
        cost=cost,
        per_item=limits.per_item,
        least=limits.least,
        most=limits.most,
        repeats=limits.repeats,
    )
    if limits.asked is not None:
        pool = beside_asked(pool, result.votes, limits.asked)
    return State(result, pool, rng, model, table), bool(not trains or known.n_votes)


def _trained(method: MethodOptions, votes: Annotations, rows: Any, quiet: bool) -> tuple[Any, Any]:
    """The chosen classifier, and the features in the order of its items."""
    from crowdwise.campaign.names import sliceable
    from crowdwise.cli.classifier import CAMPAIGN_CLASSIFIER, build_classifier, check_all_rows, taken_by
    from crowdwise.cli.inputs import read_gold
    from crowdwise.cli.progress import epochs

    estimator = build_classifier(method, CAMPAIGN_CLASSIFIER)
    check_all_rows(rows, votes, quiet)
    X, gold = taken_by(estimator, rows), read_gold(method.gold, votes)
    with epochs(estimator, quiet) as progress:
        estimator.fit(X, votes, items=rows.items, gold=gold, progress=progress)
    return estimator, sliceable(X)


def _no_votes(read: ReadOptions) -> Annotations:
    from crowdwise.cli.inputs import parse_list
    from crowdwise.data.annotations import Annotations

    if read.classes is None:
        raise SettingError("without VOTES, say what there is: --pool FILE, --capacity FILE and --classes A,B,C")
    return Annotations.from_arrays([], [], [], items=[], annotators=[], classes=parse_list(read.classes, "--classes"))


def _facts(found: Assignments, policy: str, budget: float) -> dict[str, Any]:
    from crowdwise.campaign.stopping import expected_accuracy

    result = found.state.result
    mean, low, high = expected_accuracy(result, items=found.state.pool.items)
    return {
        "method": result.method,
        "policy": policy,
        "budget": budget,
        "n_questions": len(found),
        "cost": float(found.cost.sum()),
        "expected_accuracy": {"mean": mean, "low": low, "high": high},
    }


def _tell(found: Assignments, budget: float) -> None:
    from crowdwise.cli.text import count, number, say

    facts = _facts(found, "", budget)
    say(
        f"{count(len(found), 'question')} about {count(len(set(found.item.tolist())), 'item')} to "
        f"{count(len(set(found.annotator.tolist())), 'annotator')}, at a cost of {number(facts['cost'])}"
    )
    if facts["cost"] + float(found.state.pool.cost.max(initial=0)) <= budget:
        say("the budget is not spent: capacities, --most, --per-item and earlier votes leave nothing else to ask")
    spread = facts["expected_accuracy"]
    say(f"{facts['method']} expects {number(spread['mean'])} of the labels to be right now "
        f"(95% interval {number(spread['low'])} to {number(spread['high'])})")  # fmt: skip
