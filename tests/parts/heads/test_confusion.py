"""The confusion head: its likelihoods against loops and enumeration of labels, its gradients, its orientation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.gradient.helpers import batch_of, random_logits, some_votes
from tests.strategies import small_votes

from crowdwise.data.annotations import Annotations
from crowdwise.parts.heads.confusion import ConfusionHead, identity_confusion


def start_of(seed: int, n_annotators: int, n_classes: int) -> torch.Tensor:
    rows = np.random.default_rng(seed).dirichlet(2 * np.ones(n_classes), (n_annotators, n_classes))
    return torch.tensor(np.maximum(rows, 0.01) / np.maximum(rows, 0.01).sum(-1, keepdims=True))


def log_likelihood_by_enumeration(f: Any, confusion: Any, votes: Annotations) -> float:
    """log of the sum over every joint labelling of all items of p(labels) p(votes | labels)."""
    total = 0.0
    for labels in itertools.product(range(votes.n_classes), repeat=votes.n_items):
        joint = math.prod(f[n, k] for n, k in enumerate(labels))
        for e in range(votes.n_votes):
            joint *= confusion[votes.annotator[e], labels[votes.item[e]], votes.label[e]]
        total += joint
    return math.log(total)


def test_the_loss_by_votes_is_the_mean_of_the_votes_one_by_one() -> None:
    votes = some_votes()
    start, logits = start_of(1, 3, 3), random_logits(2, 5, 3)
    f = logits.softmax(1).numpy()
    weight = votes.weight
    assert weight is not None
    expected = 0.0
    for e in range(votes.n_votes):
        p = sum(f[votes.item[e], k] * start[votes.annotator[e], k, votes.label[e]].item() for k in range(3))
        expected -= weight[e] * math.log(p)
    got = ConfusionHead(start).loss(logits, batch_of(votes))
    assert got.item() == pytest.approx(expected / weight.sum(), rel=1e-12)


def test_the_loss_by_items_is_that_of_enumerating_all_labels() -> None:
    votes = some_votes(n_items=4, weighted=False)
    start, logits = start_of(3, 3, 3), random_logits(4, 4, 3)
    expected = -log_likelihood_by_enumeration(logits.softmax(1).numpy(), start.numpy(), votes) / votes.n_votes
    got = ConfusionHead(start, likelihood="items").loss(logits, batch_of(votes))
    assert got.item() == pytest.approx(expected, rel=1e-12)


@given(votes=small_votes(max_items=4, min_classes=2), seed=st.integers(0, 2**20))
def test_both_likelihoods_agree_where_every_item_has_one_vote(votes: Annotations, seed: int) -> None:
    alone = votes.take_votes(np.r_[True, votes.item[1:] != votes.item[:-1]] if votes.n_votes else np.zeros(0, bool))
    start, logits = start_of(seed, votes.n_annotators, votes.n_classes), random_logits(seed, votes.n_items, votes.n_classes)
    by_votes, by_items = (ConfusionHead(start, likelihood=kind).loss(logits, batch_of(alone)) for kind in ("votes", "items"))
    assert by_votes.item() == pytest.approx(by_items.item(), abs=1e-10)


@pytest.mark.parametrize("likelihood", ["votes", "items"])
def test_a_vote_of_weight_two_counts_as_two_votes(likelihood: str) -> None:
    votes = some_votes(weighted=False)
    doubled = np.where(np.arange(votes.n_votes) % 3 == 0, 2, 1)
    repeated = Annotations.from_arrays(
        *(np.repeat(column, doubled) for column in (votes.item, votes.annotator, votes.label)),
        items=range(5), annotators=range(3), classes=range(3),
    )  # fmt: skip
    weighted = Annotations.from_arrays(
        votes.item, votes.annotator, votes.label, doubled.astype(float), items=range(5), annotators=range(3), classes=range(3)
    )
    head, logits = ConfusionHead(start_of(0, 3, 3), likelihood=likelihood), random_logits(0, 5, 3)
    one, two = (head.loss(logits, batch_of(v)).item() for v in (repeated, weighted))
    assert one == pytest.approx(two, rel=1e-12)


@pytest.mark.parametrize("likelihood", ["votes", "items"])
def test_an_item_of_weight_two_counts_as_two_items_with_its_votes(likelihood: str) -> None:
    """Item weights (class weights) multiply the log-likelihood of an item; they do not sharpen its labels."""
    votes = some_votes(weighted=False)
    twice = votes[np.array([0, 1, 1, 2, 3, 4, 4])]
    start, logits = start_of(0, 3, 3), random_logits(0, 5, 3)
    head = ConfusionHead(start, likelihood=likelihood)
    weighted = head.loss(logits, batch_of(votes, item_weight=np.array([1.0, 2, 1, 1, 2]))).item()
    repeated = head.loss(logits[[0, 1, 1, 2, 3, 4, 4]], batch_of(twice)).item()
    assert weighted == pytest.approx(repeated, rel=1e-12)


@pytest.mark.parametrize("likelihood", ["votes", "items"])
@pytest.mark.parametrize("item_weight", [None, 3.0, 0.0])
def test_an_item_without_votes_pulls_the_network_nowhere(likelihood: str, item_weight: float | None) -> None:
    votes = some_votes()
    logits = random_logits(0, 5, 3).requires_grad_()
    weight = None if item_weight is None else np.array([1, 1, 1, 1, item_weight])
    ConfusionHead(start_of(0, 3, 3), likelihood=likelihood).loss(logits, batch_of(votes, item_weight=weight)).backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad[4], 0, atol=1e-15)
    assert (logits.grad[:4].abs().sum(1) > 1e-6).all()


@pytest.mark.parametrize("likelihood", ["votes", "items"])
def test_a_batch_without_any_vote_has_a_finite_loss_and_no_gradient(likelihood: str) -> None:
    votes = some_votes()
    logits = random_logits(0, 1, 3).requires_grad_()
    head = ConfusionHead(start_of(0, 3, 3), likelihood=likelihood)
    loss = head.loss(logits, batch_of(votes, order=[4]))
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert logits.grad is not None
    assert head.logits.grad is not None
    assert logits.grad.abs().max() < 1e-12
    assert head.logits.grad.abs().max() < 1e-12


@pytest.mark.parametrize("likelihood", ["votes", "items"])
def test_gradients_by_logits_and_by_matrices_are_those_of_finite_differences(likelihood: str) -> None:
    votes = some_votes()
    head = ConfusionHead(start_of(5, 3, 3), likelihood=likelihood)
    batch = batch_of(votes, item_weight=np.array([1.0, 0.5, 2, 1, 1]))

    def loss(logits: torch.Tensor, own: torch.Tensor) -> Any:
        return torch.func.functional_call(_Loss(head), {"head.logits": own}, (logits, batch))

    arguments = (random_logits(6, 5, 3).requires_grad_(), head.logits.detach().clone().requires_grad_())
    assert torch.autograd.gradcheck(loss, arguments)


class _Loss(torch.nn.Module):
    """`functional_call` reaches `forward` only."""

    def __init__(self, head: ConfusionHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, logits: torch.Tensor, batch: Any) -> torch.Tensor:
        return self.head.loss(logits, batch)


def test_an_annotator_who_calls_class_0_a_1_is_learned_untransposed() -> None:
    """Items are known to the network; the annotator answers 0 -> 1 always, 1 -> 1 always, 2 -> 2 or 0 evenly."""
    truth = np.repeat([0, 1, 2], 40)
    answers = np.r_[np.full(40, 1), np.full(40, 1), np.tile([2, 0], 20)]
    votes = Annotations.from_arrays(np.arange(120), ["a"] * 120, answers, classes=[0, 1, 2], items=range(120))
    logits = torch.full((120, 3), -20.0, dtype=torch.float64)
    logits[torch.arange(120), torch.tensor(truth)] = 20.0
    head = ConfusionHead(torch.full((1, 3, 3), 1 / 3, dtype=torch.float64))
    optimiser = torch.optim.Adam(head.parameters(), lr=0.1)
    batch = batch_of(votes)
    for _ in range(400):
        optimiser.zero_grad()
        head.loss(logits, batch).backward()
        optimiser.step()
    expected = [[0, 1, 0], [0, 1, 0], [0.5, 0, 0.5]]
    np.testing.assert_allclose(head.confusion().detach().numpy()[0], expected, atol=0.02)


@given(seed=st.integers(0, 2**20), scale=st.floats(0, 300))
def test_rows_are_probabilities_whatever_the_parameters(seed: int, scale: float) -> None:
    head = ConfusionHead(torch.full((3, 4, 4), 0.25))
    with torch.no_grad():
        head.logits.copy_(scale * torch.randn(head.logits.shape, generator=torch.Generator().manual_seed(seed)))
        confusion = head.confusion().numpy()
    assert (confusion >= 0).all()
    np.testing.assert_allclose(confusion.sum(axis=2), 1, atol=1e-6)


def test_the_start_is_kept_apart_from_a_floor() -> None:
    """Zeros become 1e-4 before renormalising, so that their logits are finite."""
    start = torch.tensor([[[1.0, 0.0], [0.3, 0.7]]], dtype=torch.float64)
    got = ConfusionHead(start).confusion()[0].detach().numpy()
    np.testing.assert_allclose(got, [[1 / 1.0001, 1e-4 / 1.0001], [0.3, 0.7]], rtol=1e-12)


def test_the_identity_start_is_the_papers() -> None:
    """Logits 1 on and -5 off the diagonal: e / (e + 9 exp(-5)) = 0.978 at ten classes."""
    start = identity_confusion(2, 10, torch.float64)
    assert start.shape == (2, 10, 10)
    np.testing.assert_allclose(start.diagonal(dim1=1, dim2=2), math.e / (math.e + 9 * math.exp(-5)), rtol=1e-12)
    np.testing.assert_allclose(start.sum(2), 1, rtol=1e-12)


def test_evidence_is_the_log_of_the_column_that_a_vote_names() -> None:
    votes = some_votes()
    start = start_of(7, 3, 3)
    rows = ConfusionHead(start).evidence(batch_of(votes))
    expected = [[math.log(start[a, k, l].item()) for k in range(3)] for a, l in zip(votes.annotator, votes.label, strict=True)]
    np.testing.assert_allclose(rows.detach().numpy(), expected, rtol=1e-10)
