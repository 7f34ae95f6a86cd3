"""What a calibrator is: a fitted value that turns probabilities into better ones, for arrays and for results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.known_items import known_items

__all__ = ["Calibrator", "ProbabilityMap", "known_of", "with_posterior"]


class Calibrator(Protocol):
    """Turns a result into one whose confidence is nearer the truth."""

    def result(self, result: Result) -> Result:
        """Return `result` with another posterior; everything else is kept."""
        ...


class ProbabilityMap:
    """Base of the calibrators that need nothing but the probabilities: of labels, or a classifier's ``predict_proba``."""

    def apply(self, probability: ArrayLike) -> Floats:
        """Calibrated probabilities, [N, K]."""
        raise NotImplementedError

    def result(self, result: Result) -> Result:
        """Return `result` with its posterior calibrated; known labels and items without votes stay as they are."""
        return with_posterior(result, self.apply(result.posterior))


def with_posterior(result: Result, posterior: Floats, source: str = "gold") -> Result:
    """`result` with another posterior, [N, K], and where it comes from, except where a label is known or nobody voted.

    A known label is no estimate; and an item without votes has the class shares, which no vote has sharpened.
    """
    kept = (result.votes.votes_per_item == 0) | result.votes.is_known
    believed = np.where(kept[:, None], result.posterior, posterior)
    return replace(result, posterior=believed, inferred=result.model_posterior, confidence_source=source)


def known_of(probability: ArrayLike, truth: Any, least: int = 2) -> tuple[Floats, Integers]:
    """Probabilities and classes of the items whose class is known, checked: [M, K] and [M]."""
    q_mk, z_m = known_items(probability, truth)
    if len(z_m) < least:
        raise InputError(
            f"the class of {len(z_m)} item{'s' * (len(z_m) != 1)} is known; calibration needs at least {least}: add true labels"
        )
    return q_mk, z_m
