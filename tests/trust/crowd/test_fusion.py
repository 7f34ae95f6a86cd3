from __future__ import annotations

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.trust.crowd import fusion

LABELS = [[0, 0, 1], [1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0], [1, 1, 0]]


def test_a_message_is_the_likelihood_of_the_hidden_answer() -> None:
    votes = Annotations.from_matrix([[0, 0, 1], [1, None, 1], [0, 1, 0]])
    lam = np.array([0.6, 0.8, np.nan])
    said = fusion.messages(votes, np.array([0, 0, -1]), lam)
    t = np.array([4, 4]) / 8
    by_hand = [
        [(0.6 + 0.4 * t[0]) * (0.8 + 0.2 * t[0]), 0.4 * t[0] * 0.2 * t[0]],
        [0.4 * t[1], 0.6 + 0.4 * t[1]],
        [(0.6 + 0.4 * t[0]) * 0.2 * t[1], 0.4 * t[0] * (0.8 + 0.2 * t[1])],
    ]
    np.testing.assert_array_equal(said.item, [0, 1, 2])
    np.testing.assert_allclose(np.exp(said.log_p), by_hand, rtol=1e-6)


def test_a_group_becomes_one_annotator_with_one_vote_per_item() -> None:
    votes = Annotations.from_matrix(LABELS, annotators=["x", "y", "z"])
    one = fusion.fused(votes, np.array([0, 0, -1]), ["family"])
    assert one.annotators.tolist() == ["z", "family"]
    mass = np.bincount(one.item[one.annotator == 1], one.weight[one.annotator == 1])
    np.testing.assert_allclose(mass, 1.0, atol=0.02)
    left = one.annotator == 0
    np.testing.assert_array_equal(one.label[left], [row[2] for row in LABELS])
    np.testing.assert_array_equal(one.weight[left], 1.0)


def test_names_that_are_taken_are_told_apart() -> None:
    votes = Annotations.from_matrix(LABELS, annotators=["x", "y", "group 1"])
    assert fusion.fused(votes, np.array([0, 0, -1])).annotators.tolist() == ["group 1", "group group 1"]


def test_numbers_become_text_beside_names() -> None:
    one = fusion.fused(Annotations.from_matrix(LABELS), np.array([0, 0, -1]), ["family"])
    assert one.annotators.tolist() == ["2", "family"]


def test_members_who_never_met_stay_as_they_are() -> None:
    votes = Annotations.from_matrix([[0, None, 1], [None, 1, 1], [0, None, 0], [None, 0, 1]])
    assert fusion.fused(votes, np.array([0, 0, -1])) is votes


def test_gold_weights_and_items_without_votes_are_kept() -> None:
    votes = Annotations.from_arrays(
        [0, 0, 0, 1, 1, 1], list("xyz") * 2, [0, 0, 1, 1, 1, 1], [2, 4, 1, 2, 4, 0.5], items=[0, 1, 2]
    ).with_gold({1: 1})
    one = fusion.fused(votes, np.array([0, 0, -1]))
    assert one.n_items == 3
    np.testing.assert_array_equal(one.gold, votes.gold)
    # The soft vote weighs as much as the mean member.
    group = one.annotator == 1
    np.testing.assert_allclose(np.bincount(one.item[group], one.weight[group]), [3, 3], atol=0.06)
    np.testing.assert_array_equal(one.weight[~group], [1, 0.5])


def test_copies_of_one_annotator_fused_give_the_labels_without_them() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    labels = np.where(rng.random((400, 5)) < 0.75, truth[:, None], 1 - truth[:, None])
    alone = make("dawid-skene").fit(Annotations.from_matrix(labels)).posterior_
    copied = Annotations.from_matrix(np.column_stack([labels] + [labels[:, 0]] * 4))
    fused = make("dawid-skene").fit(fusion.fused(copied, np.array([0, -1, -1, -1, -1, 0, 0, 0, 0]))).posterior_
    assert np.abs(fused - alone).max() < 0.02
    naive = make("dawid-skene").fit(copied).posterior_
    assert (naive.argmax(axis=1) == truth).mean() < (fused.argmax(axis=1) == truth).mean() - 0.05


@pytest.mark.parametrize("method", ["majority", "dawid-skene", "mace", "bayes-gc", "one-coin"])
def test_every_kind_of_method_takes_soft_votes(method: str) -> None:
    votes = fusion.fused(Annotations.from_matrix(LABELS * 5), np.array([0, 0, -1]))
    posterior = make(method).fit(votes).posterior_
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
