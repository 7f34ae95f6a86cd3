"""Uncertainty of labels, and what one answer is expected to gain: plain array functions.

Symbols
-------
q_nk : [N, K]           what is known of the labels
confusion_akl : [A, K, L]
    P(observed l | true k): the posterior mean. It gives the predictive distribution of one answer exactly, for
    p(y = l | z = k) = E R_a[k, l].
"""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Array, Floats

__all__ = ["ambiguity", "entropy", "error", "error_reduction", "information", "rightness", "vote_entropy"]


_FLOOR = 1e-300


def entropy(q_nk: Floats) -> Floats:
    """-sum q log q, [N], in nats."""
    return np.asarray(-(q_nk * log_floored(q_nk)).sum(axis=-1))


def ambiguity(q_nk: Floats) -> Floats:
    """One less the lead of the first class over the second, [N]."""
    if q_nk.shape[-1] < 2:
        return np.zeros(q_nk.shape[:-1])
    top = np.partition(q_nk, -2, axis=-1)[..., -2:]
    return np.asarray(1 - (top[..., 1] - top[..., 0]))


def error(q_nk: Floats) -> Floats:
    """Probability that the best class is wrong, [N]."""
    return np.asarray(1 - q_nk.max(axis=-1))


def information(q_nk: Floats, confusion_akl: Floats) -> Floats:
    """Mutual information of an item's label and one answer, H(y) - H(y | z), [N, A], in nats."""
    gain = -(q_nk @ entropy(confusion_akl).T)
    # Label by label: an [N, A, L] array would be strided, and its logarithms take all the time there is.
    for observed in range(confusion_akl.shape[2]):
        said = q_nk @ confusion_akl[:, :, observed].T
        # 0 log 0 = 0: the floor only keeps the logarithm finite.
        surprise = np.log(np.maximum(said, _FLOOR))
        surprise *= said
        gain -= surprise
    return np.asarray(np.maximum(gain, 0))


def error_reduction(q_nk: Floats, confusion_akl: Floats) -> Floats:
    """Expected drop of the error by one answer, sum_l max_k q_k R[k, l] - max_k q_k, [N, A]."""
    total = np.zeros((len(q_nk), len(confusion_akl)))
    for observed in range(confusion_akl.shape[2]):
        best = np.zeros_like(total)
        for true in range(q_nk.shape[1]):
            np.maximum(best, q_nk[:, true, None] * confusion_akl[None, :, true, observed], out=best)
        total += best
    return np.asarray(np.maximum(total - q_nk.max(axis=1, keepdims=True), 0))


def rightness(q_nk: Floats, confusion_akl: Floats) -> Floats:
    """Probability of a right answer about each item, sum_k q_k R[k, k], [N, A]."""
    return np.asarray(q_nk @ np.einsum("akk->ka", confusion_akl))


def vote_entropy(label: Array, item: Array, n_items: int, n_classes: int) -> Floats:
    """Entropy of the votes' own shares, [N]; 0 without votes."""
    counts = np.bincount(item.astype(np.int64) * n_classes + label, minlength=n_items * n_classes).reshape(n_items, n_classes)
    return entropy(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
