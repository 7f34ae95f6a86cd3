"""A simulated crowd on Gaussian classes, for the comparison of libraries."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations


def blobs(seed: int, n: int = 20_000, k: int = 10, width: int = 64, annotators: int = 100, per_item: int = 10):
    """(X, votes, X_test, y_test): annotators are right in half to nine tenths of their votes."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(k, width))
    y = rng.integers(k, size=n + 5000)
    X = (centre[y] + 2.5 * rng.normal(size=(len(y), width))).astype(np.float32)
    who = np.argpartition(rng.random((n, annotators)), per_item, axis=1)[:, :per_item]
    right = rng.random((n, per_item)) < rng.uniform(0.5, 0.9, annotators)[who]
    label = np.where(right, y[:n, None], rng.integers(k, size=(n, per_item)))
    votes = Annotations.from_arrays(
        item=np.repeat(np.arange(n), per_item), annotator=who.ravel(), label=label.ravel(), classes=list(range(k))
    )
    return X[:n], votes, X[n:], y[n:]
