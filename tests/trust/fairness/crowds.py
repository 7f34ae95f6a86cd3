"""Crowds that err differently on two groups of items, with everything that produced them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations


@dataclass(frozen=True)
class Crowd:
    votes: Annotations
    group: NDArray[np.int64]
    truth: NDArray[np.int64]
    confusion: NDArray[np.float64]  # [A, G, K, L]

    @property
    def gold(self) -> dict[Any, Any]:
        return dict(zip(self.votes.items.tolist(), self.votes.classes[self.truth].tolist(), strict=True))


def biased_crowd(
    seed: int,
    n_items: int = 600,
    n_annotators: int = 20,
    per_item: int = 5,
    bias: float = 0.25,
    biased: float = 0.5,
    shares: tuple[float, float] = (0.5, 0.3),
    small: float = 0.3,
) -> Crowd:
    """A share `biased` of the annotators misses positives of group 1 more often than those of group 0, by `bias`."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n_items) < small).astype(np.int64)
    truth = (rng.random(n_items) < np.array(shares)[group]).astype(np.int64)
    right = np.repeat(rng.uniform(0.65, 0.9, (n_annotators, 1, 2)), 2, axis=1)
    right[: round(biased * n_annotators), 1, 1] -= bias
    confusion = np.empty((n_annotators, 2, 2, 2))
    for k in range(2):
        confusion[:, :, k, k], confusion[:, :, k, 1 - k] = right[:, :, k], 1 - right[:, :, k]
    item = np.repeat(np.arange(n_items), per_item)
    who = np.concatenate([rng.choice(n_annotators, per_item, replace=False) for _ in range(n_items)])
    label = (rng.random(len(item)) < confusion[who, group[item], truth[item], 1]).astype(int)
    votes = Annotations.from_arrays(item, who, label, items=range(n_items), annotators=range(n_annotators), classes=[0, 1])
    return Crowd(votes, group, truth, confusion)
