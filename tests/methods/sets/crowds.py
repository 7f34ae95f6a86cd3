"""Simulated sets of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.label_sets import LabelSets


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def set_crowd(
    seed: int, n_items: int = 200, n_annotators: int = 20, n_labels: int = 6, per_item: int = 4, together: bool = False
) -> tuple[LabelSets, np.ndarray, np.ndarray, np.ndarray]:
    """Answers, true sets [N, K], and sensitivity and specificity [A, K]; `together`: labels come in four patterns."""
    rng = np.random.default_rng(seed)
    if together:
        patterns = rng.random((4, n_labels)) < 0.4
        truth = patterns[rng.integers(0, 4, n_items)] ^ (rng.random((n_items, n_labels)) < 0.05)
    else:
        truth = rng.random((n_items, n_labels)) < rng.uniform(0.1, 0.5, n_labels)
    shape = (n_annotators, n_labels)
    sensitivity = sigmoid(1 + rng.normal(0, 1, n_annotators)[:, None] + rng.normal(0, 0.4, shape))
    specificity = sigmoid(1.5 + rng.normal(0, 0.6, n_annotators)[:, None] + rng.normal(0, 0.4, shape))
    annotator = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :per_item].ravel()
    item = np.repeat(np.arange(n_items), per_item)
    draw = rng.random((len(item), n_labels))
    said = np.where(truth[item], draw < sensitivity[annotator], draw > specificity[annotator])
    names = np.array([f"l{k}" for k in range(n_labels)], dtype=object)
    answers = LabelSets.from_arrays(item, annotator, [names[row].tolist() for row in said], labels=names.tolist())
    return answers, truth, sensitivity, specificity
