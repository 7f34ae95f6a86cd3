"""Crowds with known truth and known dependence."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations


def teams(n: int, sizes: list[int], sees: float, repeats: float, seed: int, k: int = 2) -> tuple[Annotations, np.ndarray]:
    """Teams see an item once, rightly with probability `sees`; members repeat what was seen with probability `repeats`."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)

    def or_else(share: float, label: np.ndarray) -> np.ndarray:
        return np.where(rng.random(n) < share, label, (label + rng.integers(1, k, n)) % k)

    seen = [or_else(sees, truth) for _ in sizes]
    labels = [or_else(repeats, seen[team]) for team, size in enumerate(sizes) for _ in range(size)]
    who = np.repeat(np.arange(len(labels)), n)
    return Annotations.from_arrays(np.tile(np.arange(n), len(labels)), who, np.concatenate(labels)), truth


def calibrated(n: int, k: int, seed: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities from a Dirichlet and classes drawn from them: calibrated by construction."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(k, spread), n)
    truth = (rng.random((n, 1)) > np.cumsum(q, axis=1)).sum(axis=1)
    return q, np.minimum(truth, k - 1)
