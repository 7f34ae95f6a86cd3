"""Compiled loops for P(vote is right) = sigmoid(ability x easiness): `logistic` calls them where a problem pays for it.

Each works on the items ``start:stop`` and releases the GIL. Logarithms of 1 + exp(-|s|) are what costs, so unweighted votes
multiply these factors, each between 1 and 2, and one logarithm is taken of many.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["ability_terms", "climb_easiness", "infer_logistic"]

compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})

# A product of factors of at most 2 is folded into a sum of logarithms above this.
_LARGE = 1e290


@compiled
def ability_terms(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    easiness: Floats,
    sums: Floats,
    product: Floats,
) -> None:
    """Add each vote's value, slope and curvature by its annotator's ability to `sums`, [A, 3].

    Of values, the logarithm of `product` [A], which starts at one, is still to be subtracted.
    """
    for n in range(start, stop):
        scale = easiness[n]
        for e in range(item_ptr[n], item_ptr[n + 1]):
            a = annotator[e]
            rho = posterior[n, label[e]]
            s = ability[a] * scale
            decay = math.exp(-abs(s))
            sigma = (1.0 if s >= 0 else decay) / (1.0 + decay)
            value = (s if s < 0 else 0.0) - (1 - rho) * s
            if len(weight):
                w = weight[e]
                sums[a, 0] += w * (value - math.log1p(decay))
                sums[a, 1] += w * (rho - sigma) * scale
                sums[a, 2] += w * sigma * (1 - sigma) * scale * scale
            else:
                sums[a, 0] += value
                sums[a, 1] += (rho - sigma) * scale
                sums[a, 2] += sigma * (1 - sigma) * scale * scale
                product[a] *= 1.0 + decay
                if product[a] > _LARGE:
                    sums[a, 0] -= math.log(product[a])
                    product[a] = 1.0


@compiled
def _easiness_terms(
    n: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    b: float,
    centre: float,
) -> tuple[float, float, float]:
    """Value, slope and negative curvature by the log-easiness b of item n, with its N(centre, 1) prior."""
    easiness = math.exp(b)
    value, slope, curve, product = 0.0, 0.0, 0.0, 1.0
    for e in range(item_ptr[n], item_ptr[n + 1]):
        rho = posterior[n, label[e]]
        s = ability[annotator[e]] * easiness
        decay = math.exp(-abs(s))
        sigma = (1.0 if s >= 0 else decay) / (1.0 + decay)
        own = (s if s < 0 else 0.0) - (1 - rho) * s
        if len(weight):
            w = weight[e]
            value += w * (own - math.log1p(decay))
            slope += w * (rho - sigma) * s
            curve += w * sigma * (1 - sigma) * s * s
        else:
            value += own
            slope += (rho - sigma) * s
            curve += sigma * (1 - sigma) * s * s
            product *= 1.0 + decay
            if product > _LARGE:
                value -= math.log(product)
                product = 1.0
    # The exact curvature where it is the larger: Gauss-Newton alone overshoots on items whose votes look wrong, and
    # circles around the top there.
    curve += 1.0 + max(-slope, 0.0)
    return value - math.log(product) - 0.5 * (b - centre) ** 2, slope + centre - b, curve


@compiled
def climb_easiness(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    centre: float,
    most_steps: int,
    log_easiness: Floats,
) -> None:
    """Newton steps on the log-easiness of each item, in place: `logistic.climb`, item by item."""
    for n in range(start, stop):
        b = log_easiness[n]
        for _ in range(most_steps):
            value, slope, curve = _easiness_terms(n, item_ptr, annotator, label, weight, posterior, ability, b, centre)
            enough = value - 1e-12 * (1 + abs(value))
            wanted = slope / curve
            step = min(max(wanted, -1.0), 1.0)
            for attempt in range(3):
                after, _, _ = _easiness_terms(n, item_ptr, annotator, label, weight, posterior, ability, b + step, centre)
                if after >= enough:
                    break
                step *= 0.25 if attempt < 2 else 0.0
            b += step
            if abs(wanted) <= 1:
                break
        log_easiness[n] = b


@compiled
def infer_logistic(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    ability: Floats,
    easiness: Floats,
    log_others: float,
    log_prior: Floats,
    known: Integers,
    posterior: Floats,
) -> tuple[float, float]:
    """Posterior of each item: a vote adds s + log_others to its class, and log sigmoid(-s) - log_others to the evidence."""
    n_classes = posterior.shape[1]
    per_item = 1 if log_prior.shape[0] > 1 else 0
    scores = np.empty(n_classes)
    evidence, change = 0.0, 0.0
    for n in range(start, stop):
        for k in range(n_classes):
            scores[k] = log_prior[n * per_item, k]
        product, base = 1.0, 0.0
        for e in range(item_ptr[n], item_ptr[n + 1]):
            s = ability[annotator[e]] * easiness[n]
            decay = math.exp(-abs(s))
            if len(weight):
                w = weight[e]
                scores[label[e]] += w * (s + log_others)
                base -= w * ((s if s > 0 else 0.0) + math.log1p(decay) + log_others)
            else:
                scores[label[e]] += s + log_others
                base -= (s if s > 0 else 0.0) + log_others
                product *= 1.0 + decay
                if product > _LARGE:
                    base -= math.log(product)
                    product = 1.0
        top = -np.inf
        for k in range(n_classes):
            if len(known) and known[n] >= 0 and k != known[n]:
                scores[k] = -np.inf
            top = max(top, scores[k])
        total = 0.0
        for k in range(n_classes):
            scores[k] = math.exp(scores[k] - top)
            total += scores[k]
        for k in range(n_classes):
            value = scores[k] / total
            change += 0.5 * abs(value - posterior[n, k])
            posterior[n, k] = value
        evidence += base + top + math.log(total / product)
    return evidence, change
