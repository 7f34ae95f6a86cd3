"""The compiled loop of `crowdwise.kernels.tilt`; imported only when a problem is large enough to pay for it."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np

from crowdwise.kernels.types import Floats, Integers
from crowdwise.kernels.vote_loops import compiled

__all__ = ["infer_items"]


@compiled
def infer_items(
    start: int,
    stop: int,
    item_ptr: Integers,
    row: Integers,
    weight: Floats,
    log_table: Floats,
    log_norm: Floats,
    discrimination: Floats,
    log_prior: Floats,
    known: Integers,
    share_f: Floats,
    evidence: Floats,
    top: Floats,
    posterior: Floats,
) -> None:
    """Posterior, evidence by discrimination and its largest logarithm of the items `start:stop`."""
    n_kinds, n_classes = log_norm.shape[1], log_table.shape[1]
    per_item = 1 if log_prior.shape[0] > 1 else 0
    plain, scores = np.empty(n_classes), np.empty((n_kinds, n_classes))
    for n in range(start, stop):
        for k in range(n_classes):
            plain[k] = 0.0
            for f in range(n_kinds):
                scores[f, k] = log_prior[n * per_item, k]
        for e in range(item_ptr[n], item_ptr[n + 1]):
            r = row[e]
            a = r // n_classes
            w = weight[e] if len(weight) else 1.0
            for k in range(n_classes):
                plain[k] += w * log_table[r, k]
            for f in range(n_kinds):
                for k in range(n_classes):
                    scores[f, k] -= w * log_norm[a, f, k]
        given = known[n] if len(known) else -1
        most = -np.inf
        for f in range(n_kinds):
            for k in range(n_classes):
                if given >= 0 and k != given:
                    scores[f, k] = -np.inf
                else:
                    scores[f, k] += discrimination[f] * plain[k]
                most = max(most, scores[f, k])
        total = 0.0
        for k in range(n_classes):
            posterior[n, k] = 0.0
        for f in range(n_kinds):
            evidence[n, f] = 0.0
            for k in range(n_classes):
                value = math.exp(scores[f, k] - most)
                evidence[n, f] += value
                posterior[n, k] += share_f[f] * value
                total += share_f[f] * value
        for k in range(n_classes):
            posterior[n, k] /= total
        top[n] = most
