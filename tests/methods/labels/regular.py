"""Votes on random regular graphs, the setting in which message passing is analysed."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations


def regular_crowd(
    seed: int, n_items: int, per_item: int, per_annotator: int, ability: tuple[float, float], n_spammers: int = 0
) -> tuple[Annotations, np.ndarray]:
    """Two classes, accuracies from Beta(ability); spammers answer every item at random. Few pairs may repeat."""
    rng = np.random.default_rng(seed)
    n_annotators = n_items * per_item // per_annotator
    item = np.repeat(np.arange(n_items), per_item)
    annotator = rng.permutation(np.repeat(np.arange(n_annotators), per_annotator))
    item = np.concatenate([item, np.tile(np.arange(n_items), n_spammers)])
    annotator = np.concatenate([annotator, n_annotators + np.repeat(np.arange(n_spammers), n_items)])
    truth = rng.integers(0, 2, n_items)
    accuracy = np.append(rng.beta(*ability, n_annotators), np.full(n_spammers, 0.5))
    right = rng.random(len(item)) < accuracy[annotator]
    label = np.where(right, truth[item], 1 - truth[item])
    return Annotations.from_arrays(item, annotator, label, items=range(n_items), classes=[0, 1]), truth


def accuracy_with_ties(posterior: np.ndarray, truth: np.ndarray) -> float:
    """A tie counts as half."""
    tied = np.abs(posterior[:, 0] - 0.5) < 1e-9
    return float(np.where(tied, 0.5, posterior.argmax(axis=1) == truth).mean())
