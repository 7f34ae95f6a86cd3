"""Two communities of annotators, against their equations written out one number at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from tests.methods.labels.helpers import crowd, diagonal_crowd, random_votes

from crowdwise.parts.annotators.tiers import Tiers


class Naive:
    """The update with loops over annotators and communities; counts are [a][k][l]."""

    def __init__(self, n_classes: int, n_tiers: int = 2) -> None:
        self.K, self.G = n_classes, n_tiers
        self.tau = [1 / n_tiers] * n_tiers
        self.M: list[np.ndarray] = []

    def update(self, C: np.ndarray) -> None:
        A, K, G = len(C), self.K, self.G
        first = not self.M
        if first:
            self.M = self.centres(C)
        R = np.zeros((A, G))
        for a in range(A):
            score = [math.log(self.tau[g]) + self.evidence(C[a], self.M[g]) for g in range(G)]
            chance = [math.exp(value - max(score)) for value in score]
            R[a] = [value / sum(chance) for value in chance]
        self.tau = [(R[:, g].sum() + 1) / (A + G) for g in range(G)]
        if not first:
            for g in range(G):
                new = np.zeros((K, K))
                for k in range(K):
                    m, total = self.M[g][k], self.M[g][k].sum()
                    cost = sum(R[a, g] * (digamma(C[a, k].sum() + total) - digamma(total)) for a in range(A))
                    for y in range(K):
                        gain = sum(R[a, g] * (digamma(C[a, k, y] + m[y]) - digamma(m[y])) for a in range(A))
                        new[k, y] = min(max(m[y] * gain / max(cost, 1e-9), 1e-3), 1e3)
                self.M[g] = new
        self.R, self.C = R, C

    def centres(self, C: np.ndarray) -> list[np.ndarray]:
        """Pooled errors around diagonals at quantiles of agreement."""
        K = self.K
        agreement = sorted(np.trace(own) / max(own.sum(), 1) for own in C)
        pooled = C.sum(axis=0) + 1 / K
        made = []
        for g in range(self.G):
            at = (g + 0.5) / self.G * (len(agreement) - 1)
            low = agreement[math.floor(at)]
            right = low + (at - math.floor(at)) * (agreement[math.ceil(at)] - low)
            right = min(max(right, 0.2), 0.95)
            M = np.zeros((K, K))
            for k in range(K):
                wrong = sum(pooled[k, y] for y in range(K) if y != k)
                for y in range(K):
                    M[k, y] = (K + 2) * (right if y == k else (1 - right) * pooled[k, y] / wrong)
            made.append(M)
        return made

    @staticmethod
    def evidence(own: np.ndarray, M: np.ndarray) -> float:
        """log DM(C_a | M), rows multiplied."""
        total = 0.0
        for counts, m in zip(own, M, strict=True):
            total += gammaln(m.sum()) - gammaln(counts.sum() + m.sum())
            total += sum(gammaln(c + x) - gammaln(x) for c, x in zip(counts, m, strict=True))
        return float(total)

    def log_pi(self) -> np.ndarray:
        out = np.zeros(self.C.shape)
        for g, M in enumerate(self.M):
            for a, own in enumerate(self.C):
                for k in range(self.K):
                    alpha = own[k] + M[k]
                    out[a, k] += self.R[a, g] * (digamma(alpha) - digamma(alpha.sum()))
        return out


def start(n_annotators: int, n_classes: int) -> Tiers:
    return Tiers.start(np.zeros((1, n_classes, n_classes)), n_annotators)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_step_is_that_of_the_equations(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    model, naive = start(6, n_classes), Naive(n_classes)
    for _ in range(4):
        counts = rng.gamma(0.7, 4, (6, n_classes, n_classes))
        counts[5] = 0
        counts[:3] += 10 * np.eye(n_classes)
        naive.update(counts)
        model = model.conditioned((counts.transpose(0, 2, 1),))
        np.testing.assert_allclose(model.member_ag, naive.R, rtol=1e-9)
        np.testing.assert_allclose(model.share_g, naive.tau, rtol=1e-10)
        np.testing.assert_allclose(model.centre_glk.transpose(0, 2, 1), naive.M, rtol=1e-9)
        np.testing.assert_allclose(model.log_table().transpose(0, 2, 1), naive.log_pi(), rtol=1e-9, atol=1e-11)


def test_matrices_are_means_over_communities() -> None:
    rng = np.random.default_rng(0)
    counts = rng.gamma(0.7, 4, (5, 3, 3))
    model = start(5, 3).conditioned((counts,)).conditioned((counts,))
    expected = np.zeros((5, 3, 3))
    for a in range(5):
        for g in range(2):
            beta = (counts[a] + model.centre_glk[g]).T
            expected[a] += model.member_ag[a, g] * beta / beta.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.confusion(), expected)
    np.testing.assert_allclose(model.confusion().sum(axis=2), 1)
    assert model.concentration().shape == (5, 3, 3)
    assert (model.concentration() > 0).all()
    assert model.penalty() == 0


def test_a_better_and_a_worse_half_are_found() -> None:
    tables = np.concatenate([diagonal_crowd(6, 3, 0.95), diagonal_crowd(6, 3, 0.4)])
    votes, truth = crowd(0, 200, tables)
    model, q = start(12, 3), np.eye(3)[truth]
    for _ in range(20):
        model = model.update(votes, q)
    good = model.member_ag[:, 1]
    assert (good[:6] > 0.9).all()
    assert (good[6:] < 0.1).all()
    np.testing.assert_allclose(model.share_g, [7 / 14, 7 / 14], atol=0.01)


def test_history_counts_like_votes() -> None:
    rng = np.random.default_rng(1)
    earlier, counts = rng.uniform(0, 3, (5, 3, 3)), rng.uniform(0, 3, (5, 3, 3))
    told, counted = Tiers.start(earlier, 5), start(5, 3)
    for _ in range(3):
        told, counted = told.conditioned((counts,)), counted.conditioned((counts + earlier,))
    np.testing.assert_allclose(told.log_table(), counted.log_table(), rtol=1e-12)


def test_aligned_reorders_and_divides_strangers_by_the_shares() -> None:
    rng = np.random.default_rng(2)
    model = start(5, 3).conditioned((rng.uniform(0, 3, (5, 3, 3)),)).conditioned((rng.uniform(0, 3, (5, 3, 3)),))
    moved = model.aligned(np.array([4, -1, 2]), np.array([0]))
    np.testing.assert_array_equal(moved.log_table()[[0, 2]], model.log_table()[[4, 2]])
    alpha = model.centre_glk
    expected = np.einsum("g,glk->lk", model.share_g, digamma(alpha) - digamma(alpha.sum(axis=1, keepdims=True)))
    np.testing.assert_allclose(moved.log_table()[1], expected)


def test_votes_are_counted_and_weighed() -> None:
    rng = np.random.default_rng(3)
    votes = random_votes(rng, 6, 4, 3, 30, weight=rng.choice([0.0, 1.0, 2.5], 30))
    q = rng.dirichlet(np.ones(3), 6)
    counts = np.zeros((4, 3, 3))
    assert votes.weight is not None
    for e in range(30):
        counts[votes.annotator[e], votes.label[e]] += votes.weight[e] * q[votes.item[e]]
    np.testing.assert_allclose(start(4, 3).statistics(votes, q)[0], counts)
    index = np.array([2, 11])
    model = start(4, 3).update(votes, q)
    expected = votes.weight[index, None] * model.log_table()[votes.annotator[index], votes.label[index]]
    np.testing.assert_allclose(model.log_lik(votes, index), expected)


@pytest.mark.parametrize(("n_annotators", "n_classes"), [(1, 2), (3, 1), (0, 2)])
def test_the_smallest_crowds(n_annotators: int, n_classes: int) -> None:
    model = start(n_annotators, n_classes)
    for _ in range(3):
        model = model.conditioned((np.ones((n_annotators, n_classes, n_classes)),))
        assert np.isfinite(model.log_table()).all()
        assert np.isfinite(model.confusion()).all()
