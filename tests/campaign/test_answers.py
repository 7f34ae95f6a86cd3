"""What annotators are expected to answer: Dirichlet rows, accuracies and matrices of the item, newcomers."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.conftest import fake_result, no_votes, rows
from tests.campaign.test_expected_gain import enumerated

from crowdwise.campaign import expected_gain
from crowdwise.campaign.answers import Answers, Matrices, RightOrWrong, Rows
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.campaign.oracle import SimulatedCrowd
from crowdwise.campaign.policies import State, policy_of
from crowdwise.campaign.pool import Pool, extended
from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.dawid_skene import DawidSkene


@pytest.mark.parametrize("q", [[0.6, 0.3, 0.1], [1 / 3, 1 / 3, 1 / 3], [0.05, 0.9, 0.05], [0.0, 1.0, 0.0]])
def test_information_averaged_over_the_annotator_equals_monte_carlo(q: list[float]) -> None:
    rng = np.random.default_rng(1)
    # Much is known of the first, little of the second, and nearly nothing of the third.
    crowd = np.array([[[30.0, 4, 1], [2, 20.0, 3], [5, 5, 40.0]], [[3.0, 1, 0.5], [0.4, 2, 0.6], [1, 1, 5.0]], np.eye(3) + 0.3])
    found = Rows(crowd).information(np.array([q]))[0]
    for a, concentration in enumerate(crowd):
        drawn = np.stack([rng.dirichlet(row, size=40_000) for row in concentration], axis=1)
        each = expected_gain.information(np.array([q]), drawn)[0]
        # The answer's distribution is only matched to a Dirichlet, which shows where next to nothing is known.
        assert found[a] == pytest.approx(each.mean(), rel=(0.03, 0.15, 0.25)[a], abs=2e-3)


@given(st.integers(0, 1000))
def test_uncertainty_about_the_annotator_adds_and_knowledge_leaves_the_mean(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, confusion = rows(rng, 3, 3), rng.dirichlet(np.ones(3), size=(2, 3))
    known = expected_gain.information(q, confusion)
    assert Rows(1e9 * confusion + 1e-9).information(q) == pytest.approx(known, abs=1e-6)
    less = Rows(5 * confusion + 1e-9).information(q)
    # Information is convex in the matrix; the match to a Dirichlet costs a little.
    assert (less > known - 0.02 - 0.1 * known).all()
    assert (less <= expected_gain.entropy(q)[:, None] + 1e-12).all()


@given(st.integers(0, 1000), st.integers(1, 4))
def test_accuracies_and_matrices_of_items_equal_their_enumeration(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    q, right = rows(rng, 3, n_classes), rng.random((3, 2))
    plain = RightOrWrong(right, n_classes)
    tables = np.array([[RightOrWrong(right[n : n + 1], n_classes).matrix(a) for a in range(2)] for n in range(3)])
    given_matrices = rows(rng, 3, 2, n_classes, n_classes)
    for beliefs, matrices in ((plain, tables), (Matrices(tables), tables), (Matrices(given_matrices), given_matrices)):
        information, reduction, correct = beliefs.information(q), beliefs.error_reduction(q), beliefs.rightness(q)
        for n in range(3):
            for a in range(2):
                expected = enumerated(q[n].tolist(), matrices[n, a].tolist())
                assert information[n, a] == pytest.approx(expected[0], abs=1e-12)
                assert reduction[n, a] == pytest.approx(expected[1], abs=1e-12)
                if n_classes > 1:
                    assert correct[n, a] == pytest.approx(q[n] @ np.diag(matrices[n, a]))


class Expert:
    """A model that knows its annotators by item."""

    def expertise(self, features: Any) -> Any:
        return np.column_stack([features[:, 0], 1 - features[:, 0]])


class Reader:
    """The same as whole matrices."""

    def confusion_of(self, features: Any) -> Any:
        right = Expert().expertise(features)
        return np.stack([[RightOrWrong(row[None], 2).matrix(a) for a in range(2)] for row in right])


@pytest.mark.parametrize("model", [Expert(), Reader()])
def test_the_models_own_word_on_the_item_counts_in_every_gain(model: Any) -> None:
    votes = no_votes(2, 2)
    result = fake_result(votes, np.full((2, 2), 0.5), np.full((2, 2, 2), 0.5), 1e9)
    state = State(result, Pool.of(votes, per_item=2), np.random.default_rng(0), model, np.array([[0.9], [0.5]]))
    items = np.array([1, 0, 0])
    full = math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1)
    assert policy_of("information").pairs(state, items) == pytest.approx(np.array([[0, 0], [full, full], [full, full]]))
    assert policy_of("error-reduction").pairs(state, items) == pytest.approx(np.array([[0, 0], [0.4, 0.4], [0.4, 0.4]]))
    assert state.answers.of(np.array([0])).matrix(0) == pytest.approx(np.array([[0.9, 0.1], [0.1, 0.9]]))


def votes_of(right: list[int], wrong: list[int]) -> Annotations:
    """Known items; annotator a was right about so many of them, and wrong about so many."""
    items, who, labels = list[str](), list[str](), list[str]()
    for a, (yes, no) in enumerate(zip(right, wrong, strict=True)):
        for n in range(yes + no):
            true = n % 2
            items.append(f"i{n}")
            who.append(f"a{a}")
            labels.append(f"c{true if n < yes else 1 - true}")
    gold = {f"i{n}": f"c{n % 2}" for n in range(max(y + w for y, w in zip(right, wrong, strict=True)))}
    return Annotations.from_arrays(items, who, labels).with_gold(gold)


def test_a_newcomer_is_like_the_crowd_and_few_votes_say_little() -> None:
    votes = votes_of([36, 34, 32, 30, 2], [4, 6, 8, 10, 0])
    result = DawidSkene().fit(extended(votes, annotators=["new"])).result_
    beliefs = Answers(result, None, None).rows
    mean = np.einsum("akk->ak", beliefs.mean).mean(axis=1)
    assert mean[-1] == pytest.approx(33 / 40, abs=0.06)
    # Two right answers of two: above the crowd, but not a perfect annotator.
    assert mean[-1] < mean[4] < 0.95
    # Whoever is not known yet may be better than the mean.
    q = np.array([[0.5, 0.5]])
    assert beliefs.information(q)[0, -1] > expected_gain.information(q, beliefs.mean)[0, -1] + 0.01


def test_a_newcomer_to_a_network_is_like_the_crowd_on_the_item() -> None:
    votes = extended(votes_of([2, 6], [0, 0]), annotators=["new"])
    started = np.broadcast_to([[0.5, 0.5], [0.5, 0.5]], (2, 2, 2))
    own = np.array([[RightOrWrong(np.array([[right]]), 2).matrix(0) for right in row] for row in ((0.9, 0.7), (0.5, 0.9))])
    learnt = np.concatenate([own, started[:, None]], axis=1)
    result = fake_result(votes, np.full((votes.n_items, 2), 0.5), np.full((3, 2, 2), 0.5), 1e9)
    model = SimpleNamespace(confusion_of=lambda features: learnt)
    found = Answers(result, model, np.zeros((votes.n_items, 1))).of(np.arange(2))
    # Six of the eight votes are the second one's.
    assert found.rightness(np.full((2, 2), 0.5)) == pytest.approx(np.array([[0.9, 0.7, 0.75], [0.5, 0.9, 0.8]]))
    assert learnt[0, 2, 0, 0] == 0.5


def test_no_votes_at_all_leave_the_prior() -> None:
    votes = no_votes(2, 3, 4)
    result = SimpleNamespace(
        votes=votes, history=None, annotators=SimpleNamespace(concentration=lambda: None),
        model_posterior=np.full((2, 4), 0.25), class_prior=np.full(4, 0.25),
    )  # fmt: skip
    found = Answers(result, None, None).rows.mean  # type: ignore[arg-type]
    assert found == pytest.approx(np.tile(np.where(np.eye(4) > 0, 0.75, 0.25 / 3), (3, 1, 1)))


def test_votes_that_nobody_else_confirms_make_nobody_an_expert() -> None:
    """Lone votes are their items' labels: a campaign that asks whom it believes would believe them ever more."""
    items = [f"i{n}" for n in range(6)] * 3
    who = ["a0"] * 6 + ["a1"] * 6 + ["a2"] * 6
    said = ["c0", "c1"] * 9
    said[0], said[7] = "c1", "c0"
    alone = [f"j{n}" for n in range(200)]
    for more in ([], alone):
        votes = Annotations.from_arrays(items + more, who + ["a0"] * len(more), said + ["c0", "c1"] * (len(more) // 2))
        found = Answers(DawidSkene().fit(votes).result_, None, None).rows
        accuracy, mass = np.einsum("akk->a", found.mean) / 2, found.concentration.sum(axis=(1, 2))
        assert accuracy[2] > accuracy[0]
        # Six votes and the population, whoever else was asked alone.
        assert mass[0] == pytest.approx(mass[2])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::crowdwise.errors.CrowdwiseWarning")
def test_information_finds_the_experts_by_itself() -> None:
    """Some of 24 annotators are good, most are poor: without random questions first, labels come from the good ones."""
    accuracy = np.array([0.95, 0.9, 0.9, 0.85] + [0.45] * 20)
    confusion = np.array([np.where(np.eye(4) > 0, p, (1 - p) / 3) for p in accuracy])
    right = {"random+random": list[float](), "information": list[float]()}
    for seed in range(2):
        crowd = SimulatedCrowd(confusion, np.arange(150) % 4, random_state=seed)
        for policy, found in right.items():
            loop = ActiveLoop(
                DawidSkene(tol=1e-3),
                policy,
                items=crowd.items,
                annotators=crowd.annotators,
                classes=[0, 1, 2, 3],
                random_state=seed,
            )
            for _ in range(8):
                loop.tell(crowd.answer(loop.ask(75)))
            found.append(float((loop.result.codes == crowd.truth).mean()))
    assert np.mean(right["information"]) > np.mean(right["random+random"]) + 0.1, right
