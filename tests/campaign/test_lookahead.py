"""Second questions about an item: worth what the first is expected to leave, against enumeration of all answers."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.conftest import fake_result, no_votes, rows, state_of

from crowdwise.campaign import expected_gain, lookahead
from crowdwise.campaign.assign import suggest
from crowdwise.campaign.lookahead import Lookahead
from crowdwise.campaign.policies import State, policy_of
from crowdwise.campaign.pool import Pool

GOOD = [[0.9, 0.1], [0.1, 0.9]]


def binary_entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def enumerated(q: Any, matrices: list[Any], last: Any) -> float:
    """I(z; y_last | y_1 ... y_m) over all answers."""
    total = 0.0
    for said in product(range(len(q)), repeat=len(matrices)):
        joint = np.array([q[k] * math.prod(m[k][y] for m, y in zip(matrices, said, strict=True)) for k in range(len(q))])
        if joint.sum() > 0:
            total += joint.sum() * expected_gain.information(joint[None] / joint.sum(), np.asarray(last)[None])[0, 0]
    return total


@given(st.integers(0, 10_000), st.integers(0, 3))
def test_another_question_gains_what_the_answers_before_it_leave(seed: int, n_asked: int) -> None:
    state = state_of(no_votes(1, 4, 3), seed, mass=1e12, per_item=4)
    looking = Lookahead(state)
    for annotator in range(n_asked):
        looking.ask(0, annotator)
    found = looking.pairs(policy_of("information"), 0)
    matrices = state.result.confusion
    expected = enumerated(state.result.posterior[0], list(matrices[:n_asked]), matrices[3])
    assert found[3] == pytest.approx(expected, abs=1e-9)
    weight, q = looking.branches(0)
    assert weight.sum() == pytest.approx(1)
    # Whatever is answered, what is thought of the label stays the same in the mean.
    assert weight @ q == pytest.approx(state.result.posterior[0], abs=1e-9)


def test_drawn_branches_say_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(no_votes(1, 6, 3), 5, per_item=6)
    exact, drawn = Lookahead(state), Lookahead(state)
    with monkeypatch.context() as patched:
        patched.setattr(lookahead, "_BRANCHES", 10_000)
        for annotator in range(5):
            exact.ask(0, annotator)
    for annotator in range(5):
        drawn.ask(0, annotator)
    assert len(exact.branches(0)[0]) > len(drawn.branches(0)[0]) == 64
    gains = [looking.pairs(policy_of("information"), 0)[5] for looking in (exact, drawn)]
    assert gains[1] == pytest.approx(gains[0], abs=0.02)


def two_items(**options: Any) -> State:
    """i0 is open (0.5), i1 nearly so (0.6); both annotators are right in 90 of 100."""
    votes = no_votes(2, 2)
    result = fake_result(votes, [[0.5, 0.5], [0.6, 0.4]], [GOOD, GOOD], 1e12)
    return State(result, Pool.of(votes, per_item=2, **options), np.random.default_rng(0))


def test_a_fresh_item_beats_a_second_question() -> None:
    found = suggest(two_items(), "information", 3, explore=0)
    # First questions gain ln 2 - H(0.9) = 0.368 and H(0.58) - H(0.9) = 0.355; after the first, i0 is at 0.9 either way.
    assert found.item.tolist()[:2] == [0, 1]
    second = binary_entropy(0.82) - binary_entropy(0.9)
    assert found.score[:2] == pytest.approx([math.log(2) - binary_entropy(0.9), binary_entropy(0.58) - binary_entropy(0.9)])
    # After one answer i1 is at 0.931 with probability 0.58, else at 0.857: a second one gains a little more than for i0.
    one, other = 0.54 / 0.58, 0.36 / 0.42
    for_i1 = 0.58 * binary_entropy(0.8 * one + 0.1) + 0.42 * binary_entropy(0.8 * other + 0.1) - binary_entropy(0.9)
    assert found.score[2] == pytest.approx(max(second, for_i1))


def test_items_that_are_scored_apart_are_discounted_by_the_entropy_that_is_left() -> None:
    found = suggest(two_items(), "entropy+accuracy", 2, explore=0)
    # i0 falls from ln 2 to H(0.9) = 0.325, below H(0.6) = 0.673.
    assert found.item.tolist() == [0, 1]
    assert len(suggest(two_items(), "entropy+accuracy", 4, explore=0)) == 4


def test_questions_that_wait_for_an_answer_count_as_asked() -> None:
    for policy in ("information", "entropy+accuracy"):
        state = two_items()
        waiting = State(state.result, state.pool.waiting(np.array([0]), np.array([0])), state.rng)
        assert suggest(waiting, policy, 1, explore=0).item.tolist() == [1]


def test_the_look_ahead_believes_the_models_own_word_on_the_item() -> None:
    """By their matrices both annotators guess; by the model the first is right about i0 in 90 of 100, the second in 10."""

    class Expert:
        def expertise(self, rows: Any) -> Any:
            return np.column_stack([rows[:, 0], 1 - rows[:, 0]])

    votes = no_votes(2, 2)
    result = fake_result(votes, np.full((2, 2), 0.5), np.full((2, 2, 2), 0.5), 1e12)
    state = State(result, Pool.of(votes, per_item=2), np.random.default_rng(0), Expert(), np.array([[0.9], [0.5]]))
    looking = Lookahead(state)
    looking.ask(0, 0)
    looking.ask(1, 0)
    assert looking.share(0) == pytest.approx(binary_entropy(0.9) / math.log(2))
    assert looking.share(1) == pytest.approx(1)
    # Who is wrong in 90 of 100 tells as much as who is right in as many.
    second = binary_entropy(0.82) - binary_entropy(0.9)
    assert looking.pairs(policy_of("information"), 0) == pytest.approx([second, second])
    # Either answer leaves i0 at 0.9, and a second one as good turns no label round.
    assert looking.pairs(policy_of("error-reduction"), 0) == pytest.approx([0, 0])


def test_targeted_counts_the_share_of_uncertainty_that_is_left() -> None:
    class Classifier:
        def predict_proba(self, X: Any) -> Any:
            return np.tile([0.5, 0.5], (len(X), 1))

    state = two_items()
    state = State(state.result, state.pool, state.rng, Classifier(), np.zeros((2, 1)))
    looking = Lookahead(state)
    before = policy_of("targeted").pairs(state, np.array([0]))[0]
    looking.ask(0, 0)
    assert looking.share(0) == pytest.approx(binary_entropy(0.9) / math.log(2))
    after = looking.pairs(policy_of("targeted"), 0)
    assert after[1] / before[1] == pytest.approx(binary_entropy(0.9) / math.log(2))
    found = suggest(state, "targeted", 2, explore=0, diverse=False)
    assert set(found.item.tolist()) == {0, 1}


def test_nothing_is_left_of_a_settled_item() -> None:
    votes = no_votes(1, 2)
    state = State(fake_result(votes, [[1.0, 0.0]], [GOOD, GOOD]), Pool.of(votes, per_item=2), np.random.default_rng(0))
    assert Lookahead(state).share(0) == 0


@given(st.integers(0, 1000), st.integers(1, 6))
def test_several_questions_per_item_are_the_naive_greedy(seed: int, budget: int) -> None:
    rng = np.random.default_rng(seed)
    votes = no_votes(3, 3)
    posterior, confusion = rows(rng, 3, 2), rows(rng, 3, 2, 2)
    state = State(fake_result(votes, posterior, confusion, 1e12), Pool.of(votes, per_item=3, capacity=2), rng)
    found = suggest(state, "information", budget, explore=0)
    asked: dict[int, list[int]] = {n: [] for n in range(3)}
    total = 0.0
    for _ in range(budget):
        used = [sum(a in who for who in asked.values()) for a in range(3)]
        gains = {
            (n, a): enumerated(posterior[n], [confusion[b] for b in asked[n]], confusion[a])
            for n in range(3)
            for a in range(3)
            if a not in asked[n] and used[a] < 2
        }
        if gains:
            best = max(gains, key=lambda pair: gains[pair])
            total += gains[best]
            asked[best[0]].append(best[1])
    assert found.score.sum() == pytest.approx(total, abs=1e-7)
