"""How sure labels may be: what experience with real crowds makes of a model's posterior.

    q_n proportional to p_n^(1 / T_n),   T_n = (votes on n)^gamma

p is the posterior of the model. People who vote on the same item share mistakes, so that votes say less than models of
independent annotators believe, and the more votes, the less each. gamma, the *exponent* of a method, minimises the mean
log-loss over real sets with known labels. It is a statement about crowds in general: of this crowd only checked labels can
tell (`crowdwise audit`). On truly independent votes it is too cautious; `confidence="model"` leaves the posterior as it is.

Votes that are counted (`majority` and its relatives) know hard zeros, which no temperature can move; there one more vote is
counted first, divided by the class shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Floats

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations

__all__ = ["CONFIDENCES", "EXPONENTS", "EXPONENT_SD", "calibrated", "exponent_of", "tempered", "vote_mass"]

CONFIDENCES = ("experience", "model")

# The exponent of `consensus` comes from 35 real sets, of which 17 can be had here; these alone would say .46. The others were
# estimated on the 17 by `benchmarks/experience.py`, the mean log-loss over sets minimised, and .10 was added: crowds elsewhere
# are more dependent than these. Left out one at a time, sets move an exponent by .03 at most.
EXPONENTS: dict[str, float] = {"consensus": 0.55}
# For methods that are not in the table.
_OTHERS = 0.7
# Spread of the best exponent over sets.
EXPONENT_SD = 0.2


def exponent_of(method: str) -> float:
    """The exponent of a method by its name ("auto: mace" is mace's)."""
    return EXPONENTS.get(method.rpartition(": ")[2], _OTHERS)


def tempered(posterior: Floats, n_votes: Floats, exponent: float | Floats) -> Floats:
    """Rows of `posterior` to the power 1 / T, T = max(votes, 1)^exponent, normalised, [N, K]."""
    scores = log_floored(posterior) / (np.maximum(n_votes, 1.0) ** exponent)[:, None]
    scores -= scores.max(axis=1, keepdims=True, initial=-np.inf)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return np.asarray(scores)


def vote_mass(votes: Annotations) -> Floats:
    """Number of votes on every item, or their weight, [N]."""
    if votes.weight is None:
        return np.diff(votes.item_ptr).astype(float)
    return np.bincount(votes.item, weights=votes.weight, minlength=votes.n_items)


def calibrated(posterior: Floats, votes: Annotations, annotators: Any, class_shares: Floats, exponent: float) -> Floats:
    """The posterior of a fit as experience has it, [N, K]; known labels stay known."""
    mass = vote_mass(votes)
    if getattr(annotators, "additive_in", "") == "share":
        counted = (posterior * mass[:, None] + class_shares) / (mass[:, None] + 1)
        known = votes.gold is not None and (votes.gold >= 0)[:, None]
        posterior = np.where(known, posterior, counted)
    return tempered(posterior, mass, exponent)
