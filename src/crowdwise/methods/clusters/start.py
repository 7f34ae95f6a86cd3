"""Where clustering starts: leading eigenvectors of the centred answers, then k-means."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.clusters.pairs import Pairs

__all__ = ["k_means", "spectral_start"]


# A start must not decide: a part of every item is spread over all clusters.
_CERTAINTY = 0.8
_DENSE_BELOW = 200
_TRIES, _ROUNDS = 10, 50


def spectral_start(pairs: Pairs, n_clusters: int, rng: np.random.Generator) -> Floats:
    """Soft memberships, [N, K].

    On the pairs that were asked about, shares of "same" minus their mean, scaled by the items' numbers of pairs; its leading
    K - 1 eigenvectors separate K blocks.
    """
    share = pairs.share_same()
    value = share - share.mean() if len(share) else share
    degree = np.bincount(pairs.i, minlength=pairs.n_items) + np.bincount(pairs.j, minlength=pairs.n_items)
    value = value / np.sqrt(degree[pairs.i] * degree[pairs.j])
    rows, columns = np.concatenate([pairs.i, pairs.j]), np.concatenate([pairs.j, pairs.i])
    matrix = coo_array((np.concatenate([value, value]), (rows, columns)), shape=(pairs.n_items, pairs.n_items)).tocsr()
    size = max(n_clusters - 1, 1)
    if pairs.n_items < max(_DENSE_BELOW, 3 * size):
        vectors = np.linalg.eigh(matrix.toarray())[1][:, -size:]
    else:
        from scipy.sparse.linalg import eigsh

        vectors = eigsh(matrix, k=size, which="LA", v0=rng.random(pairs.n_items), tol=1e-4, maxiter=1000)[1]
    # Items asked about often have long rows; the direction is what tells clusters apart.
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    points = vectors / np.where(length > 0, length, 1.0) if size > 1 else vectors
    nearest = k_means(points, n_clusters, rng)
    start = np.full((pairs.n_items, n_clusters), (1 - _CERTAINTY) / n_clusters)
    start[np.arange(pairs.n_items), nearest] += _CERTAINTY
    return start


def k_means(points: Floats, n_clusters: int, rng: np.random.Generator) -> Integers:
    """The tightest of some runs of Lloyd's rounds, started by k-means++, [N]."""
    best, least = np.zeros(len(points), np.int64), np.inf
    for _ in range(_TRIES):
        centres = points[rng.integers(len(points))][None]
        while len(centres) < n_clusters:
            distance = _distances(points, centres).min(axis=1)
            total = distance.sum()
            weight = distance / total if total > 0 else None
            centres = np.vstack([centres, points[rng.choice(len(points), p=weight)]])
        nearest = np.full(len(points), -1)
        for _ in range(_ROUNDS):
            distance = _distances(points, centres)
            before, nearest = nearest, distance.argmin(axis=1)
            if (before == nearest).all():
                break
            size = np.bincount(nearest, minlength=n_clusters)
            sums = np.stack([np.bincount(nearest, weights=column, minlength=n_clusters) for column in points.T], axis=1)
            centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
        spread = float(distance.min(axis=1).sum())
        if spread < least:
            best, least = nearest, spread
    return best


def _distances(points: Floats, centres: Floats) -> Floats:
    """Squared distances, [N, K]."""
    square = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(square, 0.0))
