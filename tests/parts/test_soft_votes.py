"""Votes that are distributions in the models of annotators: the hidden label is summed out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import make_aggregator
from crowdwise.parts.annotators.model import counts_of, infer_by_table

N, A, K = 3, 2, 3


def votes_of(p: np.ndarray) -> Annotations:
    n, a = (index.ravel() for index in np.meshgrid(range(p.shape[0]), range(p.shape[1]), indexing="ij"))
    return Annotations.from_probabilities(n, a, p.reshape(-1, p.shape[2]), classes=list(range(p.shape[2])))


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    pi = rng.dirichlet(np.ones(K), (A, K)).transpose(0, 2, 1)  # [A, L, K]
    return rng.dirichlet(np.ones(K), (N, A)), pi, rng.dirichlet(np.ones(K))


def test_posterior_and_counts_by_enumeration(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Sum over every class and every pair of hidden labels of an item."""
    p, pi, prior = problem
    posterior, counts, evidence = np.zeros((N, K)), np.zeros((A, K, K)), 0.0
    for n in range(N):
        joint = {
            (k, labels): prior[k] * np.prod([p[n, a, l] * pi[a, l, k] for a, l in enumerate(labels)])
            for k in range(K)
            for labels in product(range(K), repeat=A)
        }
        total = sum(joint.values())
        evidence += np.log(total)
        for (k, labels), mass in joint.items():
            posterior[n, k] += mass / total
            for a, l in enumerate(labels):
                counts[a, l, k] += mass / total
    votes, found = votes_of(p), np.full((N, K), 1 / K)
    log_evidence, _ = infer_by_table(votes, pi, np.log(prior)[None], np.empty(0, np.int16), found)
    np.testing.assert_allclose(found, posterior, atol=1e-12)
    assert log_evidence == pytest.approx(evidence)
    np.testing.assert_allclose(counts_of(votes, found, pi), counts, atol=1e-12)


@pytest.mark.slow
def test_certain_votes_are_hard_votes() -> None:
    rng = np.random.default_rng(2)
    label = rng.integers(0, K, (40, 4))
    soft = votes_of(np.eye(K)[label])
    hard = Annotations.from_matrix(label, classes=range(K))
    assert soft.n_answers == hard.n_votes
    for name in ("majority", "dawid-skene", "consensus", "hierarchical-dawid-skene"):
        one, other = (make_aggregator(name).fit(votes).result_ for votes in (soft, hard))
        np.testing.assert_allclose(one.posterior, other.posterior, atol=1e-6)
        np.testing.assert_allclose(one.confusion, other.confusion, atol=1e-6)


def test_majority_takes_expected_counts(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    p = problem[0]
    votes = votes_of(p)
    np.testing.assert_allclose(make_aggregator("majority").fit(votes).result_.model_posterior, p.mean(axis=1), atol=1e-12)


def careful_judges(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five judges whose probabilities are true: P(class | what they saw); two of them saw nothing."""
    rng = np.random.default_rng(seed)
    truth, skill = rng.integers(0, 5, 400), np.array([0.0, 0.0, 1.2, 1.6, 2.0])
    seen = skill[:, None] * np.eye(5)[truth][:, None, :] + rng.normal(size=(400, 5, 5))
    odds = np.exp(np.maximum(skill, 1.0)[:, None] * seen)
    return truth, odds / odds.sum(axis=2, keepdims=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", ["dawid-skene", "consensus"])
def test_probabilities_are_worth_more_than_their_first_choices(name: str) -> None:
    truth, p = (part[:200] for part in careful_judges(1))
    soft = votes_of(p)
    shares = Annotations.from_arrays(*soft.to_frame().get_columns(), classes=range(5))
    right = {}
    for how, votes in {"soft": soft, "hard": soft.hardened(), "shares": shares}.items():
        right[how] = float((make_aggregator(name).fit(votes).result_.codes == truth).mean())
    assert right["soft"] > right["hard"] + 0.03
    # Shares of votes instead of uncertain votes are what loses.
    assert right["soft"] > right["shares"] + 0.02


def test_soft_votes_are_saved_and_cut_whole(tmp_path: object) -> None:
    votes = votes_of(careful_judges(0)[1][:30])
    result = make_aggregator("dawid-skene").fit(votes).result_
    result.save(f"{tmp_path}/model")
    again = Result.load(f"{tmp_path}/model")
    assert again.votes.soft
    np.testing.assert_array_equal(again.posterior, result.posterior)
    kept, held = votes.split(0.3)
    for part in (kept, held):
        assert part.soft
        sums = np.add.reduceat(part.weights, part.answer_ptr[:-1])
        np.testing.assert_allclose(sums, 1)
    assert held.n_answers == round(0.3 * votes.n_answers)


def test_rows_of_one_annotator_and_item_are_averaged() -> None:
    votes = Annotations.from_probabilities(["a", "a"], ["x", "x"], [[1, 0], [0.5, 0.5]], classes=["c", "d"])
    assert votes.weights.tolist() == [0.75, 0.25]
    assert votes.n_answers == 1


def test_hardened_votes_are_first_choices() -> None:
    votes = Annotations.from_probabilities([1, 2], ["x", "x"], [[0.2, 0.8], [0.5, 0.5]], classes=["c", "d"]).hardened()
    assert votes.to_frame().rows() == [(1, "x", "d"), (2, "x", "c")]
    assert not votes.soft
