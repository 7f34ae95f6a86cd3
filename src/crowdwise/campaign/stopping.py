"""When to stop; how much is still to ask is in `crowdwise.campaign.planning`.

A target is reached when at least that share of the labels is right with a stated probability, over crowds and over the luck of
these items (`crowdwise.campaign.right_labels`). With a probability of 0.95 that is the lower end of the range which holds in
nine crowds of ten. What is said rests on experience with other crowds; of this crowd only checked labels can tell, and a
campaign may have some drawn (`crowdwise.campaign.certified`).
"""

from __future__ import annotations

import math

from crowdwise.campaign.planning import Plan, plan
from crowdwise.campaign.right_labels import chance_of, right_labels, unknown_for
from crowdwise.errors import check_share
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Integers

__all__ = ["RANGE", "Plan", "accuracy_words", "chance_of", "expected_accuracy", "plan", "reached", "unknown_for"]

# Of crowds, in the range that is printed.
RANGE = 0.9


def expected_accuracy(result: Result, level: float = RANGE, items: Integers | None = None) -> tuple[float, float, float]:
    """Expected share of right labels, of all items or of those at some positions, and its range in so many crowds.

    The range is 0 to 1 where votes cannot tell who is right; see `crowdwise.campaign.right_labels`.
    """
    confidence = result.confidence if items is None else result.confidence[items]
    if not len(confidence):
        return math.nan, math.nan, math.nan
    found = right_labels(result, items)
    return float(confidence.mean()), found.quantile((1 - level) / 2), found.quantile((1 + level) / 2)


def reached(result: Result, target: float, probability: float = 0.95, items: Integers | None = None) -> bool:
    """Whether the target is reached with that probability."""
    for name, value in (("target", target), ("probability", probability)):
        check_share(name, value)
    return chance_of(result, target, items) >= probability


def accuracy_words(result: Result, items: Integers | None = None) -> str:
    """What is thought of the labels now, in words."""
    unknown = unknown_for(result, items)
    if unknown:
        return f"expected accuracy unknown: {unknown}"
    mean, low, high = expected_accuracy(result, items=items)
    if result.confidence_source == "experience":
        return f"expected accuracy {mean:.0%}, in nine of ten crowds between {low:.0%} and {high:.0%}"
    basis = "if the model is right" if result.confidence_source == "model" else f"by {result.confidence_source}"
    return f"expected accuracy {mean:.0%} (90% interval {low:.0%} to {high:.0%}, {basis})"
