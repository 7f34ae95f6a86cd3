"""Crowds with known faults that `crowdwise.data.simulate` does not draw."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseWarning
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import make


def fit(votes: Annotations, method: str = "dawid-skene", **settings: Any) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        return make(method, **settings).fit(votes).result_


def symmetric(right: float, n_classes: int) -> np.ndarray:
    wrong = (1 - right) / (n_classes - 1)
    return np.full((n_classes, n_classes), wrong) + (right - wrong) * np.eye(n_classes)


def draw(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """A label from each row of probabilities."""
    return (rng.random((len(rows), 1)) > rows.cumsum(axis=1)[:, :-1]).sum(axis=1)


def grouped_crowd(
    seed: int, n_items: int = 5000, n_annotators: int = 40, n_classes: int = 3, n_groups: int = 5
) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Annotators answer what their group saw; return votes of everybody on everything, the truth and the groups."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_items)
    group = np.repeat(np.arange(n_groups), n_annotators // n_groups)
    seen = [draw(rng, symmetric(rng.uniform(0.6, 0.8), n_classes)[truth]) for _ in range(n_groups)]
    labels = [draw(rng, symmetric(rng.uniform(0.75, 0.95), n_classes)[seen[j]]) for j in group]
    item, annotator = np.tile(np.arange(n_items), n_annotators), np.repeat(np.arange(n_annotators), n_items)
    return Annotations.from_arrays(item, annotator, np.concatenate(labels)), truth, group
