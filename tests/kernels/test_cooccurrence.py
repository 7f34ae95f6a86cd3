"""Co-occurrence counts against plain loops, and the small array helpers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import small_votes

import crowdwise.kernels.cooccurrence as kernels
from crowdwise.data.annotations import Annotations
from crowdwise.engines.moments import Cooccurrence
from crowdwise.engines.triples import sample_triples


def by_loops(votes: Annotations) -> dict[tuple[int, int], np.ndarray]:
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    blocks: dict[tuple[int, int], np.ndarray] = {}
    for e in range(votes.n_votes):
        for f in range(votes.n_votes):
            a, b = int(votes.annotator[e]), int(votes.annotator[f])
            if votes.item[e] == votes.item[f] and a < b and weight[e] * weight[f] > 0:
                block = blocks.setdefault((a, b), np.zeros((votes.n_classes, votes.n_classes)))
                block[votes.label[e], votes.label[f]] += weight[e] * weight[f]
    return blocks


@given(
    votes=small_votes(),
    weights=st.sampled_from([None, (1.0, 2.0), (0.0, 1.0), (0.5, 3.0)]),
    chunk=st.sampled_from([2, 4_000_000]),
)
def test_pairs_equal_plain_loops(votes: Annotations, weights: tuple[float, float] | None, chunk: int) -> None:
    if weights is not None:
        names = votes.items[votes.item], votes.annotators[votes.annotator], votes.classes[votes.label]
        weight = np.where(np.arange(votes.n_votes) % 2, *weights)
        votes = Annotations.from_arrays(*names, weight, items=votes.items, annotators=votes.annotators, classes=votes.classes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_EVENTS_PER_CHUNK", chunk)
        moments = Cooccurrence.of(votes)
    expected = by_loops(votes)
    assert list(zip(moments.first.tolist(), moments.second.tolist(), strict=True)) == sorted(expected)
    everything = np.arange(len(moments.met_p))
    np.testing.assert_allclose(
        moments.blocks(everything), np.array([expected[p] for p in sorted(expected)]).reshape(-1, *(votes.n_classes,) * 2)
    )
    np.testing.assert_allclose(moments.blocks(everything[::-1]), moments.blocks(everything)[::-1])
    np.testing.assert_allclose(moments.met_p, [expected[p].sum() for p in sorted(expected)])
    np.testing.assert_allclose(moments.agreement(), [np.trace(expected[p]) / expected[p].sum() for p in sorted(expected)])
    used = np.zeros((votes.n_annotators, votes.n_classes))
    np.add.at(used, (votes.annotator, votes.label), 1.0 if votes.weight is None else votes.weight)
    np.testing.assert_allclose(moments.count_al, used)
    symmetric = moments.both_ways(moments.count_c).toarray()
    np.testing.assert_allclose(symmetric, symmetric.T)
    assert symmetric.sum() == pytest.approx(2 * moments.count_c.sum())


@given(votes=small_votes(max_items=4), seed=st.integers(0, 3))
def test_triples_equal_plain_loops(votes: Annotations, seed: int) -> None:
    found = sample_triples(votes, np.random.default_rng(seed), per_annotator=9, min_met=0)
    for (a, b, c), count in zip(found.ends.tolist(), found.count, strict=True):
        assert a < b < c
        expected = np.zeros((votes.n_classes,) * 3)
        for n in range(votes.n_items):
            labels = [votes.label[(votes.item == n) & (votes.annotator == who)] for who in (a, b, c)]
            for i in labels[0]:
                for j in labels[1]:
                    for l in labels[2]:
                        expected[i, j, l] += 1
        np.testing.assert_allclose(count, expected)
        assert count.sum() > 0


@pytest.mark.parametrize("weights", [False, True])
def test_triples_left_out_before_they_are_counted_are_those_that_met_too_seldom(weights: bool) -> None:
    rng = np.random.default_rng(3)
    item, annotator, label = rng.integers(0, 40, 500), rng.integers(0, 9, 500), rng.integers(0, 2, 500)
    # Repeated and weighted votes: some triples meet more often than their pairs.
    weight = rng.choice([0.0, 0.5, 3.0], 500) if weights else None
    votes = Annotations.from_arrays(item, annotator, label, weight=weight)
    moments = Cooccurrence.of(votes)
    total = np.zeros((40, 9))
    np.add.at(total, (item, annotator), 1.0 if weight is None else weight)
    met = np.einsum("na,nb,nc->abc", total, total, total)
    pairs = np.einsum("na,nb->ab", total, total)
    middle = float(np.median(met[np.triu_indices(9, 1)]))
    for least in (0.0, middle, 2 * middle, 1e6):
        drawn = sample_triples(votes, np.random.default_rng(0), 60, 0.0)
        kept = sample_triples(votes, np.random.default_rng(0), 60, least, moments.between(moments.met_p))
        expected = [ends for ends in drawn.ends.tolist() if met[tuple(ends)] >= least]
        assert kept.ends.tolist() == expected
    assert any(met[a, b, c] > max(pairs[a, b], pairs[a, c], pairs[b, c]) for a, b, c in drawn.ends.tolist())


def test_simplex_projection_is_the_nearest_distribution() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 4))
    found = kernels.simplex_projection(values)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found >= 0).all()
    # Optimality: no distribution lies in the direction of the residual.
    for other in rng.dirichlet(np.ones(4), size=50):
        assert ((values - found) * (other - found)).sum(axis=1).max() < 1e-9
    inside = rng.dirichlet(np.ones(4), size=5)
    np.testing.assert_allclose(kernels.simplex_projection(inside), inside)


def test_trimmed_mean_cuts_weight_at_both_ends() -> None:
    group = np.array([0, 0, 0, 0, 0, 2, 2])
    values = np.array([5.0, 1.0, 2.0, 100.0, 3.0, 4.0, 8.0])
    found = kernels.trimmed_mean(group, values, np.ones(7), 3, trim=0.2)
    np.testing.assert_allclose(found[[0, 2]], [10 / 3, 6.0])
    assert np.isnan(found[1])
    # Nearly everything cut: the median; weights are repeated votes.
    assert kernels.trimmed_mean(group, values, np.ones(7), 3, trim=0.499)[0] == pytest.approx(3.0)
    heavy = kernels.trimmed_mean(np.zeros(2, int), np.array([1.0, 4.0]), np.array([3.0, 1.0]), 1, trim=0.25)
    assert heavy[0] == pytest.approx(1.0)
