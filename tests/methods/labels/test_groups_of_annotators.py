"""CommunityBCC and worker clustering: bounds by enumeration of labels and memberships, recovery, real votes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import digamma, gammaln, logsumexp
from tests.methods.labels.helpers import crowd, quiet
from tests.methods.labels.real import accuracy_on
from tests.methods.labels.test_oracle import (
    SITUATIONS,
    dirichlet_terms,
    enumerate_labelings,
    fitted,
    history_counts,
    label_entropy,
)

from crowdwise.data.simulate import simulate
from crowdwise.engines import loop
from crowdwise.kernels.clustering import soft_clusters
from crowdwise.methods.labels.community_bcc import CommunityBCC
from crowdwise.methods.labels.worker_cluster import WorkerCluster
from crowdwise.parts.annotators.communities import CommunityConfusion


def labelings(votes: Any) -> list[tuple[int, ...]]:
    gold = np.full(votes.n_items, -1) if votes.gold is None else votes.gold
    return list(itertools.product(*(range(votes.n_classes) if g < 0 else [int(g)] for g in gold)))


def counts_under(votes: Any, z: tuple[int, ...]) -> np.ndarray:
    """Counts [annotator, true, observed] if the labels are z."""
    counts = np.zeros((3, votes.n_classes, votes.n_classes))
    for e in range(votes.n_votes):
        counts[votes.annotator[e], z[votes.item[e]], votes.label[e]] += 1 if votes.weight is None else votes.weight[e]
    return counts


def membership_terms(rho: np.ndarray, shares: np.ndarray) -> float:
    """E_q[log p] - E_q[log q] of the memberships."""
    used = rho > 1e-200
    return float((rho[used] * (np.log(np.broadcast_to(shares, rho.shape)[used]) - np.log(rho[used]))).sum())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_cluster_bound(situation: str, n_classes: int) -> None:
    model = fitted("worker-cluster", situation, n_classes, clusters=2, smoothing=0.3)
    votes, part, q = model.result_.votes, model.result_.annotators, model.result_.model_posterior
    log_pi, log_d = np.log(part.pi_jlk.transpose(0, 2, 1)), np.log(np.maximum(model.prior_, 1e-300))
    marginals, _ = enumerate_labelings(
        votes, log_d, lambda e, k: float(part.rho_aj[votes.annotator[e]] @ log_pi[:, k, votes.label[e]])
    )
    np.testing.assert_allclose(q, marginals, atol=1e-10)
    history, rest = history_counts(model), 0.3 * log_pi.sum()
    counts = history.copy()
    for e in range(votes.n_votes):
        counts[votes.annotator[e], :, votes.label[e]] += q[votes.item[e]] * (1 if votes.weight is None else votes.weight[e])
    expected = np.einsum("aj,akl,jkl->", part.rho_aj, counts, log_pi) + (q * log_d).sum() + label_entropy(q)
    assert model.trace_[-1] == pytest.approx(expected + membership_terms(part.rho_aj, part.tau_j) + rest, rel=1e-9)
    # A lower bound of log p(votes), labels and memberships summed out.
    joint = [
        sum(log_d[k] for k in z)
        + sum(np.log(part.tau_j[j]) + ((counts_under(votes, z) + history)[a] * log_pi[j]).sum() for a, j in enumerate(who))
        for z in labelings(votes)
        for who in itertools.product(range(2), repeat=3)
    ]
    assert model.trace_[-1] <= logsumexp(joint) + rest + 1e-9


def log_dm(counts_kl: np.ndarray, eta_kl: np.ndarray) -> float:
    """log of the Dirichlet-multinomial probability of a sequence of answers with these counts."""
    total = counts_kl.sum(axis=1)
    value = (gammaln(counts_kl + eta_kl) - gammaln(eta_kl)).sum()
    return float(value - (gammaln(total + eta_kl.sum(axis=1)) - gammaln(eta_kl.sum(axis=1))).sum())


@pytest.mark.slow
@pytest.mark.parametrize("alike", [0.5, 5.0, 200.0])
def test_the_parameters_of_a_community_are_soon_at_the_top_and_never_fall(alike: float) -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.dirichlet(alike * row, 60) for row in (np.eye(3) + 0.2) / 1.6], axis=1)
    counts = rng.poisson(40 * rows).astype(float)
    eta0 = np.where(np.eye(3, dtype=bool), 4.0, 0.5)

    def value(eta_kl: np.ndarray) -> float:
        return sum(log_dm(own, eta_kl) for own in counts) + float((eta0 * np.log(eta_kl) - eta_kl).sum())

    best = minimize(lambda x: -value(np.exp(x).reshape(3, 3)), np.log(eta0).ravel(), options={"gtol": 1e-6})
    model = CommunityConfusion.start(np.zeros((60, 3, 3)), eta0, 1, 1.0)
    values = []
    for _ in range(25):
        model = model.conditioned((counts.transpose(0, 2, 1),))
        values.append(value(model.eta_mlk[0].T))
    assert (np.diff(values) >= -1e-9 * abs(values[0])).all()
    assert values[-1] == pytest.approx(-best.fun, abs=1e-4)


def test_communities_are_the_same_where_items_stand_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = simulate(n_items=900, n_annotators=20, n_classes=3, votes_per_item=5, random_state=0).votes
    gold = {item: votes.classes[n % 3] for n, item in enumerate(votes.items[:10].tolist())}
    found = []
    for size in (0, 10**9):
        monkeypatch.setattr(loop, "FOCUS_FROM", size)
        found.append(CommunityBCC(communities=2, tol=1e-9, max_iter=5000).fit(votes, gold=gold))
    aside, plain = found
    assert aside.converged_
    assert plain.converged_
    assert (np.diff(aside.trace_) >= -1e-9 * abs(aside.trace_[0])).all()
    assert aside.trace_[-1] == pytest.approx(plain.trace_[-1], abs=1e-5)
    np.testing.assert_allclose(aside.posterior_, plain.posterior_, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_community_bound(situation: str, n_classes: int) -> None:
    model = fitted("cbcc", situation, n_classes, communities=2, trust=0.7)
    votes, part, q = model.result_.votes, model.result_.annotators, model.result_.model_posterior
    eta, counts = part.eta_mlk.transpose(0, 2, 1), part.counts_alk.transpose(0, 2, 1)
    log_d = np.log(np.maximum(model.prior_, 1e-300))
    log_r = np.zeros((3, n_classes, n_classes))
    for a, m in itertools.product(range(3), range(2)):
        beta = counts[a] + eta[m]
        log_r[a] += part.rho_am[a, m] * (digamma(beta) - digamma(beta.sum(axis=1, keepdims=True)))
    marginals, _ = enumerate_labelings(votes, log_d, lambda e, k: log_r[votes.annotator[e], k, votes.label[e]])
    np.testing.assert_allclose(q, marginals, atol=1e-10)
    history = history_counts(model)
    eta0 = np.where(np.eye(n_classes, dtype=bool), 4.0, 1.0 / (n_classes - 1))
    rest = 0.7 * float((eta0 * np.log(eta) - eta).sum())
    data = history.copy()
    for e in range(votes.n_votes):
        data[votes.annotator[e], :, votes.label[e]] += q[votes.item[e]] * (1 if votes.weight is None else votes.weight[e])
    expected = float((data * log_r).sum() + (q * log_d).sum()) + label_entropy(q) + membership_terms(part.rho_am, part.h_m)
    for a, m, k in itertools.product(range(3), range(2), range(n_classes)):
        expected += part.rho_am[a, m] * dirichlet_terms(counts[a, k] + eta[m, k], eta[m, k])
    assert model.trace_[-1] == pytest.approx(expected + rest, rel=1e-9)
    # A lower bound of log p(votes), with labels, memberships and confusion rows summed out.
    joint = []
    for z in labelings(votes):
        own = counts_under(votes, z) + history
        by_annotator = [logsumexp([np.log(part.h_m[m]) + log_dm(own[a], eta[m]) for m in range(2)]) for a in range(3)]
        joint.append(sum(log_d[k] for k in z) + sum(by_annotator))
    assert model.trace_[-1] <= logsumexp(joint) + rest + 1e-9


def two_kinds(seed: int, votes_per_item: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Sixty annotators: two thirds careful, one third answering class 0 too often."""
    careful = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]])
    biased = np.array([[0.9, 0.05, 0.05], [0.6, 0.35, 0.05], [0.6, 0.05, 0.35]])
    confusion = np.concatenate([np.repeat(careful[None], 40, axis=0), np.repeat(biased[None], 20, axis=0)])
    votes, truth = crowd(seed, 400, confusion, votes_per_item=votes_per_item)
    return votes, truth, confusion


@pytest.mark.parametrize("method", [CommunityBCC(communities=2), WorkerCluster(clusters=2)], ids=["cbcc", "worker-cluster"])
def test_groups_and_their_confusion_are_recovered(method: Any) -> None:
    votes, truth, confusion = two_kinds(0, 6)
    with quiet():
        model = method.fit(votes)
    members = getattr(model.result_.annotators, "rho_am", None)
    members = model.result_.annotators.rho_aj if members is None else members
    group = members.argmax(axis=1)
    biased = np.bincount(group[40:], minlength=2).argmax()
    assert ((group == biased) == (np.arange(60) >= 40)).mean() > 0.9
    assert np.abs(model.confusion_ - confusion).mean() < 0.05
    assert (model.labels_ == truth).mean() > 0.93


def test_evidence_finds_two_clusters() -> None:
    votes, _, _ = two_kinds(1, 8)
    with quiet():
        model = WorkerCluster(clusters="evidence").fit(votes)
    assert len(model.result_.annotators.tau_j) == 2


def test_k_means_puts_equals_together() -> None:
    counts = np.zeros((6, 2, 2))
    counts[:3] = [[20, 1], [1, 20]]
    counts[3:] = [[1, 20], [20, 1]]
    members = soft_clusters(counts, 2)
    np.testing.assert_allclose(members.sum(axis=1), 1)
    assert members.argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cbcc", "worker-cluster"])
@pytest.mark.parametrize("dataset", ["bluebird", "rte"])
def test_better_than_the_majority(shared_data: Path, method: str, dataset: str) -> None:
    assert accuracy_on(shared_data, dataset, method) > accuracy_on(shared_data, dataset, "majority") + 0.01
