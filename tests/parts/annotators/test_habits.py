"""Attention, habits and own matrices, against their equations written out one number at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma
from tests.methods.labels.helpers import random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.parts.annotators.habits import Habits

KINDS: dict[str, dict[str, bool]] = {"BD": {}, "B": {"own": False}, "I": {"own": False, "shared": False}}
kinds = pytest.mark.parametrize("kind", KINDS)


class Naive:
    """The update with loops; arrays are [a][k][l], as the equations have them."""

    def __init__(self, answers_al: np.ndarray, own: bool = True, shared: bool = True) -> None:
        n_annotators, k = answers_al.shape
        self.K, self.A, self.own, self.shared = k, n_annotators, own, shared
        overall = [answers_al[:, y].sum() + 1 for y in range(k)]
        overall = [value / sum(overall) for value in overall]
        self.theta = [0.7] * n_annotators
        self.B = [[0.9 * (i == j) + 0.1 / k for j in range(k)] for i in range(k)]
        self.s = [float(k)] * k
        self.xi = []
        for a in range(n_annotators):
            row = [answers_al[a, y] + k * overall[y] for y in range(k)]
            self.xi.append([value / sum(row) for value in row])

    def mu(self, a: int, k: int, y: int) -> float:
        return self.theta[a] * self.B[k][y] + (1 - self.theta[a]) * self.xi[a][y]

    def update(self, C: np.ndarray) -> None:
        A, K = range(self.A), range(self.K)
        t, h = np.zeros((self.A, self.K, self.K)), np.zeros((self.A, self.K, self.K))
        for a in A:
            for k in K:
                for y in K:
                    m = max(self.s[k] * self.mu(a, k, y), 1e-6)
                    t[a, k, y] = m * (digamma(C[a, k, y] + m) - digamma(m)) if self.own else C[a, k, y]
                    h[a, k, y] = self.theta[a] * self.B[k][y] / self.mu(a, k, y)
        if self.own:
            s = []
            for k in K:
                spread = sum(digamma(C[a, k].sum() + self.s[k]) - digamma(self.s[k]) for a in A)
                s.append(min(max((t[:, k].sum() + 1) / (spread + 1 / self.K), 0.1), 1000.0))
            self.s = s
        mean = ((t * h).sum() + 1) / (t.sum() + 2)
        self.theta = [((t[a] * h[a]).sum() + 2 * mean) / (t[a].sum() + 2) for a in A]
        if self.shared:
            self.B = []
            for k in K:
                row = [(t[:, k, y] * h[:, k, y]).sum() + (k == y) + 0.1 / self.K for y in K]
                self.B.append([value / sum(row) for value in row])
        else:
            self.B = [[(1 - 1e-6) * (k == y) + 1e-6 / self.K for y in K] for k in K]
        guessed = (t * (1 - h)).sum(axis=1)
        g = [guessed[:, y].sum() + 1 / self.K for y in K]
        self.xi = []
        for a in A:
            row = [guessed[a, y] + self.K * g[y] / sum(g) for y in K]
            self.xi.append([value / sum(row) for value in row])
        self.C, self.mean, self.g = C, mean, [value / sum(g) for value in g]

    def log_pi(self) -> np.ndarray:
        out = np.zeros((self.A, self.K, self.K))
        for a in range(self.A):
            for k in range(self.K):
                for y in range(self.K):
                    mu = self.mu(a, k, y)
                    if self.own:
                        out[a, k, y] = digamma(self.C[a, k, y] + self.s[k] * mu) - digamma(self.C[a, k].sum() + self.s[k])
                    else:
                        out[a, k, y] = np.log(mu)
        return out


def answers(votes: Annotations) -> np.ndarray:
    found = np.zeros((votes.n_annotators, votes.n_classes))
    np.add.at(found, (votes.annotator, votes.label), 1 if votes.weight is None else votes.weight)
    return found


def confusion_counts(votes: Annotations, q: np.ndarray) -> np.ndarray:
    """C_akl, one vote after the other."""
    found = np.zeros((votes.n_annotators, votes.n_classes, votes.n_classes))
    for e in range(votes.n_votes):
        w = 1 if votes.weight is None else votes.weight[e]
        found[votes.annotator[e], :, votes.label[e]] += w * q[votes.item[e]]
    return found


def started(votes: Annotations, kind: str, earlier: np.ndarray | None = None) -> Habits:
    none = np.zeros((1, votes.n_classes, votes.n_classes))
    return Habits.start(answers(votes), none if earlier is None else earlier, **KINDS[kind])


def same(model: Habits, naive: Naive) -> None:
    np.testing.assert_allclose(model.attention, naive.theta, rtol=1e-10)
    np.testing.assert_allclose(model.habit_al, naive.xi, rtol=1e-10)
    np.testing.assert_allclose(model.shared_lk.T, naive.B, rtol=1e-10)
    np.testing.assert_allclose(model.strength, naive.s, rtol=1e-9)


def problem(seed: int, n_classes: int, weighted: bool = False) -> tuple[Annotations, list[np.ndarray]]:
    """Votes, annotators without any among them, and three posteriors to learn from in turn."""
    rng = np.random.default_rng(seed)
    more: dict[str, Any] = {"weight": rng.choice([0.0, 0.5, 2.0], 40)} if weighted else {}
    votes = random_votes(rng, 12, 5, n_classes, 40, **more)
    return votes, [rng.dirichlet(np.full(n_classes, 0.3), 12) for _ in range(3)]


@kinds
@pytest.mark.parametrize("n_classes", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_step_is_that_of_the_equations(kind: str, n_classes: int, weighted: bool) -> None:
    votes, posteriors = problem(n_classes, n_classes, weighted)
    model, naive = started(votes, kind), Naive(answers(votes), **KINDS[kind])
    same(model, naive)
    for q in posteriors:
        model = model.update(votes, q)
        naive.update(confusion_counts(votes, q))
        same(model, naive)
        np.testing.assert_allclose(model.log_table().transpose(0, 2, 1), naive.log_pi(), rtol=1e-9, atol=1e-11)
        assert model.mean_attention == pytest.approx(naive.mean)
        np.testing.assert_allclose(model.mean_habit, naive.g)


@kinds
def test_inference_adds_the_logs_of_votes(kind: str) -> None:
    votes, posteriors = problem(0, 3, weighted=True)
    model = started(votes, kind).update(votes, posteriors[0])
    log_prior, posterior = np.log([[0.5, 0.3, 0.2]]), np.zeros((12, 3))
    known = np.full(12, -1)
    known[4] = 2
    evidence, _ = model.infer(votes, log_prior, known, posterior)
    table, total = model.log_table(), 0.0
    assert votes.weight is not None
    for n in range(12):
        score = log_prior[0].copy()
        for e in np.flatnonzero(votes.item == n):
            score += votes.weight[e] * table[votes.annotator[e], votes.label[e]]
        score = score if n != 4 else np.where(np.arange(3) == 2, score, -np.inf)
        total += np.log(np.exp(score).sum())
        np.testing.assert_allclose(posterior[n], np.exp(score) / np.exp(score).sum(), atol=1e-12)
    assert evidence == pytest.approx(total)
    index = np.array([3, 0, 7])
    expected = votes.weight[index, None] * table[votes.annotator[index], votes.label[index]]
    np.testing.assert_allclose(model.log_lik(votes, index), expected)


def test_shards_add_up() -> None:
    votes, posteriors = problem(5, 3)
    model = started(votes, "BD")
    parts = [votes[:5], votes[5:]]
    counts = sum(
        (model.statistics(part, q)[0] for part, q in zip(parts, (posteriors[0][:5], posteriors[0][5:]), strict=True)),
        start=np.zeros((5, 3, 3)),
    )
    np.testing.assert_allclose(model.conditioned((counts,)).log_table(), model.update(votes, posteriors[0]).log_table())


# -- limits ----------------------------------------------------------------------------------------


def test_without_votes_an_annotator_is_attention_and_habit() -> None:
    votes, posteriors = problem(1, 3)
    votes = Annotations.from_arrays(
        votes.item, votes.annotator, votes.label, items=range(12), annotators=range(6), classes=range(3)
    )
    model = started(votes, "BD")
    for q in posteriors:
        model = model.update(votes, q)
    theta, xi = model.attention[5], model.habit_al[5]
    # Nothing of their own: the attention and the habit of all.
    assert theta == pytest.approx(model.mean_attention)
    np.testing.assert_allclose(xi, model.mean_habit)
    for k in range(3):
        np.testing.assert_allclose(model.confusion()[5, k], theta * model.shared_lk[:, k] + (1 - theta) * xi)
    np.testing.assert_allclose(model.concentration()[5].sum(axis=1), model.strength)  # type: ignore[index]


def test_with_many_votes_an_annotator_is_their_own_counts() -> None:
    rng = np.random.default_rng(2)
    own = rng.dirichlet(np.ones(3), 3)
    counts = np.zeros((4, 3, 3))
    counts[0] = 1e7 * own.T
    counts[1:] = rng.uniform(0, 5, (3, 3, 3))
    model = Habits.start(counts.sum(axis=2), np.zeros((1, 3, 3)))
    for _ in range(5):
        model = model.conditioned((counts,))
    np.testing.assert_allclose(model.confusion()[0], own, atol=2e-4)
    assert np.abs(model.confusion()[1] - (counts[1] / counts[1].sum(axis=0)).T).max() > 0.01


@pytest.mark.slow
def test_a_crowd_of_copies_learns_that_own_matrices_are_alike() -> None:
    same_for_all = np.array([[80.0, 30], [20, 70]])
    others = np.array([[[95.0, 5], [5, 95]], [[50, 50], [50, 50]], [[30, 60], [70, 40]], [[99, 80], [1, 20]]] * 5)
    strengths = []
    for counts in (np.repeat(same_for_all[None], 20, axis=0), others):
        model = Habits.start(counts.sum(axis=2), np.zeros((1, 2, 2)))
        # The step is a fixed point's, and slow where there is nothing to scatter.
        for _ in range(2000):
            model = model.conditioned((counts,))
        assert (model.strength >= 0.1).all()
        assert (model.strength <= 1000).all()
        strengths.append(model.strength.min())
    assert strengths[0] > 2 * strengths[1]


def test_attention_tells_those_who_look_from_those_who_do_not() -> None:
    # Three are right 95 times of 100; the last answers 0 whatever is asked.
    counts = np.tile(np.array([[95.0, 5], [5, 95]]), (4, 1, 1))
    counts[3] = [[100, 100], [0, 0]]
    for kind in KINDS.values():
        model = Habits.start(counts.sum(axis=2), np.zeros((1, 2, 2)), **kind)
        for _ in range(30):
            model = model.conditioned((counts,))
        assert model.attention[:3].min() > model.attention[3] + 0.4
        assert model.attention[3] < 0.2
        assert model.habit_al[3, 0] > 0.9


# -- what may be given, and order ------------------------------------------------------------------


@kinds
def test_history_counts_like_votes(kind: str) -> None:
    votes, posteriors = problem(7, 3)
    rng = np.random.default_rng(8)
    earlier = rng.uniform(0, 4, (5, 3, 3))
    told = Habits.start(answers(votes) + earlier.sum(axis=2), earlier, **KINDS[kind])
    counted = Habits.start(answers(votes) + earlier.sum(axis=2), np.zeros((1, 3, 3)), **KINDS[kind])
    for q in posteriors:
        told = told.update(votes, q)
        counted = counted.conditioned((confusion_counts(votes, q).transpose(0, 2, 1) + earlier,))
        np.testing.assert_allclose(told.log_table(), counted.log_table(), rtol=1e-12)


@kinds
@pytest.mark.parametrize("with_history", [False, True])
def test_aligned_reorders_and_lets_strangers_be_like_all(kind: str, with_history: bool) -> None:
    votes, posteriors = problem(9, 3)
    earlier = np.random.default_rng(1).uniform(0, 4, (5, 3, 3)) if with_history else None
    model = started(votes, kind, earlier).update(votes, posteriors[0])
    index = np.array([3, -1, 0])
    moved = model.aligned(index, np.array([0]))
    np.testing.assert_array_equal(moved.log_table()[[0, 2]], model.log_table()[[3, 0]])
    np.testing.assert_array_equal(moved.confusion()[[0, 2]], model.confusion()[[3, 0]])
    mu = model.mean_attention * model.shared_lk + (1 - model.mean_attention) * model.mean_habit[:, None]
    np.testing.assert_allclose(moved.confusion()[1], mu.T)


@kinds
def test_matrices_are_distributions_over_labels(kind: str) -> None:
    votes, posteriors = problem(10, 4)
    model = started(votes, kind).update(votes, posteriors[0])
    np.testing.assert_allclose(model.confusion().sum(axis=2), 1)
    np.testing.assert_allclose(model.mean_alk().sum(axis=1), 1)
    if kind == "BD":
        concentration = model.concentration()
        assert concentration is not None
        np.testing.assert_allclose(concentration / concentration.sum(axis=2, keepdims=True), model.confusion())
    else:
        assert model.concentration() is None
        assert model.penalty() == 0


def test_the_penalty_is_the_divergence_of_own_rows_by_monte_carlo() -> None:
    votes, posteriors = problem(11, 3)
    model = started(votes, "BD").update(votes, posteriors[0])
    prior = model.strength * model.mean_alk()
    rng, total, variance = np.random.default_rng(0), 0.0, 0.0
    from scipy.stats import dirichlet

    for a in range(5):
        for k in range(3):
            after, before = model.counts_alk[a, :, k] + prior[a, :, k], prior[a, :, k]
            drawn = np.maximum(rng.dirichlet(after, 4000), 1e-12)
            drawn = (drawn / drawn.sum(axis=1, keepdims=True)).T
            gap = dirichlet.logpdf(drawn, after) - dirichlet.logpdf(drawn, before)
            total, variance = total + gap.mean(), variance + gap.var() / 4000
    assert model.penalty() == pytest.approx(total, abs=5 * np.sqrt(variance))


def test_updates_leave_the_model_as_it_was() -> None:
    votes, posteriors = problem(12, 2)
    model = started(votes, "BD")
    before = replace(model, attention=model.attention.copy(), habit_al=model.habit_al.copy(), strength=model.strength.copy())
    model.update(votes, posteriors[0])
    np.testing.assert_array_equal(model.attention, before.attention)
    np.testing.assert_array_equal(model.habit_al, before.habit_al)
    np.testing.assert_array_equal(model.strength, before.strength)
