"""Simulated crowds on items with features, on which the default of campaigns was chosen; `versus_active.py` has others.

Rows are the digits that come with scikit-learn (K = 10), Gaussian clusters (K = 4, three to a class), or two overlapping
Gaussians (K = 2). Annotators are *plain* (accuracies from 0.35 to 0.95), *habits* (confusion matrices with Dirichlet rows),
*spam* (every second one guesses) or *topics* (nearly always right on some clusters of the features, poor elsewhere).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.campaigns.active_curves import Answering, Crowd

N_TEST, N_ANNOTATORS = 400, 25
CROWDS = tuple(
    f"{rows}, {kind}" for rows in ("digits", "clusters", "overlap") for kind in ("plain", "habits", "spam", "topics")
)


@cache
def crowd_of(name: str, n_items: int, seed: int) -> Crowd:
    rows, kind = name.split(", ")
    rng = np.random.default_rng([11, seed, CROWDS.index(name)])
    X, truth, topic = {"digits": _digits, "clusters": _clusters, "overlap": _overlap}[rows](n_items + N_TEST, rng)
    n_classes = int(truth.max()) + 1
    confusion = _confusion(kind, topic[:n_items], n_classes, rng)
    said = _answers(confusion, truth[:n_items], rng)
    oracle = Answering(said, truth[:n_items], n_classes)
    return Crowd(oracle, X[:n_items], X[n_items:], truth[n_items:])


def _digits(size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA

    X, y = load_digits(return_X_y=True)
    chosen = rng.permutation(len(X))[:size]
    rows = PCA(20, random_state=0).fit_transform(X)[chosen]
    topic = KMeans(8, n_init=2, random_state=int(rng.integers(1000))).fit_predict(rows)
    return (rows / rows.std()).astype(np.float32), y[chosen], topic


def _clusters(size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    centre, topic = rng.normal(size=(12, 15)), rng.integers(12, size=size)
    return (centre[topic] + 0.8 * rng.normal(size=(size, 15))).astype(np.float32), topic % 4, topic


def _overlap(size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A linear classifier gets about 84 % right; topics have nothing to do with classes."""
    truth, topic = rng.integers(2, size=size), rng.integers(6, size=size)
    X = rng.normal(size=(size, 15))
    X[:, 0] += 2 * truth - 1
    X[:, 1:4] += 2 * rng.normal(size=(6, 3))[topic]
    return X.astype(np.float32), truth, topic


def _confusion(kind: str, topic: np.ndarray, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """P(observed | true) of every annotator, [A, N or 1, K, K]."""
    if kind == "habits":
        rows = rng.dirichlet(np.full(n_classes, 0.5), (N_ANNOTATORS, n_classes))
        right = rng.uniform(0.3, 0.9, N_ANNOTATORS)[:, None, None]
        return (right * np.eye(n_classes) + (1 - right) * rows)[:, None]
    right = rng.uniform(0.35, 0.95, (N_ANNOTATORS, 1))
    if kind == "spam":
        right[::2] = 1 / n_classes
    if kind == "topics":
        known = rng.random((N_ANNOTATORS, topic.max() + 1)) < 0.3
        right = np.where(known, 0.95, 1 / n_classes + 0.15)[:, topic]
    wrong = (1 - right) / (n_classes - 1)
    return wrong[:, :, None, None] + (right - wrong)[:, :, None, None] * np.eye(n_classes)


def _answers(confusion: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One answer of every annotator about every item, [N, A]."""
    drawn = rng.random((len(truth), len(confusion)))
    place = np.arange(len(truth)) if confusion.shape[1] > 1 else np.zeros(len(truth), int)
    said = np.stack([(drawn[:, a, None] > one[place, truth].cumsum(axis=1)).sum(axis=1) for a, one in enumerate(confusion)], 1)
    return np.minimum(said, confusion.shape[2] - 1)
