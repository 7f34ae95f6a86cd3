"""Penalties: values against numpy, gradients against finite differences, what their optimum is, and their ramp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import batch_of, random_logits, some_votes

from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.parts.heads.penalties import ConfusionVolume, PredictionVolume, Trace

# The ridge of `penalties`: part of the documented value.
RIDGE = 1e-6


def log_f_of(seed: int, n_items: int = 5, n_classes: int = 3) -> torch.Tensor:
    return random_logits(seed, n_items, n_classes).log_softmax(1)


def log_confusion_of(seed: int, n_annotators: int = 3, n_classes: int = 3) -> torch.Tensor:
    """[A, L, K], as heads store it: sums to one over L."""
    return random_logits(seed, n_annotators, n_classes, n_classes).log_softmax(1)


def batch(epoch: int = 0) -> Any:
    return batch_of(some_votes(), epoch=epoch)


def test_the_trace_is_summed_over_annotators() -> None:
    log_confusion = log_confusion_of(0)
    confusion = log_confusion.exp().numpy().transpose(0, 2, 1)
    expected = 0.1 * sum(confusion[a, k, k] for a in range(3) for k in range(3))
    assert Trace(0.1)(log_f_of(1), log_confusion, batch()).item() == pytest.approx(expected, rel=1e-12)


def test_the_volume_of_the_predictions_is_the_log_determinant_of_their_gram_matrix() -> None:
    log_f = log_f_of(2)
    f = log_f.exp().numpy()
    sign, log_det = np.linalg.slogdet(f.T @ f / 5 + RIDGE * np.eye(3))
    assert sign == 1
    got = PredictionVolume(0.1)(log_f, log_confusion_of(0), batch()).item()
    assert got == pytest.approx(-0.1 * log_det, rel=1e-10)


def test_the_unbalanced_volume_leaves_the_class_masses_out() -> None:
    log_f = log_f_of(2)
    f = log_f.exp().numpy()
    log_det = np.linalg.slogdet(f.T @ f / 5 + RIDGE * np.eye(3))[1] - np.log(f.mean(axis=0)).sum()
    got = PredictionVolume(0.1, balanced=False)(log_f, log_confusion_of(0), batch()).item()
    assert got == pytest.approx(-0.1 * log_det, rel=1e-10)


def test_the_volume_of_the_matrices_is_the_log_determinant_of_their_summed_products() -> None:
    log_confusion = log_confusion_of(3)
    confusion = log_confusion.exp().numpy().transpose(0, 2, 1)
    summed = sum(confusion[a] @ confusion[a].T for a in range(3))
    expected = -0.1 * np.linalg.slogdet(summed + RIDGE * np.eye(3))[1]
    assert ConfusionVolume(0.1)(log_f_of(1), log_confusion, batch()).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    "penalty", [Trace(0.7), PredictionVolume(0.7), PredictionVolume(0.7, balanced=False), ConfusionVolume(0.7)]
)
def test_gradients_are_those_of_finite_differences(penalty: Any) -> None:
    own = batch()
    arguments = (random_logits(0, 5, 3).requires_grad_(), random_logits(1, 3, 3, 3).requires_grad_())
    assert torch.autograd.gradcheck(lambda f, r: penalty(f.log_softmax(1), r.log_softmax(1), own), arguments)


def test_confident_and_equally_frequent_predictions_have_the_largest_volume() -> None:
    """log det(F F^T / B) of balanced one-hot predictions is -K log K; nothing exceeds it."""
    best = torch.full((6, 3), -40.0, dtype=torch.float64)
    best[torch.arange(6), torch.tensor([0, 1, 2, 0, 1, 2])] = 0.0
    top = -PredictionVolume(1.0)(best.log_softmax(1), log_confusion_of(0), batch()).item()
    assert top == pytest.approx(-3 * math.log(3), abs=1e-4)
    for seed in range(20):
        other = 3 * random_logits(seed, 6, 3)
        assert -PredictionVolume(1.0)(other.log_softmax(1), log_confusion_of(0), batch()).item() <= top


def test_without_the_balance_one_hot_predictions_have_volume_zero_whatever_their_sizes() -> None:
    skewed = torch.full((6, 3), -40.0, dtype=torch.float64)
    skewed[torch.arange(6), torch.tensor([0, 0, 0, 0, 1, 2])] = 0.0
    value = PredictionVolume(1.0, balanced=False)(skewed.log_softmax(1), log_confusion_of(0), batch()).item()
    assert value == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("n_annotators", [3, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_annotators_who_all_guess_have_a_finite_volume(dtype: torch.dtype, n_annotators: int) -> None:
    """A singular sum of any size must not break the factorisation in single precision."""
    row = torch.tensor([0.7, 0.1, 0.15, 0.05], dtype=dtype)
    guess = row.log()[None, :, None].expand(n_annotators, 4, 4).clone().requires_grad_()
    value = ConfusionVolume(1.0)(torch.zeros(5, 4, dtype=dtype), guess, batch_of(some_votes(n_classes=4)))
    value.backward()
    assert guess.grad is not None
    assert torch.isfinite(value)
    assert torch.isfinite(guess.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hundred_classes_and_predictions_that_all_agree_have_a_finite_volume(dtype: torch.dtype) -> None:
    log_f = torch.full((64, 100), -60.0, dtype=dtype)
    log_f[:, 3] = 0.0
    log_f.requires_grad_()
    value = PredictionVolume(1.0)(log_f.log_softmax(1), torch.zeros(1, 100, 100, dtype=dtype), batch())
    value.backward()
    assert log_f.grad is not None
    assert torch.isfinite(value)
    assert torch.isfinite(log_f.grad).all()


def test_a_penalty_rises_from_its_first_epoch_to_its_strength() -> None:
    """From epoch 2 over 3 more: 1/4, 2/4, 3/4, 4/4 and then all of it."""
    trace = Trace(0.8, start=2, rise=3)
    assert [trace.at(epoch) for epoch in range(8)] == pytest.approx([0, 0, 0.2, 0.4, 0.6, 0.8, 0.8, 0.8])
    assert Trace(0.8, start=2).at(2) == 0.8
    full = Trace(0.8)(log_f_of(0), log_confusion_of(0), batch()).item()
    assert trace(log_f_of(0), log_confusion_of(0), batch(epoch=1)).item() == 0
    assert trace(log_f_of(0), log_confusion_of(0), batch(epoch=2)).item() == pytest.approx(full / 4, rel=1e-12)


def test_a_head_adds_its_penalties_to_its_loss() -> None:
    start = log_confusion_of(5).exp().transpose(1, 2)
    logits, own = random_logits(6, 5, 3), batch()
    plain = ConfusionHead(start).loss(logits, own).item()
    both = ConfusionHead(start, [Trace(0.1), ConfusionVolume(0.2)]).loss(logits, own).item()
    log_r = ConfusionHead(start).log_confusion().detach()
    expected = plain + sum(p(logits.log_softmax(1), log_r, own).item() for p in (Trace(0.1), ConfusionVolume(0.2)))
    assert both == pytest.approx(expected, rel=1e-12)
