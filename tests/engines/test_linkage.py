"""Average linkage beside a search over all pairs of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.data.meetings import answers_of
from crowdwise.data.simulate import simulate
from crowdwise.engines.independence import Agreement, Background, agreement_of, weighted_quantile
from crowdwise.engines.linkage import linked


def searched(pairs: Agreement, background: Background, least: float) -> set[tuple[int, ...]]:
    """Merge the closest two clusters again and again, every closeness from its own pairs."""
    excess = pairs.beyond - background.explained
    z = excess / np.sqrt(background.variance)
    tied = z > 2
    clusters = [(int(a),) for a in np.unique(np.concatenate([pairs.first[tied], pairs.second[tied]]))]

    def closeness(one: tuple[int, ...], two: tuple[int, ...]) -> float:
        between = (np.isin(pairs.first, one) & np.isin(pairs.second, two)) | (
            np.isin(pairs.first, two) & np.isin(pairs.second, one)
        )
        weight = 1 / background.variance[between]
        if not between.any():
            return -np.inf
        total = (weight * excess[between]).sum()
        ratio = total / np.sqrt(weight.sum())
        room = (weight * np.maximum(1 - background.explained[between], 0.05)).sum()
        return total / room * (1 - 1 / ratio) if ratio > 2 else -np.inf

    while len(clusters) > 1:
        scores = {
            (i, j): closeness(clusters[i], clusters[j]) for i in range(len(clusters)) for j in range(i + 1, len(clusters))
        }
        i, j = max(scores, key=scores.__getitem__)
        if scores[i, j] < least:
            break
        clusters[i] = clusters[i] + clusters[j]
        del clusters[j]
    return {tuple(sorted(cluster)) for cluster in clusters if len(cluster) > 1}


@pytest.mark.parametrize("seed", range(4))
def test_clusters_are_those_of_a_full_search(seed: int) -> None:
    mix = {"one-coin": 0.6, "colluder": 0.4}
    votes = simulate(150, 14, 3, 7, mix, options={"colluder": {"accuracy": 0.4}}, random_state=seed).votes
    pairs = agreement_of(answers_of(votes))
    background = pairs.explained_by_skill(pairs.unit_variance(0.3), np.zeros(len(pairs.first), bool), pairs.level(0.25))
    found = linked(pairs, background, 0.05)
    assert found
    assert {tuple(members.tolist()) for members in found} == searched(pairs, background, 0.05)


def test_skill_of_independent_annotators_is_recovered() -> None:
    # Symmetric one-coin annotators of accuracy p agree beyond chance by the product of (3 p - 1) / 2.
    rng = np.random.default_rng(0)
    accuracy = rng.uniform(0.5, 0.95, size=12)
    confusion = np.full((12, 3, 3), ((1 - accuracy) / 2)[:, None, None])
    confusion[:, np.arange(3), np.arange(3)] = accuracy[:, None]
    pairs = agreement_of(answers_of(simulate(4000, annotators=confusion, votes_per_item=12, random_state=0).votes))
    background = pairs.explained_by_skill(pairs.unit_variance(0.3), np.zeros(len(pairs.first), bool), pairs.level(0.5))
    np.testing.assert_allclose(background.skill, (3 * accuracy - 1) / 2, atol=0.03)
    assert background.misfit < 1e-3


def test_weighted_quantile_is_that_of_repeated_values() -> None:
    values, weight = np.array([3.0, 1.0, 2.0]), np.array([1.0, 5.0, 4.0])
    assert weighted_quantile(values, weight, 0.5) == 1.0
    assert weighted_quantile(values, weight, 0.6) == 2.0
    assert weighted_quantile(values, weight, 0.95) == 3.0
