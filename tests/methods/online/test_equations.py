"""Both methods against their equations in plain Python, update by update."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma as exact_digamma
from tests.methods.online.helpers import counted, random_stream, table
from tests.methods.online.oracle import Oracle, fading, stepping

from crowdwise.methods.online.loops import averaged_weights, digamma
from crowdwise.methods.online.online_em import OnlineEM, step_sizes
from crowdwise.methods.online.streaming import StreamingDawidSkene

K = 3


def bayes_prior(k: int, l: int, use: list[float]) -> float:
    return 5.0 if k == l else 1.0


def start_prior(k: int, l: int, use: list[float]) -> float:
    """Seven votes, 0.7 of them right, and seven more in proportion to `use`."""
    return 7 * (0.7 if l == k else 0.15) + 7 * use[l] / sum(use)


def own_prior(k: int, l: int, use: list[float]) -> float:
    """Five, one and one, and four more in proportion to `use`."""
    return bayes_prior(k, l, use) + 4 * use[l] / sum(use)


def streaming(forget: float = 0.0, own_labels: bool = False, **options: Any) -> tuple[Any, Oracle]:
    prior = own_prior if own_labels else bayes_prior
    own = 4.0 if own_labels else 0.0
    oracle = Oracle(K, weight=fading(forget), item_weight=fading(0), bayes=True, prior=prior, class_prior=1.1, **options)
    options = {"sweeps": 1, "revisit": 0.0, **options}
    return StreamingDawidSkene(forget=forget, diagonal=5, own_labels=own, **options), oracle


def online(step: float | None = None, power: float = 0.6, **options: Any) -> tuple[Any, Oracle]:
    by_turn = stepping(lambda t: t**-power if step is None else step)
    oracle = Oracle(K, weight=by_turn, item_weight=by_turn, bayes=False, prior=start_prior, class_prior=1 / 3, **options)
    return OnlineEM(
        step=step, power=power, average=False, own_labels=7, strength=7, **{"sweeps": 1, "revisit": 0.0, "hold": 0, **options}
    ), oracle


CASES = {
    "one pass": lambda: streaming(),
    "sweeps": lambda: streaming(sweeps=5),
    "batches": lambda: streaming(batch=4, sweeps=2),
    "revisits": lambda: streaming(revisit=0.5),
    "forgetting": lambda: streaming(0.2, sweeps=3, revisit=1.0),
    "own labels": lambda: streaming(own_labels=True, sweeps=2, revisit=1.0),
    "own labels, forgetting": lambda: streaming(0.1, own_labels=True),
    "steps of 0.6": lambda: online(),
    "steps of 1": lambda: online(power=1.0),
    "a constant step": lambda: online(0.3),
    "held back": lambda: online(hold=4),
    "steps, batches and revisits": lambda: online(power=0.8, batch=3, revisit=1.0, sweeps=2, hold=2),
}


def agree(model: Any, oracle: Oracle) -> None:
    state = model._state
    items, annotators = state.items.array().tolist(), state.annotators.array().tolist()
    for n, q in zip(items, state.used("posterior"), strict=True):
        np.testing.assert_allclose(q, oracle.q[n], atol=1e-9)
    for a, counts in zip(annotators, state.used("counts"), strict=True):
        by_hand = [[oracle.count(a, l, k) for k in range(K)] for l in range(K)]
        np.testing.assert_allclose(counts, by_hand, atol=1e-9)
        np.testing.assert_allclose(counts.sum(axis=0), state.used("totals")[annotators.index(a)], atol=1e-9)
    np.testing.assert_allclose(state.arrays.shares, [oracle.share(k) for k in range(K)], atol=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_update_follows_the_equations(case: str, weighted: bool) -> None:
    model, oracle = CASES[case]()
    for votes in random_stream(len(case), 5, 6, weighted=weighted):
        model.update(table(votes, K))
        oracle.update(votes)
        agree(model, oracle)


@pytest.mark.parametrize("case", CASES)
def test_a_result_says_what_the_state_thinks(case: str) -> None:
    # The compiled loops and the parts of a result come to the same posterior by different ways.
    model, oracle = CASES[case]()
    for votes in random_stream(3, 3, 9):
        model.update(table(votes, K))
        oracle.update(votes)
        items = model.result_.votes.items
        by_hand = [oracle.infer(n, len(oracle.arrival) < oracle.hold) for n in items.tolist()]
        np.testing.assert_allclose(model.result_.model_posterior, by_hand, atol=1e-9)
        np.testing.assert_allclose(model.opinion(items), by_hand, atol=1e-9)


@pytest.mark.parametrize("case", ["sweeps", "forgetting", "steps of 0.6"])
def test_gold_of_old_and_new_items_follows_the_equations(case: str) -> None:
    model, oracle = CASES[case]()
    first, second, third = random_stream(1, 3, 8)
    model.update(table(first, K))
    oracle.update(first)
    old, new = first[0][0], second[0][0]
    model.update(table(second, K), gold={old: 2, new: 1})
    oracle.update(second, {old: 2, new: 1})
    agree(model, oracle)
    # A correction: the item is visited although no vote on it comes with it.
    model.update(table(third, K), gold={new: 0})
    oracle.update(third, {new: 0})
    agree(model, oracle)
    assert model._state.used("posterior")[model._state.items.find(np.array([new]))[0]].tolist() == [1, 0, 0]


def test_one_sweep_over_two_items_by_hand() -> None:
    # Item 0: x and y say 0. Item 1: x says 1. Two classes, so beta0 is 15 and 2 and 15 more by use; alpha0 is 1.1 each.
    model = StreamingDawidSkene(sweeps=1).update({"item": [0, 0, 1], "annotator": ["x", "y", "x"], "label": [0, 0, 1]})
    psi = exact_digamma
    # Both votes on item 0 weigh psi(15 + 7.5) - psi(2 + 7.5) for class 0: rows sum to 32, shares are even.
    q0 = 1 / (1 + math.exp(-2 * (psi(22.5) - psi(9.5))))
    # x has now said 0 once, so of the 15 by use a third is for label 1; rows sum to 32 + q0 and 32 + 1 - q0.
    zero = psi(1.1 + q0) + psi(2 + 5) - psi(32 + q0)
    one = psi(1.1 + 1 - q0) + psi(15 + 5) - psi(32 + 1 - q0)
    q1 = 1 / (1 + math.exp(zero - one))
    np.testing.assert_allclose(model._state.used("posterior"), [[q0, 1 - q0], [1 - q1, q1]], rtol=1e-12)
    x = [[q0, 1 - q0], [1 - q1, q1]]
    np.testing.assert_allclose(model._state.used("counts"), [x, [[q0, 1 - q0], [0, 0]]], rtol=1e-12)
    # The result holds the parameters of these counts, and the labels under them. By now x has used both labels once.
    np.testing.assert_allclose(model.result_.concentration[0], np.add(np.array(x).T, [[22.5, 9.5], [9.5, 22.5]]), rtol=1e-12)


def test_online_em_by_hand() -> None:
    # One annotator, one item at a time, two classes, the start worth ten votes at 0.8 and six by use; steps 1, then 1/2.
    model = OnlineEM(power=1.0, hold=0, start=0.8, strength=10, own_labels=6, average=False, revisit=0)
    first = table([(0, "x", 0, 1.0)], 2)
    model.update(first)
    q0 = np.array([8 + 3, 2 + 3]) / 16
    np.testing.assert_allclose(model._state.used("posterior"), [q0], rtol=1e-12)
    np.testing.assert_allclose(model._state.used("counts"), [[q0, [0, 0]]], rtol=1e-12)
    model.update(table([(1, "x", 1, 1.0)], 2))
    # Shares: q0 of one item plus one pseudo-item.
    d = (q0 + 0.5) / 2
    # x has used the labels 2 and 1 times, pseudo-votes included: two of the six by use are for label 1.
    odds = d * [(2 + 2) / (16 + q0[0]), (8 + 2) / (16 + q0[1])]
    q1 = odds / odds.sum()
    np.testing.assert_allclose(model._state.used("posterior"), [q0, q1], rtol=1e-12)
    np.testing.assert_allclose(model._state.used("counts"), [[q0 / 2, q1 / 2]], rtol=1e-12)
    np.testing.assert_allclose(model._state.arrays.shares, (q0 + q1) / 2, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_counts_equal_those_of_all_votes_and_posteriors(case: str) -> None:
    model, oracle = CASES[case]()
    for votes in random_stream(9, 60, 20, n_items=40, n_annotators=7):
        model.update(table(votes, K))
    counts = counted(model, oracle.weight)
    np.testing.assert_allclose(model._state.used("counts"), counts, atol=1e-9)


def test_the_average_over_time_is_the_mean_of_all_past_averages() -> None:
    steps = step_sizes(12, 0.6, None)
    fade = np.concatenate([[0.0, 0.0], np.cumsum(np.log1p(-steps[2:]))])
    weight = stepping(lambda t: t**-0.6)
    # Annotator 0 has twelve votes, annotator 1 five; their turns are mixed up.
    turn = np.array([3, 1, 2, *range(4, 13), 5, 4, 3, 2, 1], np.int32)
    annotator = np.array([0] * 12 + [1] * 5, np.int32)
    turns = np.array([12, 5], np.int32)
    found, _ = averaged_weights(turn, annotator, turns, np.zeros(2, np.int32), steps, fade)
    for value, t, a in zip(found, turn, annotator, strict=True):
        assert value == pytest.approx(sum(weight(t, now) for now in range(t, turns[a] + 1)), rel=1e-12)
    # Every average has weights that add up to one.
    assert found[:12].sum() == pytest.approx(12)


@pytest.mark.parametrize("since", [[3, 5], [0, 2], [12, 5]])
def test_sums_over_later_turns_take_in_what_was_counted_before(since: list[int]) -> None:
    steps = step_sizes(12, 0.6, None)
    fade = np.concatenate([[0.0, 0.0], np.cumsum(np.log1p(-steps[2:]))])
    weight = stepping(lambda t: t**-0.6)
    turn, annotator = np.array([*range(1, 13), *range(1, 6)], np.int32), np.array([0] * 12 + [1] * 5, np.int32)
    found, faded = averaged_weights(turn, annotator, np.array([12, 5], np.int32), np.array(since, np.int32), steps, fade)
    for value, t, a in zip(found, turn, annotator, strict=True):
        later = range(max(t, since[a] + 1), (12, 5)[a] + 1)
        if t > since[a]:
            assert value == pytest.approx(sum(weight(t, now) for now in later), rel=1e-12)
        else:
            # An old vote has its weight at the turn `since` in the counts of then, which fade together.
            assert value == 0
            assert weight(t, since[a]) * faded[a] == pytest.approx(sum(weight(t, now) for now in later), rel=1e-12)


def test_reported_matrices_come_from_the_averages_over_time() -> None:
    votes = [vote for update in random_stream(4, 1, 30, n_annotators=2) for vote in update]
    model = OnlineEM(hold=0, power=0.7, strength=7, own_labels=7).update(table(votes, K))
    state, weight = model._state, stepping(lambda t: t**-0.7)
    for position, name in enumerate(model.result_.votes.annotators):
        a = int(state.annotators.find(np.array([name]))[0])
        last, mean = int(state.used("turns")[a]), np.zeros((K, K))
        for n, b, l, t in zip(*(state.used(x) for x in ("item", "annotator", "label", "turn")), strict=True):
            if b == a:
                mean[l] += sum(weight(t, now) for now in range(t, last + 1)) / last * state.used("posterior")[n]
        use = (mean.sum(axis=1) + 1 / last).tolist()
        rows = mean + np.array([[start_prior(k, l, use) for k in range(K)] for l in range(K)]) / last
        np.testing.assert_allclose(model.confusion_[position], (rows / rows.sum(axis=0)).T, atol=1e-9)


def test_digamma_is_the_digamma_function() -> None:
    for x in [1e-8, 0.01, 0.5, 1.0, 1.1, 4.99, 9.999, 10.0, 1e3, 1e9]:
        assert digamma(x) == pytest.approx(float(exact_digamma(x)), rel=1e-13, abs=1e-13)
