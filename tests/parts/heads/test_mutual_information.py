"""MaxMIG: the loss against its double sum and against an enumerated mutual information, gradients, the classifier."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, random_logits, small_crowd, some_votes, votes_on

from crowdwise.data.annotations import Annotations
from crowdwise.methods.classify.maxmig import MaxMIG
from crowdwise.parts.heads.mutual_information import MutualInformationHead


def head_of(seed: int = 0, n_annotators: int = 3, n_classes: int = 3) -> MutualInformationHead:
    rng = np.random.default_rng(seed)
    start = torch.tensor(rng.dirichlet(2 * np.ones(n_classes), (n_annotators, n_classes)))
    head = MutualInformationHead(start, torch.tensor(rng.dirichlet(3 * np.ones(n_classes))))
    head.bias.data += random_logits(seed, n_classes)
    return head


def double_sum(head: MutualInformationHead, logits: torch.Tensor, votes: Annotations, item_weight: Any = None) -> float:
    """The loss as the paper writes it, by loops over items, votes and all pairs i != j."""
    n_classes = votes.n_classes
    h, p = logits.softmax(1).numpy(), head.log_shares.exp().numpy()
    table, bias = head.weight.detach().numpy(), head.bias.detach().numpy()
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    mass = np.ones(votes.n_items) if item_weight is None else np.asarray(item_weight, float)
    g = {}
    for n in range(votes.n_items):
        own = [e for e in range(votes.n_votes) if votes.item[e] == n]
        if own:
            score = [
                bias[c] + sum(weight[e] * table[votes.annotator[e] * n_classes + votes.label[e], c] for e in own)
                for c in range(n_classes)
            ]
            g[n] = np.exp(score) / np.exp(score).sum()
    ratio = {(i, j): sum(h[i, c] * g[j][c] / p[c] for c in range(n_classes)) for i in g for j in g}
    own_pairs = sum(mass[i] * (1 + math.log(max(ratio[i, i], 1e-4))) for i in g) / sum(mass[i] for i in g)
    others = [(i, j) for i in g for j in g if i != j]
    if not others:
        return -own_pairs
    return sum(mass[i] * mass[j] * ratio[i, j] for i, j in others) / sum(mass[i] * mass[j] for i, j in others) - own_pairs


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("item_weight", [None, [1.0, 3.0, 0.5, 2.0, 1.0]])
def test_the_loss_is_the_double_sum_over_pairs(weighted: bool, item_weight: Any) -> None:
    votes, head, logits = some_votes(1, weighted=weighted), head_of(2), random_logits(3, 5, 3)
    got = head.loss(logits, batch_of(votes, item_weight=item_weight)).item()
    assert votes.votes_per_item[4] == 0
    assert got == pytest.approx(double_sum(head, logits, votes, item_weight), rel=1e-12)


def test_the_value_is_the_mutual_information_where_both_views_are_exact() -> None:
    """Two classes seen by x (right in .8) and by one vote (right in .7); shares .4 and .6: all by enumeration."""
    shares, seen, voted = np.array([0.4, 0.6]), np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[0.7, 0.3], [0.3, 0.7]])
    joint = np.einsum("z,zx,zy->xy", shares, seen, voted)
    information = float((joint * np.log(joint / np.outer(joint.sum(1), joint.sum(0)))).sum())
    counts = np.round(5000 * joint).astype(int)
    assert counts.sum() == 5000
    x = np.repeat([0, 0, 1, 1], counts.ravel())
    y = np.repeat([0, 1, 0, 1], counts.ravel())
    votes = Annotations.from_arrays(
        np.arange(5000), np.zeros(5000, int), y, items=range(5000), annotators=range(1), classes=range(2)
    )
    head = MutualInformationHead(torch.tensor(voted)[None], torch.tensor(shares))
    head.weight.data = torch.tensor(voted.T).log()
    log_h = torch.tensor(np.log(shares[:, None] * seen).T[x])
    # Leaving out i = j changes the mean over pairs by a share of 1 / B.
    assert head.loss(log_h, batch_of(votes)).item() == pytest.approx(-information, abs=2 / 5000)


def test_no_view_tells_more_than_the_exact_ones() -> None:
    """The loss is a bound: moving either view away from the truth raises it."""
    rng = np.random.default_rng(0)
    truth = rng.choice(2, 20_000, p=[0.4, 0.6])
    x, y = (np.where(rng.random(20_000) < right, truth, 1 - truth) for right in (0.8, 0.7))
    votes = Annotations.from_arrays(
        np.arange(20_000), np.zeros(20_000, int), y, items=range(20_000), annotators=range(1), classes=range(2)
    )
    shares, voted = torch.tensor([0.4, 0.6], dtype=torch.float64), torch.tensor([[0.7, 0.3], [0.3, 0.7]], dtype=torch.float64)
    log_h = torch.tensor(np.log(np.array([[0.4 * 0.8, 0.6 * 0.2], [0.4 * 0.2, 0.6 * 0.8]]))[x])
    head = MutualInformationHead(voted[None], shares)
    head.weight.data = voted.T.log()
    best = head.loss(log_h, batch_of(votes)).item()
    for sharper in (0.5, 2.0):
        assert head.loss(sharper * log_h, batch_of(votes)).item() > best + 1e-3
    head.weight.data = 2 * voted.T.log()
    assert head.loss(log_h, batch_of(votes)).item() > best + 1e-3


class _Loss(torch.nn.Module):
    """So that `functional_call` can put other parameters into a head's loss."""

    def __init__(self, head: MutualInformationHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, *given: Any) -> torch.Tensor:
        return self.head.loss(*given)


def test_the_gradients_are_those_of_finite_differences() -> None:
    votes, head = some_votes(1), head_of(2)
    model, batch = _Loss(head), batch_of(votes, item_weight=[1.0, 2.0, 1.0, 0.5, 1.0])

    def loss(logits: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, {"head.weight": weight, "head.bias": bias}, (logits, batch))

    given = (random_logits(3, 5, 3), head.weight.detach().clone(), head.bias.detach().clone())
    assert torch.autograd.gradcheck(loss, tuple(values.requires_grad_() for values in given))


def test_an_item_without_votes_pulls_nowhere() -> None:
    votes, logits = some_votes(), random_logits(0, 5, 3).requires_grad_()
    head_of().loss(logits, batch_of(votes)).backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad[4], 0, atol=1e-15)
    assert (logits.grad[:4].abs().sum(1) > 1e-6).all()


def test_one_item_has_no_pairs_and_no_votes_cost_nothing() -> None:
    votes, head, logits = some_votes(), head_of(), random_logits(0, 5, 3)
    alone = head.loss(logits[:1], batch_of(votes, order=[0])).item()
    assert alone == pytest.approx(double_sum(head, logits[:1], votes[np.array([0])]), rel=1e-12)
    # The item beside it has no votes, hence no pair either.
    assert head.loss(logits[[0, 4]], batch_of(votes, order=[0, 4])).item() == pytest.approx(alone, rel=1e-12)
    nothing = random_logits(1, 1, 3).requires_grad_()
    loss = head.loss(nothing, batch_of(votes, order=[4]))
    loss.backward()
    assert loss.item() == 0
    assert nothing.grad is not None
    assert nothing.grad.abs().max() == 0


def test_a_pair_of_views_that_exclude_each_other_is_floored() -> None:
    votes = Annotations.from_matrix([["a"], ["b"]])
    head = MutualInformationHead(torch.tensor(even(1, 2, 0.8)), torch.tensor([0.5, 0.5], dtype=torch.float64))
    head.weight.data = torch.tensor([[30.0, -30.0], [-30.0, 30.0]], dtype=torch.float64)
    logits = torch.tensor([[-40.0, 40.0], [-40.0, 40.0]], dtype=torch.float64)
    # D is 0 for the first item (floored) and 2 for the second; D_12 = 2, D_21 = 0.
    expected = 1 - (1 + (math.log(1e-4) + math.log(2)) / 2)
    assert head.loss(logits, batch_of(votes)).item() == pytest.approx(expected, rel=1e-9)


def test_the_crowd_starts_as_a_naive_bayes_of_the_start() -> None:
    start, shares = torch.tensor(even(2, 3, 0.7)), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    votes = Annotations.from_matrix([["a", "b"], ["b", "c"], ["c", "a"]])
    g = MutualInformationHead(start, shares).crowd_log_prob(batch_of(votes)).exp().detach().numpy()
    row = shares.numpy() * (start[0, :, 0].numpy() + 0.01) * (start[1, :, 1].numpy() + 0.01)
    np.testing.assert_allclose(g[0], row / row.sum(), rtol=1e-12)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**20), scale=st.floats(0.1, 20), n_classes=st.integers(2, 5))
def test_any_weights_imply_confusion_matrices_and_votes_go_through_them(seed: int, scale: float, n_classes: int) -> None:
    votes = some_votes(seed, n_classes=n_classes)
    head, logits = head_of(seed, n_classes=n_classes), random_logits(seed, 5, n_classes)
    head.weight.data = scale * random_logits(seed, 3 * n_classes, n_classes)
    confusion = head.confusion().detach().numpy()
    np.testing.assert_allclose(confusion.sum(2), 1)
    assert (confusion >= 0).all()
    through = (logits.softmax(1).numpy()[votes.item][:, :, None] * confusion[votes.annotator]).sum(1)
    expected = np.log(np.maximum(through[np.arange(votes.n_votes), votes.label], 1e-30))
    got = head.vote_log_prob(logits, batch_of(votes)).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-12)


def test_the_implied_matrices_are_not_transposed() -> None:
    start = torch.tensor([[[0.9, 0.1], [0.4, 0.6]]], dtype=torch.float64)
    confusion = MutualInformationHead(start, torch.tensor([0.5, 0.5], dtype=torch.float64)).confusion().detach().numpy()
    np.testing.assert_allclose(confusion[0], [[0.91 / 1.02, 0.11 / 1.02], [0.41 / 1.02, 0.61 / 1.02]])


# -- the classifier ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 10])
def test_it_fits_predicts_and_repeats_itself_to_the_bit(n_classes: int) -> None:
    features, votes = small_crowd(1, n_items=80, n_classes=n_classes)
    with quiet():
        first, second = (MaxMIG(epochs=8, batch_size=32).fit(features, votes) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(features), second.predict_proba(features))
    np.testing.assert_allclose(first.predict_proba(features).sum(1), 1)
    np.testing.assert_allclose(first.confusion_.sum(2), 1)


@pytest.mark.slow
def test_one_label_per_row_is_enough() -> None:
    features, truth = blobs(0, 300, 3)
    model = MaxMIG(epochs=30).fit(features, truth)
    assert np.mean(model.predict(features) == truth) > 0.9


def test_balanced_weights_make_the_shares_equal() -> None:
    features, votes = small_crowd()
    labels = np.eye(3)[np.arange(60) % 5 // 2]
    with quiet():
        plain, weighted = (MaxMIG(epochs=2, init=labels, class_weight=w).fit(features, votes) for w in (None, "balanced"))
    np.testing.assert_allclose(plain.head_.log_shares.exp(), [0.4, 0.4, 0.2], atol=1e-12)
    np.testing.assert_allclose(weighted.head_.log_shares.exp(), 1 / 3, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("init", ["dawid-skene", "majority", "identity"])
def test_it_learns_from_a_noisy_crowd_with_an_adversary(init: str) -> None:
    features, truth = blobs(3, 1600, 4, n_features=8, gap=4.0)
    confusion = even(6, 4, 0.6)
    confusion[5] = even(1, 4, 0.02)[0]
    votes = votes_on(truth[:600], confusion, 3, share=0.6)
    model = MaxMIG(epochs=40, init=init).fit(features[:600], votes)
    assert np.mean(model.predict(features[600:]) == truth[600:]) > 0.93
    accuracy = model.confusion_.diagonal(axis1=1, axis2=2).mean(1)
    assert accuracy[5] < accuracy[:5].min() - 0.1
