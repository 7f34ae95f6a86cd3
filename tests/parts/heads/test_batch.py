"""Cutting the edge list into batches: every vote of every item once, at its place."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.gradient.helpers import CPU, batch_of, random_logits, some_votes
from tests.strategies import small_votes

from crowdwise.data.annotations import Annotations
from crowdwise.parts.heads.batch import Batch, VoteList, n_batches


def all_batches(votes: Annotations, order: list[int], size: int, item_weight: np.ndarray | None = None) -> list[Batch]:
    listed = VoteList(votes, torch.float64, CPU, item_weight)
    return list(listed.batches(torch.tensor(order, dtype=torch.int64), size, epoch=7))


@st.composite
def orders(draw: st.DrawFn) -> tuple[Annotations, list[int], int]:
    """Votes with items that have none and repeats; some of the items in any order; a batch size."""
    votes = draw(small_votes(max_items=9))
    order = draw(st.permutations(range(votes.n_items)))
    kept = draw(st.integers(0, votes.n_items))
    return votes, list(order[:kept]), draw(st.integers(1, votes.n_items + 2))


@given(case=orders(), seed=st.integers(0, 100))
def test_every_vote_of_every_item_comes_once_with_its_item(case: tuple[Annotations, list[int], int], seed: int) -> None:
    votes, order, size = case
    rng = np.random.default_rng(seed)
    vote_weight, item_weight = rng.uniform(0.1, 3, votes.n_votes), rng.uniform(0.1, 3, votes.n_items)
    votes = Annotations(
        votes.item_ptr, votes.annotator, votes.label, votes.items, votes.annotators, votes.classes, weight=vote_weight
    )
    batches = all_batches(votes, order, size, item_weight)
    assert [n for batch in batches for n in batch.rows.tolist()] == order
    seen = []
    for batch in batches:
        assert batch.epoch == 7
        assert batch.n_classes == votes.n_classes
        assert (batch.position.diff() >= 0).all()
        assert len(batch.rows) > 0
        np.testing.assert_allclose(batch.item_weight, item_weight[batch.rows.numpy()])
        n, e = batch.rows[batch.position].numpy(), batch.vote.numpy()
        np.testing.assert_array_equal(votes.item[e], n)
        np.testing.assert_array_equal(batch.annotator, votes.annotator[e])
        np.testing.assert_array_equal(batch.label, votes.label[e])
        np.testing.assert_allclose(batch.weight, vote_weight[e] * item_weight[n])
        seen += e.tolist()
    assert sorted(seen) == sorted(e for e in range(votes.n_votes) if votes.item[e] in set(order))


@given(case=orders())
def test_batches_are_even_and_none_is_a_lone_item(case: tuple[Annotations, list[int], int]) -> None:
    """Batch normalisation cannot train on one row: an odd number of items in batches of two has one of three."""
    votes, order, size = case
    sizes = [len(batch.rows) for batch in all_batches(votes, order, size)]
    odd_pairs = size == 2 and len(order) % 2 == 1 and len(order) > 1
    assert sum(sizes) == len(order)
    if sizes:
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= size + odd_pairs
        assert len(order) == 1 or size == 1 or min(sizes) > 1
    # As many as are needed, and no more.
    assert len(sizes) == math.ceil(len(order) / size) - odd_pairs


@pytest.mark.parametrize(("whole", "left"), [(6, 0), (6, 1), (6, 2), (6, 25), (6, 49), (0, 1), (0, 2), (1, 1), (1, 49)])
def test_no_remainder_makes_a_short_batch(whole: int, left: int) -> None:
    """Batches of 50: a short last one would stand for all items, with few to say so."""
    n_items = 50 * whole + left
    votes = Annotations.from_arrays(range(n_items), ["a"] * n_items, [0, *[1] * (n_items - 1)], classes=[0, 1])
    order = np.random.default_rng(0).permutation(n_items).tolist()
    batches = all_batches(votes, order, 50)
    sizes = [len(batch.rows) for batch in batches]
    assert len(sizes) == n_batches(n_items, 50) == whole + (left > 0)
    assert max(sizes) <= 50
    assert max(sizes) - min(sizes) <= 1
    assert [n for batch in batches for n in batch.rows.tolist()] == order


def test_no_items_give_no_batches() -> None:
    assert all_batches(some_votes(), [], 4) == []


def test_items_without_votes_give_a_batch_without_votes() -> None:
    (batch,) = all_batches(some_votes(), [4], 4)
    assert batch.rows.tolist() == [4]
    assert batch.entry.tolist() == []
    assert batch.sum_by_item(torch.zeros(0, 3)).tolist() == [[0, 0, 0]]


def test_votes_without_weights_weigh_one() -> None:
    (batch,) = all_batches(some_votes(weighted=False), [2, 0], 2)
    assert set(batch.weight.tolist()) == {1.0}
    assert batch.item_weight.tolist() == [1.0, 1.0]


def test_sums_by_item_by_hand() -> None:
    votes = Annotations.from_arrays([0, 0, 2], ["a", "b", "a"], ["x", "y", "x"], items=[0, 1, 2])
    batch = batch_of(votes, order=[2, 1, 0])
    # Votes in the order of the batch: item 2's, then both of item 0.
    assert batch.sum_by_item(torch.tensor([1.0, 10.0, 100.0])).tolist() == [1, 0, 110]
    assert batch.sum_by_item(torch.tensor([[1.0, 2], [3, 4], [5, 6]])).tolist() == [[1, 2], [0, 0], [8, 10]]


def test_the_joint_probability_of_an_items_votes_sums_over_its_label() -> None:
    """p(votes) = .6 x .9 x .2 + .4 x .3 x .5 = .168; item 1 has no vote and item 0 weighs three."""
    votes = Annotations.from_arrays([0, 0], ["a", "b"], ["x", "y"], items=[0, 1], classes=["x", "y"])
    evidence = torch.tensor([[0.9, 0.3], [0.2, 0.5]], dtype=torch.float64).log()
    log_f = torch.tensor([[0.6, 0.4], [0.1, 0.9]], dtype=torch.float64).log()
    joint = batch_of(votes, item_weight=[3.0, 5.0]).joint_log_prob(log_f, evidence)
    np.testing.assert_allclose(joint, [3 * np.log(0.168), 0], rtol=1e-12)
    assert batch_of(votes, item_weight=[0.0, 5.0]).joint_log_prob(log_f, evidence).tolist() == [0, 0]


def test_a_vote_of_weight_two_is_two_votes_in_the_joint_probability() -> None:
    votes = Annotations.from_arrays([0], ["a"], ["x"], [2.0], items=[0], classes=["x", "y"])
    log_f, log_r = (torch.tensor([row], dtype=torch.float64).log() for row in ([0.6, 0.4], [0.9, 0.3]))
    joint = batch_of(votes).joint_log_prob(log_f, log_r)
    np.testing.assert_allclose(joint.exp(), [0.6 * 0.81 + 0.4 * 0.09], rtol=1e-12)


def test_annotator_and_label_survive_many_of_both() -> None:
    """A thousand annotators and a hundred classes: entry = annotator * K + label."""
    rng = np.random.default_rng(0)
    item, annotator, label = np.arange(500) % 50, rng.integers(0, 1000, 500), rng.integers(0, 100, 500)
    votes = Annotations.from_arrays(item, annotator, label, items=range(50), annotators=range(1000), classes=range(100))
    batch = batch_of(votes)
    np.testing.assert_array_equal(batch.annotator, votes.annotator)
    np.testing.assert_array_equal(batch.label, votes.label)


def test_the_votes_of_the_user_are_not_touched() -> None:
    votes = some_votes()
    kept = votes.item_ptr.copy(), votes.row.copy(), votes.weight.copy() if votes.weight is not None else None
    batch = batch_of(votes, item_weight=np.full(5, 2.0))
    batch.joint_log_prob(random_logits(0, 5, 3), random_logits(0, votes.n_votes, 3))
    batch.weight.mul_(0)
    batch.entry.mul_(0)
    np.testing.assert_array_equal(votes.item_ptr, kept[0])
    np.testing.assert_array_equal(votes.row, kept[1])
    np.testing.assert_array_equal(votes.weight, kept[2])
