"""The best question of all: against brute force, some pairs at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.conftest import fake_result, few_examples, no_votes, state_of
from tests.campaign.test_assign import campaigns

from crowdwise.campaign import remaining
from crowdwise.campaign.best_question import best_gain
from crowdwise.campaign.policies import State, policy_of
from crowdwise.campaign.pool import Pool
from crowdwise.data.annotations import Annotations


@few_examples
@given(campaigns(), st.sampled_from(["information", "error-reduction"]))
def test_the_best_gain_is_that_of_all_questions(campaign: tuple[State, str, float], policy: str) -> None:
    state = campaign[0]
    votes, pool = state.votes, state.pool
    if len(pool.open_item) and pool.per_item > 1:
        return  # their items are discounted: see test_lookahead
    scores = policy_of(policy).pairs(state, np.arange(votes.n_items))
    answered = set(zip(votes.item.tolist(), votes.annotator.tolist(), strict=True))
    waiting = np.bincount(pool.open_item, minlength=votes.n_items)
    best = -np.inf
    for n in set(pool.items.tolist()):
        if min(pool.per_item, pool.most - votes.votes_per_item[n]) - waiting[n] <= 0:
            continue
        for a in range(votes.n_annotators):
            allowed = pool.allowed is None or a in pool.allowed[1][pool.allowed[0][n] : pool.allowed[0][n + 1]]
            if allowed and pool.capacity[a] > 0 and (pool.repeats or (n, a) not in answered):
                best = max(best, scores[n, a])
    assert best_gain(state, policy_of(policy)) == pytest.approx(best)


def hidden() -> State:
    """The good annotator may only be asked about the last of a hundred items, which is not the least certain."""
    votes = no_votes(100, 2)
    posterior = np.tile([0.5, 0.5], (100, 1))
    posterior[99] = [0.7, 0.3]
    result = fake_result(votes, posterior, [[[0.95, 0.05], [0.05, 0.95]], [[0.5, 0.5], [0.5, 0.5]]], 1e9)
    allowed = Annotations.from_arrays([f"i{n}" for n in range(99)] + ["i99"], ["a1"] * 99 + ["a0"], ["c0"] * 100)
    return State(result, Pool.of(votes, allowed=allowed), np.random.default_rng(0))


def test_a_good_question_about_an_item_far_down_the_list_is_found() -> None:
    # H(0.68) - H(0.95) = 0.6269 - 0.1985.
    assert best_gain(hidden(), policy_of("information"), 0.1) == pytest.approx(0.4284, abs=1e-4)


def spied(state: State, bounded: bool) -> tuple[Any, list[int]]:
    policy, seen = policy_of("information"), list[int]()

    class Spy:
        joint = True
        items = staticmethod(policy.items)

        def pairs(self, state: State, items: Any) -> Any:
            seen.append(len(items))
            return policy.pairs(state, items)

    spy = Spy()
    spy.bounded = bounded  # type: ignore[attr-defined]
    return spy, seen


def test_pairs_are_scored_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remaining, "_BLOCK", 40)
    state = state_of(no_votes(200, 4), 3)
    spy, seen = spied(state, bounded=False)
    best = best_gain(state, spy)
    # Four annotators and two classes: five items at a time, all of them once.
    assert max(seen) == 5
    assert sum(seen) == 200
    assert best == pytest.approx(policy_of("information").pairs(state, np.arange(200)).max())


def test_items_that_cannot_gain_more_are_not_looked_at() -> None:
    state = state_of(no_votes(2000, 4), 3, mass=1e9)
    spy, seen = spied(state, bounded=True)
    assert best_gain(state, spy) == pytest.approx(policy_of("information").pairs(state, np.arange(2000)).max())
    assert sum(seen) < 2000
    spy, seen = spied(state, bounded=False)
    assert best_gain(state, spy, 1e-6) >= 1e-6
    assert sum(seen) < 200
