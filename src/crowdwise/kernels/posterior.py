"""Small operations on a posterior over labels, [N, K]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["clamp", "harden"]

Floats = NDArray[np.float64]


def clamp(posterior: Floats, known: NDArray[Any]) -> None:
    """Set the rows of items whose label is given to that label, in place."""
    if len(known):
        given = np.flatnonzero(known >= 0)
        posterior[given] = 0.0
        posterior[given, known[given]] = 1.0


def harden(posterior: Floats) -> Floats:
    """All mass on the highest entry of each row (the lowest index among equals)."""
    hard = np.zeros_like(posterior)
    hard[np.arange(len(posterior)), posterior.argmax(axis=1)] = 1.0
    return hard
