"""Pseudo-votes that make confusion rows look like the crowd's where an annotator has few votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crowdwise.annotators.protocol import counts_of

if TYPE_CHECKING:
    from crowdwise.annotations import Annotations

__all__ = ["crowd_smoothing"]

Floats = NDArray[np.float64]


def crowd_smoothing(votes: Annotations, posterior: Floats, smoothing: float) -> Floats:
    """Pseudo-votes for every confusion row, ``smoothing`` per class, that follow the crowd's row, [1, L, K].

    The crowd's rows are counted under a posterior of the labels, [N, K], and themselves shrunk by K pseudo-votes towards
    its accuracy with even errors, so a class that nobody saw starts near the truth.
    """
    n_classes = votes.n_classes
    counts_lk = counts_of(votes, posterior).sum(axis=0)
    right = (np.trace(counts_lk) + 1) / (counts_lk.sum() + 2)
    even_lk = np.full((n_classes, n_classes), (1 - right) / max(n_classes - 1, 1))
    np.fill_diagonal(even_lk, right)
    crowd_lk = counts_lk + n_classes * even_lk
    crowd_lk /= crowd_lk.sum(axis=0)
    return np.asarray(smoothing * n_classes * crowd_lk)[None]
