"""Small crowds with features, for the classifiers on tables; nothing here needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.methods.labels.helpers import diagonal_crowd

from crowdwise.data.annotations import Annotations

__all__ = ["clouds", "diagonal_crowd", "vote"]


def clouds(seed: int, n_items: int, n_classes: int, n_columns: int = 4, gap: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian clouds whose centres lie `gap` standard deviations from the origin, at right angles: features and classes."""
    rng = np.random.default_rng(seed)
    n_columns = max(n_columns, n_classes)
    centres = gap * np.linalg.qr(rng.normal(size=(n_columns, n_columns)))[0][:n_classes]
    truth = rng.permutation(np.arange(n_items) % n_classes)
    return centres[truth] + rng.normal(size=(n_items, n_columns)), truth


def vote(seed: int, truth: np.ndarray, confusion_akl: Any, per_item: int | None = None) -> Annotations:
    """Votes by confusion matrices, [annotator, true, observed], of all or `per_item` annotators on every item."""
    rng = np.random.default_rng(seed)
    confusion = np.asarray(confusion_akl, float)
    n_annotators, n_classes, _ = confusion.shape
    per_item = n_annotators if per_item is None else per_item
    annotator = np.argsort(rng.random((len(truth), n_annotators)), axis=1)[:, :per_item].ravel()
    item = np.repeat(np.arange(len(truth)), per_item)
    label = (rng.random((len(item), 1)) > confusion[annotator, truth[item]].cumsum(axis=1)[:, :-1]).sum(axis=1)
    return Annotations.from_arrays(
        item, annotator, label, items=range(len(truth)), annotators=range(n_annotators), classes=range(n_classes)
    )
