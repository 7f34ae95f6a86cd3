"""Assignments: greedy against brute force, and limits that hold whatever is drawn."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.conftest import fake_result, few_examples, no_votes, rows, state_of
from tests.strategies import small_votes

from crowdwise.campaign import remaining
from crowdwise.campaign.assign import suggest
from crowdwise.campaign.diversity import diverse_order
from crowdwise.campaign.policies import State, policy_of
from crowdwise.campaign.pool import Pool
from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError

POLICIES = ["information", "error-reduction", "random+random", "entropy+ucb", "margin+thompson", "disagreement+epsilon-greedy"]


def pair_scores(state: State, policy: str = "information") -> Any:
    return policy_of(policy).pairs(state, np.arange(state.votes.n_items))


# -- against brute force --------------------------------------------------------------------------


@few_examples
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_one_question_per_item_makes_greedy_the_best_there_is(seed: int, budget: int) -> None:
    state = state_of(no_votes(4, 3, 3), seed, per_item=1)
    scores = pair_scores(state)
    sets = (
        chosen
        for size in range(budget + 1)
        for chosen in combinations(np.ndindex(4, 3), size)
        if len({n for n, _ in chosen}) == size
    )
    best = max(sum(scores[pair] for pair in chosen) for chosen in sets)
    assert suggest(state, "information", budget, explore=0).score.sum() == pytest.approx(best)


@few_examples
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_with_both_kinds_greedy_is_the_naive_greedy_and_has_half_the_best(seed: int, budget: int) -> None:
    state = state_of(no_votes(4, 3, 3), seed, per_item=1, capacity=2)
    scores = pair_scores(state)
    room, left, total = [1] * 4, [2] * 3, 0.0
    for _ in range(budget):
        open_pairs = [(scores[n, a], n, a) for n in range(4) for a in range(3) if room[n] and left[a]]
        if open_pairs:
            value, n, a = max(open_pairs)
            room[n], left[a], total = room[n] - 1, left[a] - 1, total + value
    found = suggest(state, "information", budget, explore=0)
    assert found.score.sum() == pytest.approx(total, abs=1e-9)
    assert found.score == pytest.approx(scores[found.item, found.annotator])
    fitting = (
        sum(scores[pair] for pair in chosen)
        for chosen in combinations(np.ndindex(4, 3), min(budget, 4))
        if len({n for n, _ in chosen}) == len(chosen) and max(np.bincount([a for _, a in chosen])) <= 2
    )
    assert found.score.sum() >= max(fitting, default=0) / 2 - 1e-12


def test_costs_count_per_unit_of_gain() -> None:
    votes = no_votes(1, 2)
    good, fair = [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.2, 0.8]]
    result = fake_result(votes, [[0.5, 0.5]], [good, fair])
    # Gains are 0.368 and 0.193 nats: at twice the price the better annotator still wins less per unit.
    for price, chosen in ((1.5, 0), (2.0, 1)):
        state = State(result, Pool.of(votes, cost={"a0": price, "a1": 1.0}), np.random.default_rng(0))
        assert suggest(state, "information", 2, explore=0).annotator.tolist() == [chosen]


def test_an_item_policy_orders_items_and_an_annotator_policy_who_is_asked() -> None:
    votes = no_votes(3, 2)
    result = fake_result(votes, [[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]], [[[0.6, 0.4], [0.4, 0.6]], [[0.8, 0.2], [0.2, 0.8]]])
    state = State(result, Pool.of(votes, capacity={"a0": 5, "a1": 2}), np.random.default_rng(0))
    found = suggest(state, "entropy", 3, explore=0)
    assert found.item.tolist() == [1, 2, 0]
    assert found.annotator.tolist() == [1, 1, 0]
    frame = found.frame()
    assert frame.columns == ["item", "annotator", "score", "cost"]
    assert frame["item"].to_list() == ["i1", "i2", "i0"]
    assert frame["score"].to_list() == pytest.approx([0.8, 0.8, 0.6])


# -- limits ---------------------------------------------------------------------------------------


@st.composite
def campaigns(draw: st.DrawFn) -> tuple[State, str, float]:
    votes = draw(small_votes(min_classes=2))
    pairs = list(np.ndindex(votes.n_items, votes.n_annotators))
    answered = set(zip(votes.item.tolist(), votes.annotator.tolist(), strict=True))
    repeats = draw(st.booleans())
    waiting = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4))
    waiting = [pair for pair in waiting if repeats or pair not in answered]
    some = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1)) if draw(st.booleans()) else None
    allowed = None
    if some is not None:
        allowed = Annotations.from_arrays([f"i{n}" for n, _ in some], [f"a{a}" for _, a in some], ["c0"] * len(some))
    least = draw(st.integers(0, 3))
    pool = Pool.of(
        votes,
        items=draw(st.none() | st.lists(st.sampled_from(votes.items.tolist()), min_size=1)),
        capacity=draw(
            st.none() | st.integers(0, 4) | st.dictionaries(st.sampled_from(votes.annotators.tolist()), st.integers(0, 3))
        ),
        cost=draw(st.sampled_from([1.0, {"a0": 2.5}])),
        per_item=draw(st.integers(1, 3)),
        least=least,
        most=draw(st.none() | st.integers(max(least, 1), 6)),
        repeats=repeats,
        allowed=allowed,
    )
    if waiting:
        pool = pool.waiting(*(np.array(side, np.int64) for side in zip(*waiting, strict=True)))
    features = np.arange(votes.n_items)[:, None] % 3 if draw(st.booleans()) else None
    state = state_of(votes, draw(st.integers(0, 1000)), features, pool=pool)
    return state, draw(st.sampled_from(POLICIES)), draw(st.floats(0.5, 12))


@few_examples
@given(campaigns(), st.sampled_from([0.0, 0.3, 1.0]))
def test_no_limit_is_ever_broken_and_none_is_left_unused(campaign: tuple[State, str, float], explore: float) -> None:
    state, policy, budget = campaign
    votes, pool = state.votes, state.pool
    found = suggest(state, policy, budget, explore=explore)
    asked = list(zip(found.item.tolist(), found.annotator.tolist(), strict=True))
    answered = set(zip(votes.item.tolist(), votes.annotator.tolist(), strict=True))
    waiting = set(zip(pool.open_item.tolist(), pool.open_annotator.tolist(), strict=True))
    allowed = set(np.ndindex(votes.n_items, votes.n_annotators))
    if pool.allowed is not None:
        pointer, who = pool.allowed
        allowed = {(n, int(a)) for n in range(votes.n_items) for a in who[pointer[n] : pointer[n + 1]]}
    per_item, per_annotator = (
        np.bincount(found.item, minlength=votes.n_items),
        np.bincount(found.annotator, minlength=votes.n_annotators),
    )
    open_per_item = np.bincount(pool.open_item, minlength=votes.n_items)
    assert len(set(asked)) == len(asked)
    assert not set(asked) & waiting
    assert set(asked) <= allowed
    assert pool.repeats or not set(asked) & answered
    assert set(found.item.tolist()) <= set(pool.items.tolist())
    assert (per_annotator <= pool.capacity).all()
    assert (per_item[per_item > 0] + open_per_item[per_item > 0] <= pool.per_item).all()
    assert ((votes.votes_per_item + open_per_item + per_item)[per_item > 0] <= pool.most).all()
    assert found.cost.sum() <= budget + 1e-9
    # Random questions come last and have no score.
    finite = np.isfinite(found.score)
    assert finite.all() if explore == 0 else (finite[:-1] >= finite[1:]).all()
    # Nothing that could still be asked fits into what is left of the budget.
    rest = budget - found.cost.sum()
    for n, a in allowed - waiting - set(asked) - (set() if pool.repeats else answered):
        room = min(pool.per_item, pool.most - votes.votes_per_item[n]) - open_per_item[n] - per_item[n]
        if n in pool.items and room > 0 and per_annotator[a] < pool.capacity[a]:
            assert pool.cost[a] > rest + 1e-9


@few_examples
@given(campaigns())
def test_items_that_lack_votes_come_before_all_others(campaign: tuple[State, str, float]) -> None:
    state, policy, budget = campaign
    votes, pool = state.votes, state.pool
    found = suggest(state, policy, budget, explore=0)
    waiting = np.bincount(pool.open_item, minlength=votes.n_items)
    lack = np.maximum(pool.least - votes.votes_per_item - waiting, 0)
    asked = set(zip(found.item.tolist(), found.annotator.tolist(), strict=True))
    count = np.bincount(found.item, minlength=votes.n_items)
    taken = asked | set(zip(pool.open_item.tolist(), pool.open_annotator.tolist(), strict=True))
    if not pool.repeats:
        taken |= set(zip(votes.item.tolist(), votes.annotator.tolist(), strict=True))
    for n, a in asked:
        for m in pool.items.tolist():
            room = min(pool.per_item, pool.most - votes.votes_per_item[m]) - waiting[m] - count[m]
            if lack[n] == 0 and lack[m] > count[m] and room > 0 and (m, a) not in taken:
                # The annotator could have been asked about the item that lacks votes instead.
                assert pool.allowed is not None
                assert a not in pool.allowed[1][pool.allowed[0][m] : pool.allowed[0][m + 1]]


def test_annotators_of_whom_nothing_is_known_share_the_questions() -> None:
    votes = no_votes(200, 100)
    state = State(
        fake_result(votes, np.full((200, 2), 0.5), np.tile([[0.7, 0.3], [0.3, 0.7]], (100, 1, 1))),
        Pool.of(votes),
        np.random.default_rng(0),
    )
    counts = np.bincount(suggest(state, "information", 200, explore=0).annotator, minlength=100)
    # 200 questions thrown at 100 annotators: 86 of them are hit in the mean, and none of them more than 12 times.
    assert (counts > 0).sum() > 60
    assert counts.max() <= 12


def test_a_small_batch_explores_now_and_then() -> None:
    votes = no_votes(40, 2)
    result = fake_result(votes, np.full((40, 2), 0.5), [[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])
    state = State(result, Pool.of(votes), np.random.default_rng(0))
    # Only chance ever asks the coin-flipper: half of the 5% of 10 questions, in the mean one in four batches.
    flips = sum((suggest(state, "information", 10).annotator == 1).sum() for _ in range(200))
    assert 25 <= flips <= 85


def test_wrong_settings_are_refused() -> None:
    state = state_of(no_votes(2, 2))
    for budget, explore in ((0, 0), (float("nan"), 0), (float("inf"), 0), (1, 1.5)):
        with pytest.raises(SettingError):
            suggest(state, "information", budget, explore=explore)
    with pytest.raises(SettingError, match=r"there is no policy .* \(policies are warm-information, information"):
        suggest(state, "entropie", 1)


def test_memory_and_time_do_not_grow_with_items_times_annotators() -> None:
    votes = no_votes(20_000, 500, 2)
    rng = np.random.default_rng(0)
    state = State(fake_result(votes, rows(rng, 20_000, 2), rows(rng, 500, 2, 2)), Pool.of(votes, capacity=3), rng)
    seen = []
    policy = policy_of("information")

    class Spy:
        joint = True
        items = staticmethod(policy.items)

        @staticmethod
        def pairs(state: State, items: Any) -> Any:
            seen.append(len(items))
            return policy.pairs(state, items)

    found = suggest(state, Spy(), 50, explore=0)
    assert len(found) == 50
    # Of 10 million pairs, those of four items per question are scored; again only where annotators are used up.
    assert sum(seen) <= 50 * 4 * 3


# -- diversity ------------------------------------------------------------------------------------


def test_near_duplicates_are_asked_last() -> None:
    features = np.array([[0.0], [0.001], [0.002], [5.0], [10.0]])
    order = diverse_order(features, np.array([1.0, 0.99, 0.98, 0.9, 0.9]), 3)
    assert order.tolist() == [0, 4, 3]


@given(st.integers(0, 1000), st.integers(1, 8))
def test_every_item_is_chosen_at_most_once(seed: int, n_wanted: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 2, (6, 2)).astype(float)
    order = diverse_order(features, rng.random(6), n_wanted)
    assert len(order) == min(n_wanted, 6) == len(set(order.tolist()))
    # As many different places as there are, before any place comes twice.
    places = [tuple(features[n]) for n in order.tolist()]
    n_places = len({tuple(row) for row in features.tolist()})
    assert len(set(places)) == min(n_places, len(order))


def test_a_batch_is_diverse_where_there_are_features() -> None:
    votes = no_votes(40, 3)
    cluster = np.arange(40) // 10
    posterior = np.column_stack([0.5 + 0.1 * (cluster > 0), 0.5 - 0.1 * (cluster > 0)])
    result = fake_result(votes, posterior, np.tile([[0.8, 0.2], [0.2, 0.8]], (3, 1, 1)))
    features = np.column_stack([cluster * 10.0, np.arange(40) * 1e-3])
    for diverse, expected in ((True, {0, 1, 2, 3}), (False, {0})):
        state = State(result, Pool.of(votes), np.random.default_rng(0), None, features)
        found = suggest(state, "information", 9, explore=0, diverse=diverse)
        assert set(cluster[found.item].tolist()) == expected


def test_the_highest_scores_of_many_rows_are_those_of_each_row() -> None:
    scores = np.random.default_rng(3).random((300, 500))
    scores[:, 4] = -np.inf
    who, best = remaining._highest(scores, 3)
    np.testing.assert_array_equal(who, np.argsort(-scores, axis=1, kind="stable")[:, :3])
    np.testing.assert_array_equal(best, -np.sort(-scores, axis=1)[:, :3])
