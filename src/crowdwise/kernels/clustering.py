"""A deterministic k-means for a few thousand annotators: where mixtures of annotators start."""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.types import Floats

__all__ = ["soft_clusters"]


_ROUNDS = 25
# A start must not decide: a tenth of every member is spread over all clusters.
_CERTAINTY = 0.9


def soft_clusters(counts_alk: Floats, n_clusters: int) -> Floats:
    """Memberships of annotators by their smoothed confusion rows, [A, J].

    Rows are pulled to the pooled ones by one pseudo-vote each, so annotators with few votes lie near the
    middle and seed no cluster. Seeds are chosen farthest-first from the annotator with most votes; then
    Lloyd's rounds, weighted by votes. Nothing is drawn at random; ties go to the lowest index.
    """
    pooled = counts_alk.sum(axis=0) + 1 / counts_alk.shape[1]
    pooled = pooled / pooled.sum(axis=0)
    rows = counts_alk + pooled
    points = (rows / rows.sum(axis=1, keepdims=True)).reshape(len(rows), -1)
    weight = counts_alk.sum(axis=(1, 2))
    centres = [points[int(weight.argmax())]]
    for _ in range(n_clusters - 1):
        distance = np.min([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
        centres.append(points[int(distance.argmax())])
    nearest = np.zeros(len(points), np.int64)
    for _ in range(_ROUNDS):
        before = nearest
        nearest = np.stack([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=1).argmin(axis=1)
        for j in range(n_clusters):
            mass = weight * (nearest == j)
            if mass.sum() > 0:
                centres[j] = mass @ points / mass.sum()
        if (nearest == before).all():
            break
    members = np.full((len(points), n_clusters), (1 - _CERTAINTY) / n_clusters)
    members[np.arange(len(points)), nearest] += _CERTAINTY
    return members
