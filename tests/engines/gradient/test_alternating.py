"""EM around a network: the E-step and the M-step against loops, and what is kept between epochs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import batch_of, random_logits, some_votes

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.alternating import AlternatingHead
from crowdwise.parts.annotators.model import Confusion
from crowdwise.parts.heads.targets import soft_cross_entropy

# Pseudo-votes per entry of every matrix.
PSEUDO = 0.25


def head_on(votes: Annotations, posterior: torch.Tensor) -> AlternatingHead:
    prior = np.full((1, votes.n_classes, votes.n_classes), PSEUDO)
    return AlternatingHead(votes, Confusion.start(prior, votes.n_annotators), posterior)


def m_step(votes: Annotations, posterior: np.ndarray) -> np.ndarray:
    """R[a, k, l] proportional to pseudo-votes plus the weight of a's votes l on items that are k."""
    counts = np.full((votes.n_annotators, votes.n_classes, votes.n_classes), PSEUDO)
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    for e in range(votes.n_votes):
        for k in range(votes.n_classes):
            counts[votes.annotator[e], k, votes.label[e]] += weight[e] * posterior[votes.item[e], k]
    return counts / counts.sum(axis=2, keepdims=True)


def e_step(votes: Annotations, f: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    posterior = f.copy()
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    for e in range(votes.n_votes):
        for k in range(votes.n_classes):
            posterior[votes.item[e], k] *= confusion[votes.annotator[e], k, votes.label[e]] ** weight[e]
    return posterior / posterior.sum(axis=1, keepdims=True)


def test_an_epoch_begins_with_labels_under_the_new_network_then_matrices_then_labels() -> None:
    votes = some_votes()
    first, log_f = random_logits(0, 5, 3).softmax(1), random_logits(1, 5, 3).log_softmax(1)
    f = log_f.exp().numpy()
    head = head_on(votes, first)
    confusion = m_step(votes, first.numpy())
    for epoch in range(2):
        head.begin_epoch(epoch, lambda: log_f)
        confusion = m_step(votes, e_step(votes, f, confusion))
        np.testing.assert_allclose(head.confusion(), confusion, rtol=1e-10)
        np.testing.assert_allclose(head.target, e_step(votes, f, confusion), rtol=1e-10)


def test_the_posterior_given_is_not_overwritten() -> None:
    first = random_logits(0, 5, 3).softmax(1)
    kept = first.clone()
    head_on(some_votes(), first).begin_epoch(0, lambda: random_logits(1, 5, 3).log_softmax(1))
    np.testing.assert_array_equal(first, kept)


def test_gold_labels_stay_certain() -> None:
    votes = some_votes().with_gold([2, None, None, None, 1])
    head = head_on(votes, random_logits(0, 5, 3).softmax(1))
    head.begin_epoch(0, lambda: random_logits(1, 5, 3).log_softmax(1))
    np.testing.assert_array_equal(head.target[[0, 4]], [[0, 0, 1], [0, 1, 0]])


def test_an_item_without_votes_is_labelled_by_the_network_alone() -> None:
    log_f = random_logits(1, 5, 3).log_softmax(1)
    head = head_on(some_votes(), random_logits(0, 5, 3).softmax(1))
    head.begin_epoch(0, lambda: log_f)
    np.testing.assert_allclose(head.target[4], log_f.exp()[4], rtol=1e-12)


def test_the_loss_is_cross_entropy_with_the_labels_of_the_batch_and_trains_the_network_only() -> None:
    votes, logits = some_votes(), random_logits(2, 2, 3)
    head = head_on(votes, random_logits(0, 5, 3).softmax(1))
    head.begin_epoch(0, lambda: random_logits(1, 5, 3).log_softmax(1))
    got = head.loss(logits, batch_of(votes, order=[3, 1])).item()
    assert got == pytest.approx(soft_cross_entropy(logits, head.target[[3, 1]], torch.ones(2, dtype=torch.float64)).item())
    assert list(head.parameters()) == []


def test_labels_and_matrices_travel_with_the_state_of_the_head() -> None:
    """A checkpoint and the best weights of early stopping are state dicts."""
    votes = some_votes()
    head = head_on(votes, random_logits(0, 5, 3).softmax(1))
    head.begin_epoch(0, lambda: random_logits(1, 5, 3).log_softmax(1))
    other = head_on(votes, torch.full((5, 3), 1 / 3, dtype=torch.float64))
    other.load_state_dict(head.state_dict())
    for one in (head, other):
        one.begin_epoch(1, lambda: random_logits(2, 5, 3).log_softmax(1))
    np.testing.assert_array_equal(head.target, other.target)
    np.testing.assert_array_equal(head.confusion(), other.confusion())


def test_before_its_first_epoch_the_matrices_are_those_of_the_labels_it_starts_from() -> None:
    """A fit of nothing but warm-up epochs must not report annotators who guess."""
    votes, first = some_votes(), random_logits(0, 5, 3).softmax(1)
    np.testing.assert_allclose(head_on(votes, first).confusion(), m_step(votes, first.numpy()), rtol=1e-10)


def test_an_annotator_who_calls_class_0_a_1_is_learned_untransposed() -> None:
    truth = np.repeat([0, 1, 2], 40)
    answers = np.repeat([1, 1, 2], 40)
    votes = Annotations.from_arrays(np.arange(120), ["a"] * 120, answers, classes=[0, 1, 2], items=range(120))
    known = torch.eye(3, dtype=torch.float64)[torch.tensor(truth)]
    head = head_on(votes, known)
    head.begin_epoch(0, lambda: known.clamp(min=1e-12).log())
    # 40 votes and a quarter of a pseudo-vote per entry.
    expected = np.array([[0.25, 40.25, 0.25], [0.25, 40.25, 0.25], [0.25, 0.25, 40.25]]) / 40.75
    np.testing.assert_allclose(head.confusion()[0], expected, rtol=1e-9)


def test_votes_are_judged_through_the_matrices() -> None:
    votes, logits = some_votes(), random_logits(3, 5, 3)
    head = head_on(votes, random_logits(0, 5, 3).softmax(1))
    head.begin_epoch(0, lambda: random_logits(1, 5, 3).log_softmax(1))
    f, confusion = logits.softmax(1), head.confusion()
    expected = [
        math.log(sum((f[n, k] * confusion[a, k, l]).item() for k in range(3)))
        for n, a, l in zip(votes.item, votes.annotator, votes.label, strict=True)
    ]
    np.testing.assert_allclose(head.vote_log_prob(logits, batch_of(votes)), expected, rtol=1e-10)
