"""Annotators in groups and communities, and groups of items: compiled loops and kept layouts equal plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.parts.annotators import communities, groups
from crowdwise.parts.annotators.communities import CommunityConfusion
from crowdwise.parts.annotators.groups import GroupConfusion
from crowdwise.parts.annotators.item_groups import ItemGroupConfusion

N_ITEMS, N_ANNOTATORS, N_CLASSES = 14, 8, 3


def problem(seed: int, weighted: bool) -> tuple[Annotations, np.ndarray]:
    rng = np.random.default_rng(seed)
    item, annotator = (part.ravel() for part in np.indices((N_ITEMS - 1, N_ANNOTATORS)))
    kept = rng.random(len(item)) < 0.7
    votes = Annotations.from_arrays(
        item[kept],
        annotator[kept],
        rng.integers(0, N_CLASSES, int(kept.sum())),
        items=np.arange(N_ITEMS),
        annotators=np.arange(N_ANNOTATORS),
        classes=np.arange(N_CLASSES),
        weight=rng.uniform(0.1, 2, int(kept.sum())) if weighted else None,
    )
    posterior = rng.dirichlet(np.full(N_CLASSES, 0.4), N_ITEMS)
    posterior[0] = np.eye(N_CLASSES)[1]
    return votes, posterior


def rounds(model: Any, votes: Annotations, posterior: np.ndarray) -> list[np.ndarray]:
    """Posterior and bound after each of three rounds."""
    posterior, found = posterior.copy(), []
    for _ in range(3):
        model = model.update(votes, posterior)
        evidence, _ = model.infer(votes, np.log(np.full((1, N_CLASSES), 1 / 3)), np.empty(0, np.int16), posterior)
        found += [posterior.copy(), np.array([evidence - model.penalty()])]
    return [*found, model.confusion()]


def equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("group_a", [[0, 0, 1, 1, 1, -1, -1, 0], [-1] * 8])
def test_groups(group_a: list[int], weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    votes, posterior = problem(0, weighted)
    prior_kc = np.where(np.eye(N_CLASSES, dtype=bool), 4.0, 0.0)
    found = []
    for compiled_from in (0, 10**9):
        monkeypatch.setattr(groups, "COMPILED_FROM", compiled_from)
        model = GroupConfusion.start(np.full((1, N_CLASSES, N_CLASSES), 0.2), prior_kc, np.array(group_a))
        found.append([*rounds(model, votes, posterior), model.update(votes, posterior).pooled_lk])
    equal(*found)


def test_another_grouping_of_the_same_votes_is_sorted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, posterior = problem(1, weighted=False)
    prior_kc = np.where(np.eye(N_CLASSES, dtype=bool), 4.0, 0.0)
    monkeypatch.setattr(groups, "COMPILED_FROM", 0)
    start = GroupConfusion.start
    models = [start(np.full((1, 3, 3), 0.2), prior_kc, np.array(codes)) for codes in ([0, 0, 0, -1] * 2, [-1, 0, -1, 0] * 2)]
    first = [rounds(model, votes, posterior)[0] for model in models]
    assert np.abs(first[0] - first[1]).max() > 1e-3
    again = rounds(models[0], votes, posterior)[0]
    np.testing.assert_array_equal(again, first[0])


@pytest.mark.parametrize("weighted", [False, True])
def test_communities(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    votes, posterior = problem(2, weighted)
    eta0 = np.where(np.eye(N_CLASSES, dtype=bool), 4.0, 0.5)
    earlier = np.random.default_rng(0).uniform(0, 2, (N_ANNOTATORS, N_CLASSES, N_CLASSES))
    found = []
    for compiled_from in (0, 10**9):
        monkeypatch.setattr(communities, "_COMPILED_FROM", compiled_from)
        found.append(rounds(CommunityConfusion.start(earlier, eta0, 3, 1.0), votes, posterior))
    equal(*found)


def test_groups_of_items_follow_the_votes_and_the_pairs() -> None:
    votes, posterior = problem(3, weighted=False)
    base = np.where(np.eye(N_CLASSES, dtype=bool), 4.0, 1.0)
    parents = np.repeat(base[None], N_ANNOTATORS, axis=0)
    for group_n in (np.arange(N_ITEMS) % 2, np.arange(N_ITEMS) // 7, np.arange(N_ITEMS) % 2):
        model = ItemGroupConfusion.start(votes, group_n, 2, parents, base).update(votes, posterior)
        for p, (a, s) in enumerate(zip(model.pair_a, model.pair_s, strict=True)):
            counts = np.zeros((N_CLASSES, N_CLASSES))
            for e in np.flatnonzero((votes.annotator == a) & (group_n[votes.item] == s)):
                counts[votes.label[e]] += posterior[votes.item[e]]
            np.testing.assert_allclose(model.beta_plk[p], base + counts)
