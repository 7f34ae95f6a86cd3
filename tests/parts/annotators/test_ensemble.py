"""Several models that answer together: the mean of tilted posteriors, by enumeration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.methods.labels.helpers import random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.parts.annotators.ensemble import Ensemble


@dataclass(frozen=True)
class Fixed:
    """A member that is nothing but its table, [A, L, K]."""

    table: np.ndarray

    def log_table(self) -> np.ndarray:
        return np.log(self.table)

    def aligned(self, index: np.ndarray, item_index: np.ndarray) -> Fixed:
        return Fixed(self.table[index])

    def confusion(self) -> np.ndarray:
        return self.table.transpose(0, 2, 1)

    def concentration(self) -> np.ndarray:
        return 5 * self.table.transpose(0, 2, 1)


def made(seed: int = 0, n_classes: int = 3, n_members: int = 3, weighted: bool = False) -> tuple[Ensemble, Annotations]:
    rng = np.random.default_rng(seed)
    members = tuple(Fixed(rng.dirichlet(np.ones(n_classes), (4, n_classes)).transpose(0, 2, 1)) for _ in range(n_members))
    shares = rng.dirichlet(np.ones(n_classes), n_members)
    kinds = rng.dirichlet(np.ones(4), n_members)
    weight = rng.choice([0.0, 1.0, 2.0], 30) if weighted else None
    votes = random_votes(rng, 7, 4, n_classes, 30, weight=weight)
    return Ensemble(members, np.log(shares), np.log(shares.mean(axis=0)), kinds, 1), votes


def joint_of(ensemble: Ensemble, votes: Annotations, m: int, n: int, prior: np.ndarray) -> np.ndarray:
    """P(f, k, votes on n) of one member, [F, K]."""
    table, found = ensemble.members[m].table, np.zeros((4, votes.n_classes))
    for i, f in enumerate((0, 1 / 3, 1, 3)):
        for k in range(votes.n_classes):
            found[i, k] = ensemble.share_mf[m, i] * prior[k]
            for e in np.flatnonzero(votes.item == n):
                tilted = table[votes.annotator[e], :, k] ** f
                found[i, k] *= (tilted[votes.label[e]] / tilted.sum()) ** (1 if votes.weight is None else votes.weight[e])
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_posterior_is_the_mean_of_the_members(weighted: bool, n_classes: int) -> None:
    ensemble, votes = made(n_classes, n_classes, weighted=weighted)
    posterior = np.zeros((7, n_classes))
    evidence, change = ensemble.infer(votes, ensemble.log_share_k[None], np.empty(0, np.int16), posterior)
    logs = 0.0
    for n in range(7):
        expected = np.zeros(n_classes)
        for m in range(3):
            joint = joint_of(ensemble, votes, m, n, np.exp(ensemble.log_share_mk[m]))
            expected += joint.sum(axis=0) / joint.sum() / 3
            logs += np.log(joint.sum()) / 3
        np.testing.assert_allclose(posterior[n], expected, rtol=1e-10)
    assert evidence == pytest.approx(logs)
    # Half of what changed, over all items: there was none before.
    assert change == pytest.approx(7 / 2)


def test_another_prior_is_taken_by_every_member_with_what_it_thinks_otherwise() -> None:
    ensemble, votes = made(2)
    given = np.array([0.6, 0.3, 0.1])
    posterior = np.zeros((7, 3))
    ensemble.infer(votes, np.log(given)[None], np.empty(0, np.int16), posterior)
    reported = np.exp(ensemble.log_share_k)
    for n in range(7):
        expected = np.zeros(3)
        for m in range(3):
            joint = joint_of(ensemble, votes, m, n, given * np.exp(ensemble.log_share_mk[m]) / reported)
            expected += joint.sum(axis=0) / joint.sum() / 3
        np.testing.assert_allclose(posterior[n], expected, rtol=1e-10)


def test_known_labels_stay() -> None:
    ensemble, votes = made(3)
    known, posterior = np.array([2, -1, 0, -1, -1, -1, 1]), np.zeros((7, 3))
    free = np.zeros((7, 3))
    ensemble.infer(votes, ensemble.log_share_k[None], known, posterior)
    ensemble.infer(votes, ensemble.log_share_k[None], np.empty(0, np.int16), free)
    np.testing.assert_array_equal(posterior[[0, 2, 6]], np.eye(3)[[2, 0, 1]])
    np.testing.assert_allclose(posterior[[1, 3, 4, 5]], free[[1, 3, 4, 5]])


def test_discriminations_are_the_mean_of_what_members_think() -> None:
    ensemble, votes = made(4)
    found = ensemble.discrimination(votes)
    for n in range(7):
        expected = np.zeros(4)
        for m in range(3):
            joint = joint_of(ensemble, votes, m, n, np.exp(ensemble.log_share_mk[m]))
            expected += joint.sum(axis=1) / joint.sum() / 3
        np.testing.assert_allclose(found[n], expected, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_a_vote_says_is_its_mean_over_members_and_discriminations(weighted: bool) -> None:
    ensemble, votes = made(5, weighted=weighted)
    index = np.array([0, 3, 17, 29])
    rows = ensemble.log_lik(votes, index)
    for row, e in zip(rows, index, strict=True):
        expected = np.zeros(3)
        for m in range(3):
            joint = joint_of(ensemble, votes, m, int(votes.item[e]), np.exp(ensemble.log_share_mk[m]))
            for chance, f in zip(joint.sum(axis=1) / joint.sum(), (0, 1 / 3, 1, 3), strict=True):
                tilted = ensemble.members[m].table[votes.annotator[e]] ** f
                expected += chance * np.log(tilted[votes.label[e]] / tilted.sum(axis=0)) / 3
        np.testing.assert_allclose(row, expected * (1 if votes.weight is None else votes.weight[e]), rtol=1e-9, atol=1e-12)


def test_one_member_on_ordinary_items_is_that_member() -> None:
    ensemble, votes = made(6, n_members=1)
    ordinary = Ensemble(ensemble.members, ensemble.log_share_mk, ensemble.log_share_k, np.array([[0.0, 0, 1, 0]]), 0)
    posterior = np.zeros((7, 3))
    with np.errstate(all="raise"):
        ordinary.infer(votes, ordinary.log_share_k[None], np.empty(0, np.int16), posterior)
    for n in range(7):
        score = np.exp(ordinary.log_share_k)
        for e in np.flatnonzero(votes.item == n):
            score = score * ordinary.members[0].table[votes.annotator[e], votes.label[e]]
        np.testing.assert_allclose(posterior[n], score / score.sum(), rtol=1e-10)


def test_annotators_are_described_by_one_member_and_reordered_in_all() -> None:
    ensemble, _ = made(7)
    np.testing.assert_array_equal(ensemble.confusion(), ensemble.members[1].confusion())
    np.testing.assert_array_equal(ensemble.concentration(), ensemble.members[1].concentration())
    moved = ensemble.aligned(np.array([2, 0]), np.arange(7))
    for before, after in zip(ensemble.members, moved.members, strict=True):
        np.testing.assert_array_equal(after.table, before.table[[2, 0]])
    assert ensemble.penalty() == 0


def test_members_read_from_a_file_must_be_annotator_models() -> None:
    ensemble, votes = made()
    assert ensemble.fits(votes)
    assert not replace(ensemble, members=(7, *ensemble.members[1:])).fits(votes)
    assert not replace(ensemble, spokesman=3).fits(votes)
