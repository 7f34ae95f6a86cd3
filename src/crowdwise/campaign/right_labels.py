"""How many labels are right: a distribution over crowds, and over the luck of these items.

In a crowd like others the label of item n is right with probability p_n, its confidence. Crowds differ: some share more errors
than most. With L_n votes on the item and z a standard normal of this crowd,

    q_n proportional to p_n^(1 / T_n),   log T_n = z sqrt((a log L_n)^2 + b^2)

a is the spread of the exponent of `crowdwise.estimator.experience`, and b what the number of votes does not explain: without it
nobody would doubt an item with one vote. Of classifiers with features b alone is known, and is larger. Given z, the number of
right labels is a sum of independent trials, exact for small sets and normal for large ones; z runs over a grid with the weights
of a normal distribution.

The range holds at a stop as at any other moment, as far as experience does: given the votes, neither the rule that chose the
questions nor the one that ends the campaign says anything more about the labels, for both looked at nothing but the votes.
It says nothing while most items have at most one vote: then no model knows who is right, and all of them may be sure of it.
Nor does it where a model has given up a class that votes name on more items than the range leaves room for: to such a fit all
these votes are errors, so that it is sure of everything and cannot doubt itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crowdwise.estimator.experience import (
    EXPONENT_SD,
    EXPONENT_SD_ABOVE,
    FEATURES_TEMPERATURE_SD,
    TEMPERATURE_SD,
    TEMPERATURE_SD_ABOVE,
)
from crowdwise.estimator.judgement import by_features
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import tempered, vote_shares
from crowdwise.kernels.types import Floats, Integers

__all__ = ["RightLabels", "assured", "chance_of", "given_up", "in_crowds", "overlapping", "right_labels", "unknown_for"]

# Sets up to this size get the exact distribution; larger ones than the second number are judged by so many of their items.
_EXACT, _LOOKED_AT = 500, 20_000
# Crowds, in standard deviations from the usual one, and how many of all are like each.
_CROWDS = np.linspace(-3, 3, 25)
_STEP = _CROWDS[1] - _CROWDS[0]
_SHARES = np.exp(-(_CROWDS**2) / 2)
_SHARES /= _SHARES.sum()


@dataclass(frozen=True, eq=False)
class RightLabels:
    """The number of right labels among n as a mixture over crowds.

    Attributes
    ----------
    n : int
    weight : [G]
        Shares of the crowds.
    exact : [n + 1] or None
        P(number of right labels); None for large sets.
    mean, sd : [G]
        Of the share of right labels in every crowd.
    """

    n: int
    weight: Floats
    exact: Floats | None
    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, right: Floats, weight: Floats, n: int, exact: int = _EXACT) -> RightLabels:
        """From the chance of being right of every label in every crowd, [G, M], for n >= M items like these."""
        mean, var = right.mean(axis=1), (right * (1 - right)).mean(axis=1) / n
        if n <= exact:
            return cls(n, weight, weight @ _distributions(right), mean, np.sqrt(var))
        # A crowd of the grid stands for those around it.
        around = np.gradient(mean) if len(mean) > 1 else np.zeros(1)
        return cls(n, weight, None, mean, np.sqrt(var + around**2 / 12))

    def at_least(self, count: int) -> float:
        """P(at least so many labels are right)."""
        if self.exact is not None:
            return float(self.exact[count:].sum())
        return float(self.weight @ _normal_below((self.mean - (count - 0.5) / self.n) / np.maximum(self.sd, 1e-12)))

    def quantile(self, level: float) -> float:
        """The smallest share of right labels that is not exceeded with this probability."""
        low, high = -1, self.n
        while high - low > 1:
            middle = (low + high) // 2
            if 1 - self.at_least(middle + 1) >= level - 1e-12:
                high = middle
            else:
                low = middle
        return high / self.n


def right_labels(result: Result, items: Integers | None = None) -> RightLabels:
    """The distribution for all labels of a result, or for those at some positions; there must be at least one."""
    if unknown_for(result, items):
        # Between none and all: nothing is known.
        n = result.votes.n_items if items is None else len(items)
        return RightLabels(n, np.array([0.5, 0.5]), None, np.array([0.0, 1.0]), np.zeros(2))
    return _believed(result, np.arange(result.votes.n_items) if items is None else items)


def _believed(result: Result, chosen: Integers) -> RightLabels:
    """What experience makes of the model's own word on the labels at some positions."""
    n, posterior, code = len(chosen), result.posterior, result.codes
    if n > _LOOKED_AT:
        by_confidence = chosen[np.argsort(result.confidence[chosen], kind="stable")]
        chosen = by_confidence[((np.arange(_LOOKED_AT) + 0.5) * n / _LOOKED_AT).astype(np.int64)]
    if result.confidence_source != "experience":
        return RightLabels.of(posterior[chosen, code[chosen]][None], np.ones(1), n)
    right = in_crowds(posterior[chosen], code[chosen], result.votes.weight_per_item[chosen], result.method)
    return RightLabels.of(right, _SHARES, n)


def chance_of(result: Result, target: float, items: Integers | None = None) -> float:
    """Probability that at least the share `target` of the labels is right, of all items or of those at some positions."""
    n_items = result.votes.n_items if items is None else len(items)
    if not n_items:
        return 1.0
    if unknown_for(result, items):
        return 0.0
    chosen = np.arange(n_items) if items is None else items
    return _believed(result, chosen).at_least(int(np.ceil(target * n_items - 1e-9)))


def unknown_for(result: Result, items: Integers | None = None) -> str:
    """Why nothing can be said of the labels yet, all or those at some positions; empty where something can."""
    votes = result.votes
    if not (votes.n_items if items is None else len(items)):
        return "there are no items"
    if votes.n_classes < 2:
        return "one class only occurs"
    if not overlapping(result, slice(None) if items is None else items):
        return "most items have at most one vote"
    return given_up(result, np.arange(votes.n_items) if items is None else items)


def given_up(result: Result, items: Integers) -> str:
    """The classes that no label is, if votes name them on more of the items than the range leaves room for, in words."""
    votes = result.votes
    lost = np.bincount(result.codes, minlength=votes.n_classes) == 0
    lost &= np.bincount(votes.label, votes.weights, votes.n_classes) > 0
    if result.confidence_source != "experience" or not lost.any():
        return ""
    items = items[(votes.votes_per_item[items] > 0) & ~votes.is_known[items]]
    counts = vote_shares(votes.item_ptr, votes.label, votes.weights, votes.n_classes)[items]
    first = counts >= counts.max(axis=1, keepdims=True) - 1e-9
    against = first[:, lost].sum(axis=1) / np.maximum(first.sum(axis=1), 1)
    if not against.any() or 1 - against.mean() >= _believed(result, items).quantile(0.05):
        return ""
    names = " or ".join(repr(str(name)) for name in votes.classes[lost][:3].tolist())
    n = int(np.count_nonzero(against))
    return f"no label is {names}, against the votes on {n:,} item{'s' * (n != 1)}"


def in_crowds(posterior: Floats, code: Integers, mass: Floats, method: str) -> Floats:
    """Chance that the label `code` of an item by a method is right, in crowds from the least to the most dependent, [G, M]."""
    log_votes, rows = np.log(np.maximum(mass, 1)), np.arange(len(code))
    below, above = (EXPONENT_SD, TEMPERATURE_SD), (EXPONENT_SD_ABOVE, TEMPERATURE_SD_ABOVE)
    if by_features(method):
        below = above = (0.0, FEATURES_TEMPERATURE_SD)
    spread = [np.hypot(of_votes * log_votes, other) for of_votes, other in (below, above)]
    return np.stack([tempered(posterior, np.exp(z * spread[int(z > 0)]))[rows, code] for z in _CROWDS])


def overlapping(result: Result, items: Integers | slice) -> bool:
    """Whether votes, or what is known beside them, can tell who is right: most items have two votes or a known label.

    Where features or neighbours say something of items without votes, it is most of the others.
    """
    votes = result.votes
    if votes.n_classes < 2:
        return False
    if result.confidence_source != "experience" or result.history is not None:
        return True
    company = (np.maximum(votes.votes_per_item, votes.weight_per_item) >= 2) | votes.is_known
    judged = votes.votes_per_item[items] > 0 if hasattr(result.prior, "informed") else slice(None)
    among = company[items][judged]
    return bool(len(among) and among.mean() >= 0.5)


def assured(posterior: Floats, mass: Floats, n: int, probability: float, method: str | None) -> float:
    """The share of right labels that is reached with a probability among n items like these, by the normal distribution.

    Crowds differ as they do for the method; for None they do not. The share is no multiple of 1 / n: a target of m right labels
    is reached when it is (m - 1/2) / n or more.
    """
    code = posterior.argmax(axis=1)
    if method is None:
        found = RightLabels.of(posterior[np.arange(len(code)), code][None], np.ones(1), n, 0)
    else:
        found = RightLabels.of(in_crowds(posterior, code, mass, method), _SHARES, n, 0)
    low, high = -1.0, 2.0
    for _ in range(40):
        middle = (low + high) / 2
        enough = found.weight @ _normal_below((found.mean - middle) / np.maximum(found.sd, 1e-12)) >= probability
        low, high = (middle, high) if enough else (low, middle)
    return low


def _distributions(right: Floats) -> Floats:
    """P(number of right labels) in every crowd, [G, N + 1]."""
    chance = np.zeros((len(right), right.shape[1] + 1))
    chance[:, 0] = 1
    for done, p in enumerate(right.T[:, :, None], 1):
        chance[:, 1 : done + 1] += p * (chance[:, :done] - chance[:, 1 : done + 1])
        chance[:, :1] *= 1 - p
    return chance


def _normal_below(values: Floats) -> Floats:
    """P(standard normal <= value) of a few values; SciPy takes longer to load than all of a plan."""
    return np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in values.tolist()])
