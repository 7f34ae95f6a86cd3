"""Policies by name: what each prefers, by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.campaign.conftest import fake_result, names, no_votes, state_of

from crowdwise.campaign.assign import suggest
from crowdwise.campaign.policies import ANNOTATOR_POLICIES, ITEM_POLICIES, State, policy_of, stage_of
from crowdwise.campaign.pool import Pool
from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError

ALL = np.arange(3)
Q = np.array([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]])
CROWD = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]])


def state(mass: float = 10.0, model: Any = None, features: Any = None, votes: Any = None) -> State:
    votes = no_votes(3, 2) if votes is None else votes
    return State(fake_result(votes, Q, CROWD, mass), Pool.of(votes), np.random.default_rng(0), model, features)


def test_items_by_hand() -> None:
    entropies = [-sum(p * math.log(p) for p in row) for row in Q.tolist()]
    assert ITEM_POLICIES["entropy"](state()) == pytest.approx(entropies)
    assert ITEM_POLICIES["margin"](state()) == pytest.approx([0.2, 1, 0.6])
    assert ITEM_POLICIES["error"](state()) == pytest.approx([0.1, 0.5, 0.3])


def test_only_the_items_of_the_pool_are_scored() -> None:
    votes = no_votes(3, 2)
    limited = State(fake_result(votes, Q, CROWD), Pool.of(votes, items=["i2", "i0"]), np.random.default_rng(0))
    assert ITEM_POLICIES["error"](limited) == pytest.approx([0.1, 0.3])


def test_accuracy_is_the_chance_of_a_right_answer() -> None:
    expected = [[q[0] * r[0][0] + q[1] * r[1][1] for r in CROWD.tolist()] for q in Q.tolist()]
    assert ANNOTATOR_POLICIES["accuracy"](state(), ALL) == pytest.approx(np.array(expected))


def test_optimism_adds_two_standard_deviations() -> None:
    # Rows of mass 9 + tiny: sd of a Beta mean p with mass 9 is sqrt(p (1 - p) / 10).
    mean = ANNOTATOR_POLICIES["accuracy"](state(9.0), ALL)
    extra = ANNOTATOR_POLICIES["ucb"](state(9.0), ALL) - mean
    assert extra[1, 0] == pytest.approx(2 * math.sqrt(0.25 * 0.9 * 0.1 / 10 + 0.25 * 0.5 * 0.5 / 10), rel=1e-6)


def test_thompson_draws_around_the_accuracy() -> None:
    here = state(20.0)
    draws = np.array([ANNOTATOR_POLICIES["thompson"](here, ALL) for _ in range(4000)])
    assert draws.mean(axis=0) == pytest.approx(ANNOTATOR_POLICIES["accuracy"](here, ALL), abs=0.01)
    ucb = ANNOTATOR_POLICIES["ucb"](here, ALL) - ANNOTATOR_POLICIES["accuracy"](here, ALL)
    assert draws.std(axis=0) == pytest.approx(ucb / 2, abs=0.01)


@pytest.mark.parametrize(("n_votes", "share"), [(99, 0.5), (100, 0.05)])
def test_epsilon_greedy_explores_much_before_the_hundredth_vote_and_little_after(n_votes: int, share: float) -> None:
    votes = Annotations.from_arrays(
        ["i0"] * n_votes,
        ["a0"] * n_votes,
        ["c0"] * n_votes,
        items=["i0", "i1", "i2"],
        annotators=["a0", "a1"],
        classes=["c0", "c1"],
    )
    here, many = state(votes=votes), np.zeros(4000, np.int64)
    scores = ANNOTATOR_POLICIES["epsilon-greedy"](here, many)
    random = (np.abs(scores - ANNOTATOR_POLICIES["accuracy"](here, many)) > 1e-12).any(axis=1)
    assert random.mean() == pytest.approx(share, abs=0.03)


class Classifier:
    """Says the same of every row; the first annotator knows rows with a large first feature."""

    def predict_proba(self, rows: Any) -> Any:
        return np.tile([0.5, 0.5], (len(rows), 1))

    def expertise(self, rows: Any) -> Any:
        return np.column_stack([rows[:, 0], 1 - rows[:, 0]])

    def uncertainty(self, rows: Any) -> Any:
        return SimpleNamespace(disagreement=rows[:, 0])


def test_policies_that_read_features() -> None:
    features = np.array([[0.9], [0.4], [0.2]])
    here = state(model=Classifier(), features=features)
    assert ITEM_POLICIES["predictive-entropy"](here) == pytest.approx([math.log(2)] * 3)
    assert ITEM_POLICIES["disagreement"](here) == pytest.approx([0.4, 0, 0.2])
    assert ITEM_POLICIES["bald"](here) == pytest.approx([0.9, 0.4, 0.2])
    assert ANNOTATOR_POLICIES["expertise"](here, ALL).argmax(axis=1).tolist() == [0, 1, 1]
    targeted = policy_of("targeted").pairs(here, ALL)
    assert targeted == pytest.approx(math.log(2) * np.column_stack([features[:, 0], 1 - features[:, 0]]))


class Torn(Classifier):
    """Sure of the first row, less of the second, least of the third."""

    def predict_proba(self, rows: Any) -> Any:
        return np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])[: len(rows)]


def test_dalc_is_the_papers_rule() -> None:
    """The k items of the highest predictive entropy, and for each whoever knows it best; the product may choose others."""
    here = state(model=Torn(), features=np.array([[0.99], [0.6], [0.4]]))
    found = suggest(here, "dalc", 2, explore=0, diverse=False)
    assert list(zip(found.item.tolist(), found.annotator.tolist(), strict=True)) == [(2, 1), (1, 0)]
    assert not policy_of("dalc").joint
    assert ITEM_POLICIES["predictive-margin"](here) == pytest.approx([0.2, 0.6, 1.0])


@pytest.mark.parametrize("name", ["predictive-entropy+accuracy", "bald+accuracy", "dalc", "targeted"])
def test_without_a_classifier_they_say_what_is_missing(name: str) -> None:
    with pytest.raises(SettingError, match="needs a fitted classifier"):
        policy_of(name).items(state())


def test_bald_needs_a_network_that_can_disagree_with_itself() -> None:
    plain = SimpleNamespace(predict_proba=lambda rows: np.full((len(rows), 2), 0.5))
    with pytest.raises(SettingError, match="bald needs a network"):
        policy_of("bald+accuracy").items(state(model=plain, features=np.zeros((3, 1))))


def test_disagreement_among_votes_without_a_classifier() -> None:
    votes = Annotations.from_arrays(["i0", "i0", "i1"], ["a0", "a1", "a0"], ["c0", "c1", "c0"], items=["i0", "i1", "i2"])
    assert ITEM_POLICIES["disagreement"](state(votes=votes)) == pytest.approx([math.log(2), 0, 0])


def test_names_and_objects_are_policies_and_nothing_else() -> None:
    assert policy_of("information").joint
    assert not policy_of("entropy+ucb").joint
    own = policy_of("margin")
    assert policy_of(own) is own
    for wrong in ("ucb", "entropy+best", "entropy+", "", 3, None):
        with pytest.raises(SettingError, match="policy"):
            policy_of(wrong)


@pytest.mark.parametrize("name", ["information", "error-reduction"])
def test_pairs_are_worth_less_where_they_cost_more(name: str) -> None:
    votes = no_votes(3, 2)
    cheap, dear = (state_of(votes, 1, cost=price) for price in (1.0, 4.0))
    assert policy_of(name).pairs(dear, ALL) == pytest.approx(policy_of(name).pairs(cheap, ALL) / 4)


def priced(accuracies: list[float], cost: list[float]) -> State:
    """An open item of three classes; annotators spread their errors evenly."""
    votes = no_votes(1, len(cost), 3)
    crowd = [np.full((3, 3), (1 - p) / 2) + np.eye(3) * (p - (1 - p) / 2) for p in accuracies]
    result = fake_result(votes, np.full((1, 3), 1 / 3), crowd, 1e9)
    return State(result, Pool.of(votes, cost=dict(zip(["a0", "a1", "a2"], cost, strict=False))), np.random.default_rng(0))


@pytest.mark.parametrize("name", ["accuracy", "ucb", "thompson", "expertise"])
def test_annotators_scored_apart_count_by_their_squared_lead_per_unit_of_cost(name: str) -> None:
    # Leads over guessing: (3 * 0.8 - 1) / 2 = 0.7 and (3 * 0.6 - 1) / 2 = 0.4, whose squares are 0.49 and 0.16.
    for price, chosen in ((2.0, 0), (4.0, 1)):
        scores = ANNOTATOR_POLICIES[name](priced([0.8, 0.6], [price, 1.0]), np.array([0]))[0]
        assert scores == pytest.approx([0.49 / price, 0.16], abs=1e-3)
        assert scores.argmax() == chosen


def test_guessing_is_not_worth_asking_for_however_cheap_it_is() -> None:
    scores = ANNOTATOR_POLICIES["accuracy"](priced([0.5, 1 / 3, 0.1], [10.0, 0.001, 0.001]), np.array([0]))[0]
    assert scores.argsort().tolist() == [2, 1, 0]


def test_one_price_for_all_changes_no_score() -> None:
    scores = ANNOTATOR_POLICIES["accuracy"](priced([0.8, 0.6], [3.0, 3.0]), np.array([0]))[0]
    assert scores == pytest.approx([0.8, 0.6])


def test_epsilon_greedy_is_cheap_only_when_it_is_greedy() -> None:
    here, many = priced([0.8, 0.6], [4.0, 1.0]), np.zeros(4000, np.int64)
    chosen = ANNOTATOR_POLICIES["epsilon-greedy"](here, many).argmax(axis=1)
    # No votes yet: half of the questions go to either by chance, the other half to the better bargain.
    assert chosen.mean() == pytest.approx(0.75, abs=0.03)


def overlapping(n_votes: int, n_voted: int) -> Annotations:
    """Votes of ten annotators on the first items of twelve, one item after another."""
    item = [f"i{n % n_voted:02d}" for n in range(n_votes)]
    return Annotations.from_arrays(
        item,
        [f"a{n // n_voted}" for n in range(n_votes)],
        ["c0"] * n_votes,
        items=[f"i{n:02d}" for n in range(12)],
        annotators=names("a", 10),
        classes=["c0", "c1"],
    )


@pytest.mark.parametrize(("n_votes", "n_voted", "joint"), [(0, 1, False), (12, 12, False), (10, 6, False), (12, 6, True)])
def test_the_default_asks_at_random_until_votes_overlap(n_votes: int, n_voted: int, joint: bool) -> None:
    # Two votes on each of the items that have any overlap enough, and ten votes on six of them do not.
    votes, default = overlapping(n_votes, n_voted), policy_of("warm-information")
    assert stage_of(default, state_of(votes, 1)).joint is joint
    # Each from a state of its own, so that random scores are drawn from the same seed.
    expected = policy_of("information" if joint else "random+random")
    pairs = default.pairs(state_of(votes, 1), ALL)
    assert np.abs(pairs).max() > 0.1
    assert pairs == pytest.approx(expected.pairs(state_of(votes, 1), ALL))
    assert default.items(state_of(votes, 1)) == pytest.approx(expected.items(state_of(votes, 1)))


def test_the_default_knows_from_the_start_whom_a_history_or_features_tell_apart() -> None:
    state = state_of(overlapping(12, 12), 1)
    default = policy_of("warm-information")
    state.result.history = np.ones((10, 2, 2))  # type: ignore[misc]
    assert stage_of(default, state).joint
    features = state_of(overlapping(12, 12), 1, np.zeros((12, 1)), Classifier())
    assert stage_of(default, features).joint


def test_a_policy_of_one_stage_is_its_own() -> None:
    own = policy_of("entropy+ucb")
    assert stage_of(own, state()) is own
