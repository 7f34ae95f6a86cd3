"""Votes through matrices mixed by a gate: compiled loops and torch, against a literal loop and finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crowdwise.kernels import gated_mixture
from crowdwise.kernels.gated_mixture import gated_surprise

# Two votes share an item and an entry; item 3 and annotator 1 have no vote. Three labels per annotator.
POSITION, ENTRY = torch.tensor([0, 0, 0, 1, 2, 2, 4]), torch.tensor([0, 0, 7, 8, 2, 6, 1])


@pytest.fixture(params=["torch", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways for few votes, which alone would not be worth a compiled loop."""
    monkeypatch.setattr(gated_mixture, "_COMPILED_FROM", 0 if request.param == "compiled" else math.inf)
    return str(request.param)


def drawn(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs(components: int, n_classes: int = 3, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Log class probabilities of five items, matrices of three annotators, and both parts of the gate."""
    shapes = ((5, n_classes), (3, n_classes, components, n_classes), (5, components), (3, components))
    log_f, *others = (scale * drawn(seed, *shape, dtype=dtype) for seed, shape in enumerate(shapes))
    return [log_f.log_softmax(1), *others]


def literal(given: list[torch.Tensor], position: torch.Tensor, entry: torch.Tensor, strength: float) -> list[float]:
    """One vote, component and class at a time."""
    log_f, logits, item_gate, own_gate = (values.double().numpy() for values in given)
    n_classes, n_components, result = logits.shape[1], logits.shape[2], []
    for n, r in zip(position.tolist(), entry.tolist(), strict=True):
        a, y = divmod(r, n_classes)
        score = item_gate[n] + own_gate[a]
        gate = np.exp(score - score.max()) / np.exp(score - score.max()).sum()
        matrix = np.zeros((n_classes, n_classes))
        for m in range(n_components):
            for k in range(n_classes):
                column = logits[a, :, m, k]
                matrix[k] += gate[m] * np.exp(column - column.max()) / np.exp(column - column.max()).sum()
        result.append(-math.log(np.exp(log_f[n]) @ matrix[:, y]) + strength * np.trace(matrix))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.0, 0.7])
@pytest.mark.parametrize("components", [1, 2, 4])
def test_every_vote_costs_its_surprise_and_trace(way: str, components: int, strength: float) -> None:
    given = inputs(components)
    got = gated_surprise(*given, POSITION, ENTRY, strength)
    np.testing.assert_allclose(got, literal(given, POSITION, ENTRY, strength), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_votes_are_compiled_and_cost_the_same(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    position, entry = torch.tensor(np.sort(rng.integers(5, size=1500))), torch.tensor(rng.integers(30, size=1500))
    given = inputs(3, n_classes=10, dtype=dtype)
    got = gated_surprise(*(values.requires_grad_() for values in given), position, entry, 0.3)
    assert got.dtype == dtype
    assert "GatedSurprise" in type(got.grad_fn).__name__
    expected = literal([values.detach() for values in given], position, entry, 0.3)
    np.testing.assert_allclose(got.detach(), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("strength", [0.0, 0.7])
@pytest.mark.parametrize("components", [1, 3])
def test_the_gradients_are_those_of_finite_differences(way: str, components: int, strength: float) -> None:
    given = tuple(values.requires_grad_() for values in inputs(components))
    assert torch.autograd.gradcheck(lambda *values: gated_surprise(*values, POSITION, ENTRY, strength), given)


def slopes(given: list[torch.Tensor], weight: torch.Tensor, cost: Callable[..., torch.Tensor]) -> list[np.ndarray]:
    fresh = [values.clone().requires_grad_() for values in given]
    (cost(*fresh) * weight).sum().backward()
    return [values.grad.numpy() for values in fresh if values.grad is not None]


def plain(log_f: torch.Tensor, logits: torch.Tensor, item_gate: torch.Tensor, own_gate: torch.Tensor) -> torch.Tensor:
    """The definition in torch, with a matrix per vote, at strength 0.5."""
    own = torch.div(ENTRY, 3, rounding_mode="floor")
    gate = (item_gate[POSITION] + own_gate[own]).softmax(1)
    matrix = torch.einsum("em,elmk->elk", gate, logits.softmax(1)[own])
    voted = (log_f.exp()[POSITION] * matrix[torch.arange(len(ENTRY)), ENTRY % 3]).sum(1)
    return 0.5 * matrix.diagonal(dim1=1, dim2=2).sum(1) - voted.log()


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_the_gradients_are_those_of_a_matrix_per_vote(way: str, scale: float) -> None:
    given, weight = inputs(3, scale=scale), drawn(9, len(ENTRY)).abs()
    got = slopes(given, weight, lambda *values: gated_surprise(*values, POSITION, ENTRY, 0.5))
    expected = slopes(given, weight, plain)
    assert len(got) == len(expected) == 4
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12 * np.abs(other).max())


@pytest.mark.parametrize("shift", [-300.0, 300.0])
def test_logits_far_from_zero_do_not_overflow(way: str, shift: float) -> None:
    """Adding a number to all labels of a column changes nothing; exp(300) is not a float32."""
    log_f, logits, item_gate, own_gate = inputs(2, dtype=torch.float32)
    expected = literal([log_f, logits, item_gate, own_gate], POSITION, ENTRY, 0.5)
    moved = (logits + shift).requires_grad_()
    got = gated_surprise(log_f, moved, item_gate + shift, own_gate - shift, POSITION, ENTRY, 0.5)
    # Numbers near 300 are 3e-5 apart in single precision.
    np.testing.assert_allclose(got.detach(), expected, rtol=1e-3)
    got.sum().backward()
    assert moved.grad is not None
    assert torch.isfinite(moved.grad).all()


def test_a_vote_that_is_next_to_impossible_stays_finite_in_single_precision(way: str) -> None:
    """A certain item of class 0 and a matrix that never answers 1 to it: the floor of 1e-30 takes the place of zero."""
    log_f = torch.tensor([[0.0, -200.0]], requires_grad=True)
    logits = torch.tensor([[100.0, 0.0], [-100.0, 0.0]])[None, :, None, :].clone().requires_grad_()
    zero = torch.zeros(1, 1)
    got = gated_surprise(log_f, logits, zero, zero, torch.tensor([0]), torch.tensor([1]))
    assert got.item() == pytest.approx(-math.log(1e-30), rel=1e-5)
    got.sum().backward()
    assert log_f.grad is not None
    assert logits.grad is not None
    assert torch.isfinite(log_f.grad).all()
    assert torch.isfinite(logits.grad).all()


def test_no_votes_give_an_empty_answer_and_zero_gradients(way: str) -> None:
    none = torch.zeros(0, dtype=torch.int64)
    fresh = [values.requires_grad_() for values in inputs(2)]
    got = gated_surprise(*fresh, none, none, 0.5)
    assert got.shape == (0,)
    got.sum().backward()
    for values in fresh:
        assert values.grad is not None
        assert values.grad.abs().sum() == 0


@given(seed=st.integers(0, 2**20), n_votes=st.integers(1, 12))
def test_both_ways_agree(seed: int, n_votes: int) -> None:
    rng = np.random.default_rng(seed)
    position, entry = torch.tensor(rng.integers(5, size=n_votes)), torch.tensor(rng.integers(9, size=n_votes))
    given, weight = inputs(2), torch.ones(n_votes, dtype=torch.float64)
    found = []
    for least in (0, math.inf):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gated_mixture, "_COMPILED_FROM", least)
            found.append(slopes(given, weight, lambda *values: gated_surprise(*values, position, entry, 0.2)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-13)
