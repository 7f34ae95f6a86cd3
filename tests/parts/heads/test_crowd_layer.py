"""The crowd layer: its three kinds against the published formula, one vote at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.gradient.helpers import batch_of, random_logits, some_votes

from crowdwise.data.annotations import Annotations
from crowdwise.parts.heads.crowd_layer import CrowdLayerHead

KINDS = ("matrix", "vector", "vector-bias")
kinds = pytest.mark.parametrize("kind", KINDS)


def head_with(kind: str, seed: int, n_annotators: int = 3, n_classes: int = 3) -> CrowdLayerHead:
    head = CrowdLayerHead(kind, n_annotators, n_classes, torch.float64)
    with torch.no_grad():
        for number, parameter in enumerate(head.parameters()):
            parameter.copy_(random_logits(seed + number, *parameter.shape))
    return head


def scores_of(head: CrowdLayerHead, annotator: int, f: np.ndarray) -> list[float]:
    """The layer of one annotator as the paper writes it; the weight [k][l] maps class k to label l."""
    weight = head.weight.detach().numpy()[annotator]
    n_classes = len(f)
    if head.kind == "matrix":
        return [sum(weight[k][l] * f[k] for k in range(n_classes)) for l in range(n_classes)]
    bias = np.zeros(n_classes) if head.bias is None else head.bias.detach().numpy()[annotator]
    return [weight[l] * f[l] + bias[l] for l in range(n_classes)]


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


@kinds
def test_the_loss_is_the_mean_cross_entropy_of_the_votes_that_exist(kind: str) -> None:
    votes, head, logits = some_votes(), head_with(kind, 1), random_logits(9, 5, 3)
    f = logits.softmax(1).numpy()
    assert votes.weight is not None
    expected = sum(
        -votes.weight[e] * math.log(softmax(scores_of(head, votes.annotator[e], f[votes.item[e]]))[votes.label[e]])
        for e in range(votes.n_votes)
    )
    assert head.loss(logits, batch_of(votes)).item() == pytest.approx(expected / votes.weight.sum(), rel=1e-12)


@kinds
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    batch, head = batch_of(some_votes()), head_with(kind, 2)
    names = [name for name, _ in head.named_parameters()]

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = head

        def forward(self, logits: torch.Tensor) -> torch.Tensor:
            return self.head.loss(logits, batch)

    def loss(logits: torch.Tensor, *parameters: torch.Tensor) -> Any:
        given = {f"head.{name}": value for name, value in zip(names, parameters, strict=True)}
        return torch.func.functional_call(Loss(), given, (logits,))

    arguments = [random_logits(3, 5, 3), *(p.detach().clone() for p in head.parameters())]
    assert torch.autograd.gradcheck(loss, tuple(argument.requires_grad_() for argument in arguments))


@kinds
def test_confusion_is_the_answer_to_a_certain_label(kind: str) -> None:
    head = head_with(kind, 4)
    got = head.confusion().detach().numpy()
    for a in range(3):
        for k in range(3):
            np.testing.assert_allclose(got[a, k], softmax(scores_of(head, a, np.eye(3)[k])), rtol=1e-12)


@kinds
@given(seed=st.integers(0, 2**20), scale=st.floats(0, 200))
def test_rows_are_probabilities_whatever_the_parameters(kind: str, seed: int, scale: float) -> None:
    head = head_with(kind, seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter *= scale
        confusion = head.confusion().numpy()
    assert (confusion >= 0).all()
    np.testing.assert_allclose(confusion.sum(axis=2), 1, atol=1e-9)


def test_the_papers_start_is_identity_ones_and_zero_biases() -> None:
    """At f one-hot and W = I the best label gets e / (e + K - 1) only."""
    np.testing.assert_array_equal(CrowdLayerHead("matrix", 2, 3, torch.float64).weight[1].detach(), np.eye(3))
    vwb = CrowdLayerHead("vector-bias", 2, 3, torch.float64)
    np.testing.assert_array_equal(vwb.weight.detach(), np.ones((2, 3)))
    assert vwb.bias is not None
    np.testing.assert_array_equal(vwb.bias.detach(), np.zeros((2, 3)))
    for kind in KINDS:
        diagonal = CrowdLayerHead(kind, 2, 3, torch.float64).confusion().diagonal(dim1=1, dim2=2).detach()
        np.testing.assert_allclose(diagonal, math.e / (math.e + 2), rtol=1e-12)
    assert CrowdLayerHead("vector", 2, 3, torch.float64).bias is None


def test_a_given_start_is_what_the_matrix_implies() -> None:
    start = torch.tensor(np.random.default_rng(0).dirichlet(3 * np.ones(3), (2, 3)))
    np.testing.assert_allclose(CrowdLayerHead("matrix", 2, 3, torch.float64, start).confusion().detach(), start, atol=1e-9)


@pytest.mark.parametrize("kind", ["vector", "vector-bias"])
def test_a_given_start_fixes_how_often_a_vector_is_right(kind: str) -> None:
    start = torch.tensor([[[0.8, 0.2, 0.0], [0.5, 0.1, 0.4], [0.0, 0.0, 1.0]]], dtype=torch.float64)
    got = CrowdLayerHead(kind, 1, 3, torch.float64, start).confusion().detach().numpy()[0]
    np.testing.assert_allclose(got.diagonal(), [0.8, 0.1, 1 - 1e-4], rtol=1e-9)
    np.testing.assert_allclose(got[0], [0.8, 0.1, 0.1], rtol=1e-9)


def test_an_annotator_who_calls_class_0_a_1_is_learned_untransposed() -> None:
    truth = np.repeat([0, 1, 2], 40)
    answers = np.repeat([1, 1, 2], 40)
    votes = Annotations.from_arrays(np.arange(120), ["a"] * 120, answers, classes=[0, 1, 2], items=range(120))
    logits = torch.full((120, 3), -20.0, dtype=torch.float64)
    logits[torch.arange(120), torch.tensor(truth)] = 20.0
    head = CrowdLayerHead("matrix", 1, 3, torch.float64)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(300):
        optimiser.zero_grad()
        head.loss(logits, batch_of(votes)).backward()
        optimiser.step()
    np.testing.assert_allclose(head.confusion().detach().numpy()[0], [[0, 1, 0], [0, 1, 0], [0, 0, 1]], atol=0.02)
