"""Training on class probabilities: cross-entropy by loops, the fixed confusion matrices, and the warm-up's hand-over."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import batch_of, random_logits, some_votes

from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.targets import SoftTargets, WarmStart, soft_cross_entropy


def targets(seed: int, n_items: int = 5, n_classes: int = 3) -> torch.Tensor:
    return random_logits(seed, n_items, n_classes).softmax(1)


def confusion_of(seed: int) -> torch.Tensor:
    return random_logits(seed, 3, 3, 3).softmax(2)


def by_hand(logits: torch.Tensor, target: torch.Tensor, weight: list[float]) -> float:
    total = 0.0
    for n, row in enumerate(logits.tolist()):
        log_norm = math.log(sum(math.exp(value) for value in row))
        total -= weight[n] * sum(t * (value - log_norm) for t, value in zip(target[n].tolist(), row, strict=True))
    return total / sum(weight)


def test_cross_entropy_is_the_weighted_mean_over_items() -> None:
    logits, target, weight = random_logits(0, 4, 3), targets(1, 4), [1.0, 2.0, 0.5, 0.0]
    got = soft_cross_entropy(logits, target, torch.tensor(weight, dtype=torch.float64)).item()
    assert got == pytest.approx(by_hand(logits, target, weight), rel=1e-12)


def test_items_of_no_weight_at_all_give_zero() -> None:
    assert soft_cross_entropy(random_logits(0, 2, 3), targets(1, 2), torch.zeros(2, dtype=torch.float64)).item() == 0


def test_the_loss_reads_the_rows_of_the_batch() -> None:
    target, logits = targets(2), random_logits(3, 3, 3)
    head = SoftTargets(target, confusion_of(4))
    got = head.loss(logits, batch_of(some_votes(), order=[4, 0, 2])).item()
    assert got == pytest.approx(by_hand(logits, target[[4, 0, 2]], [1, 1, 1]), rel=1e-12)


def test_the_gradient_is_that_of_finite_differences() -> None:
    head, batch = SoftTargets(targets(2), confusion_of(4)), batch_of(some_votes())
    assert torch.autograd.gradcheck(lambda logits: head.loss(logits, batch), (random_logits(5, 5, 3).requires_grad_(),))


def test_votes_are_judged_through_the_given_matrices() -> None:
    votes, logits, confusion = some_votes(), random_logits(6, 5, 3), confusion_of(7)
    head = SoftTargets(targets(2), confusion)
    f = logits.softmax(1)
    expected = [
        math.log(sum((f[n, k] * confusion[a, k, l]).item() for k in range(3)))
        for n, a, l in zip(votes.item, votes.annotator, votes.label, strict=True)
    ]
    np.testing.assert_allclose(head.vote_log_prob(logits, batch_of(votes)), expected, rtol=1e-10)
    np.testing.assert_array_equal(head.confusion(), confusion)


def test_a_vote_that_the_matrices_rule_out_is_judged_as_unlikely_and_not_as_infinite() -> None:
    certain = torch.eye(3, dtype=torch.float64).repeat(3, 1, 1)
    logits = torch.full((5, 3), -400.0, dtype=torch.float64)
    logits[:, 0] = 400.0
    judged = SoftTargets(targets(2), certain).vote_log_prob(logits, batch_of(some_votes()))
    assert torch.isfinite(judged).all()
    assert judged.min() < -60


def test_nothing_of_it_is_trained() -> None:
    assert list(SoftTargets(targets(0), confusion_of(0)).parameters()) == []


def test_a_warm_start_hands_over_after_its_epochs() -> None:
    votes, logits, target = some_votes(), random_logits(6, 5, 3), targets(8)
    inner = ConfusionHead(confusion_of(9))
    head = WarmStart(inner, target, 2)
    early, late = batch_of(votes, epoch=1), batch_of(votes, epoch=2)
    assert head.loss(logits, early).item() == pytest.approx(by_hand(logits, target, [1.0] * 5), rel=1e-12)
    assert head.loss(logits, late).item() == inner.loss(logits, late).item()
    np.testing.assert_array_equal(head.confusion().detach(), inner.confusion().detach())
    np.testing.assert_array_equal(head.vote_log_prob(logits, early).detach(), inner.vote_log_prob(logits, early).detach())


def test_a_warm_start_wakes_its_head_when_the_warm_up_is_over() -> None:
    seen = []

    class Counting(Head):
        def begin_epoch(self, epoch: int, log_prob: object) -> None:
            seen.append(epoch)

    head = WarmStart(Counting(), targets(0), 2)
    for epoch in range(4):
        head.begin_epoch(epoch, lambda: targets(0).log())
    assert seen == [2, 3]


def test_a_warm_start_judges_by_the_evidence_of_its_head() -> None:
    """A head may depend on the item (features), so its own `evidence` must be asked, not the mean matrices."""

    class Own(ConfusionHead):
        def evidence(self, batch: Batch) -> torch.Tensor:
            return torch.full((len(batch.entry), 3), -1.5, dtype=torch.float64)

    judged = WarmStart(Own(confusion_of(0)), targets(0), 1).evidence(batch_of(some_votes()))
    assert (judged == -1.5).all()
