"""Whether the fitted classes carry each other's names."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np

from crowdwise.data.crowd import Crowd
from crowdwise.errors import DataWarning
from crowdwise.kernels.types import Floats

__all__ = ["warn_if_switched"]


class Fitted(Protocol):
    """A fit that says how annotators confuse classes."""

    @property
    def votes(self) -> Crowd: ...
    @property
    def annotators(self) -> Any: ...
    @property
    def confusion(self) -> Floats: ...


def warn_if_switched(result: Fitted) -> None:
    """The likelihood does not change when classes are renamed; warn if another naming fits the votes better."""
    n_classes = result.votes.n_classes
    if n_classes < 2 or result.votes.n_votes == 0 or result.annotators.confusion() is None:
        return
    pooled = np.einsum("a,akl->kl", result.votes.votes_per_annotator.astype(float), result.confusion)
    if (pooled.argmax(axis=1) == np.arange(n_classes)).all():
        return
    from scipy.optimize import linear_sum_assignment

    rows, best = linear_sum_assignment(-pooled)
    if pooled[rows, best].sum() > np.trace(pooled) * (1 + 1e-6):
        moved = ", ".join(
            f"{result.votes.classes[k]} -> {result.votes.classes[b]}" for k, b in zip(rows, best, strict=True) if k != b
        )
        warnings.warn(
            f"the fitted classes look renamed ({moved}): most annotators would be more often right under other names; "
            "give some gold labels, or use a stronger prior",
            DataWarning,
            stacklevel=4,
        )
