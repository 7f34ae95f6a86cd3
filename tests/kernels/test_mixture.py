"""The probability of a vote as a mixture over its item's classes, against a literal loop and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crowdwise.kernels.mixture import log_mixture, own_log_softmax


def literal(f: np.ndarray, table: np.ndarray, position: list[int], entry: list[int]) -> list[float]:
    """log sum_k f[n, k] table[r, k], one vote and one class at a time."""
    return [math.log(sum(f[n, k] * table[r, k] for k in range(f.shape[1]))) for n, r in zip(position, entry, strict=True)]


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(
    n_items=st.integers(1, 5),
    n_rows=st.integers(1, 6),
    n_classes=st.integers(1, 4),
    n_votes=st.integers(0, 12),
    seed=st.integers(0, 2**20),
)
def test_every_vote_gets_the_log_of_its_mixture(n_items: int, n_rows: int, n_classes: int, n_votes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, table = rng.uniform(0.01, 1, (n_items, n_classes)), rng.uniform(0.01, 1, (n_rows, n_classes))
    position, entry = rng.integers(0, n_items, n_votes), rng.integers(0, n_rows, n_votes)
    got = log_mixture(torch.tensor(f).log(), torch.tensor(table).log(), torch.tensor(position), torch.tensor(entry))
    np.testing.assert_allclose(got.numpy(), literal(f, table, position.tolist(), entry.tolist()), rtol=1e-12, atol=1e-12)


def test_a_mixture_by_hand() -> None:
    """0.5 x 0.2 + 0.3 x 0.6 + 0.2 x 0.1 = 0.30; the second vote reads the second item and the first row of the table."""
    f = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)
    table = torch.tensor([[0.9, 0.2, 0.5], [0.2, 0.6, 0.1]], dtype=torch.float64)
    got = log_mixture(f.log(), table.log(), torch.tensor([0, 1]), torch.tensor([1, 0])).exp()
    np.testing.assert_allclose(got.numpy(), [0.30, 0.51], rtol=1e-12)


def test_the_gradient_by_items_and_by_the_table_is_that_of_finite_differences() -> None:
    """Two votes share an item and a row; row 4 and item 3 have no vote."""
    position, entry = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([0, 0, 3, 1, 2, 0])
    log_f = drawn(0, 4, 3).log_softmax(1).requires_grad_()
    log_table = drawn(1, 5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda f, t: log_mixture(f, t, position, entry), (log_f, log_table))


def test_items_and_table_rows_without_votes_get_no_gradient() -> None:
    log_f, log_table = drawn(0, 3, 2).requires_grad_(), drawn(1, 4, 2).requires_grad_()
    log_mixture(log_f, log_table, torch.tensor([0, 2]), torch.tensor([1, 1])).sum().backward()
    assert log_f.grad is not None
    assert log_table.grad is not None
    assert log_f.grad[1].tolist() == [0, 0]
    assert log_table.grad[[0, 2, 3]].abs().sum() == 0
    # d log sum / d log f is the responsibility of each class, which sums to one per vote.
    np.testing.assert_allclose(log_f.grad[[0, 2]].sum(1), [1, 1], rtol=1e-12)
    np.testing.assert_allclose(log_table.grad[1].sum(), 2, rtol=1e-12)


def test_a_vote_that_is_next_to_impossible_stays_finite_in_single_precision() -> None:
    """exp(-200) is zero in float32; the floor of 1e-30 takes its place, and its gradient is finite."""
    log_f = torch.tensor([[0.0, -200.0]], requires_grad=True)
    log_table = torch.tensor([[-200.0, 0.0]], requires_grad=True)
    value = log_mixture(log_f, log_table, torch.tensor([0]), torch.tensor([0]))
    assert value.item() == pytest.approx(math.log(1e-30), rel=1e-5)
    value.sum().backward()
    assert log_f.grad is not None
    assert torch.isfinite(log_f.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_votes_give_an_empty_answer_and_a_zero_gradient(dtype: torch.dtype) -> None:
    log_f = torch.zeros(2, 3, dtype=dtype, requires_grad=True)
    none = torch.zeros(0, dtype=torch.int64)
    value = log_mixture(log_f, torch.zeros(4, 3, dtype=dtype), none, none)
    assert value.shape == (0,)
    assert value.dtype == dtype
    value.sum().backward()
    assert log_f.grad is not None
    assert log_f.grad.abs().sum() == 0


# -- every vote through its annotator's matrix ------------------------------------------------------

# Idle annotators, one who casts most votes (several blocks), and enough votes for the compiled loop.
CROWDS = {"few": (3, 7), "one idle": (2, 3), "many": (5, 60), "compiled": (40, 1_200)}


def crowd(name: str) -> tuple[int, list[int], list[int], list[int]]:
    """Annotators, and (item, annotator, label) of every vote; half of the votes are of annotator 1."""
    n_annotators, n_votes = CROWDS[name]
    rng = np.random.default_rng(5)
    owner = np.where(rng.random(n_votes) < 0.5, 1, rng.integers(n_annotators, size=n_votes))
    return n_annotators, rng.integers(4, size=n_votes).tolist(), owner.tolist(), rng.integers(2, size=n_votes).tolist()


@pytest.mark.parametrize("name", CROWDS)
def test_every_vote_meets_the_matrix_of_its_annotator(name: str) -> None:
    n_annotators, item, owner, label = crowd(name)
    f, matrices = drawn(0, 4, 3), drawn(1, n_annotators, 3, 2)
    entry = 2 * torch.tensor(owner) + torch.tensor(label)
    expected = []
    for i, a, l in zip(item, owner, label, strict=True):
        scores = [sum(f[i, k].item() * matrices[a, k, m].item() for k in range(3)) for m in range(2)]
        expected.append(scores[l] - math.log(sum(math.exp(score) for score in scores)))
    np.testing.assert_allclose(own_log_softmax(f, matrices, torch.tensor(item), entry), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["few", "one idle", "many"])
def test_the_gradient_by_items_and_by_matrices_is_that_of_finite_differences(name: str) -> None:
    n_annotators, item, owner, label = crowd(name)
    entry = 2 * torch.tensor(owner) + torch.tensor(label)
    arguments = drawn(0, 4, 3).requires_grad_(), drawn(1, n_annotators, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda f, matrices: own_log_softmax(f, matrices, torch.tensor(item), entry), arguments)


@pytest.mark.parametrize("times", [1, 1000])
def test_scores_far_apart_do_not_overflow(times: int) -> None:
    matrices = torch.tensor([[[500.0, -500.0]]], requires_grad=True)
    entry = torch.tensor([0, 1]).repeat(times)
    value = own_log_softmax(torch.ones(1, 1), matrices, torch.zeros_like(entry), entry)
    np.testing.assert_array_equal(value.detach(), [0, -1000] * times)
    value.sum().backward()
    assert matrices.grad is not None
    np.testing.assert_array_equal(matrices.grad, [[[-times, times]]])


def test_no_votes_meet_no_matrix() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    f = drawn(0, 2, 3).requires_grad_()
    value = own_log_softmax(f, drawn(1, 2, 3, 4), none, none)
    assert value.shape == (0,)
    value.sum().backward()
    assert f.grad is not None
    assert f.grad.abs().sum() == 0
