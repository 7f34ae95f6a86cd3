"""Jaffe's score of two annotators: whether their covariances with the others fit one common cause; two classes.

    s_ab = sum over c, d other than a, b of |Q_ab Q_cd - Q_ad Q_cb|,   Q the covariance of votes -1, +1

For independent annotators Q_ab = v_a v_b off the diagonal, and every term is zero. It stays large where a and b belong to one
group, whose covariance has a second cause. Groups are clusters of s: k-means of the first eigenvectors of its normalised
Laplacian.

Notes
-----
How many groups there are is given; `crowdwise.trust.crowd.dependence.find` needs no number, and tests what it finds. Pairs that
never met count as uncorrelated. Cost: O(A^4), so at most 300 annotators.

References
----------
Jaffe, Fetaya, Nadler, Jiang and Kluger (2016), Unsupervised ensemble learning with dependent classifiers, AISTATS.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of, pair_sums
from crowdwise.errors import InputError, SettingError
from crowdwise.kernels.types import Floats

__all__ = ["groups", "pair_scores"]


_MOST = 300


def groups(votes: Annotations, n_groups: int, *, random_state: int | None = 0) -> dict[Any, int]:
    """Annotator -> group, for the setting `groups` of group-aware methods: so many clusters of the pair scores."""
    from scipy.cluster.vq import kmeans2

    if not 1 < n_groups <= votes.n_annotators:
        raise SettingError(f"n_groups must be between 2 and the number of annotators; got {n_groups!r}")
    scores = pair_scores(votes)
    degree = np.sqrt(np.maximum(scores.sum(axis=1), 1e-300))
    _, vectors = np.linalg.eigh(scores / degree[:, None] / degree)
    rows = vectors[:, -n_groups:]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    _, cluster = kmeans2(rows, n_groups, minit="++", iter=50, rng=np.random.default_rng(random_state))
    return dict(zip(votes.annotators.tolist(), cluster.tolist(), strict=True))


def pair_scores(votes: Annotations) -> Floats:
    """s_ab of every pair, [A, A]; zero on the diagonal."""
    if votes.n_classes != 2:
        raise InputError(
            f"Jaffe's score needs two classes, these votes have {votes.n_classes}; dependence.find (the flag group of "
            "crowdwise annotators) takes any number"
        )
    if votes.n_annotators > _MOST:
        raise InputError(f"Jaffe's score takes {votes.n_annotators}^4 steps; it is for {_MOST} annotators at most")
    size, answers = votes.n_annotators, answers_of(votes)
    sign = answers.share_cl[:, 1] - answers.share_cl[:, 0]
    met = pair_sums(answers, lambda i, j: np.column_stack([sign[i] * sign[j], sign[i], sign[j]]), 3)
    product, first, second = met.sums.T / met.n_items
    covariance = np.zeros((size, size))
    covariance[met.first, met.second] = covariance[met.second, met.first] = product - first * second
    scores = np.zeros((size, size))
    for a in range(size):
        for b in range(a):
            rest = np.delete(np.arange(size), [b, a])
            terms = covariance[a, b] * covariance[np.ix_(rest, rest)] - np.outer(covariance[b, rest], covariance[a, rest])
            np.fill_diagonal(terms, 0)
            scores[a, b] = scores[b, a] = np.abs(terms).sum()
    return scores
