"""When to stop, and how much is still to ask.

An item's label is right with probability max_k q_nk, so that the number of right labels is a sum of independent trials:
its distribution is exact for small sets and normal for large ones. All of this believes the posterior; where that is
overconfident (see `crowdwise compare` with gold labels), so are these answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.result import Result

__all__ = ["Plan", "chance_of", "expected_accuracy", "plan", "reached"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Sets up to this size get the exact distribution.
_EXACT = 500
# Items simulated in a plan, and the share of them asked in one step.
_SIMULATED, _STEP = 1_000, 0.02
# Votes per item after which a plan gives up.
_MOST = 50


def expected_accuracy(result: Result, level: float = 0.95, items: Integers | None = None) -> tuple[float, float, float]:
    """Expected share of right labels, of all items or of those at some positions, and the ends of its central interval."""
    right = _right(result, items)
    if not len(right):
        return float("nan"), float("nan"), float("nan")
    low, high = (_quantile(right, (1 + sign * level) / 2) for sign in (-1, 1))
    return float(right.mean()), low, high


def chance_of(result: Result, target: float, items: Integers | None = None) -> float:
    """Probability that at least the share `target` of the labels is right, of all items or of those at some positions."""
    right = _right(result, items)
    needed = int(np.ceil(target * len(right) - 1e-9))
    if len(right) <= _EXACT:
        return float(_distribution(right)[needed:].sum())
    from scipy.special import ndtr

    sd = max(np.sqrt((right * (1 - right)).sum()), 1e-12)
    return float(ndtr((right.sum() - (needed - 0.5)) / sd))


def reached(result: Result, target: float, probability: float = 0.95, items: Integers | None = None) -> bool:
    """Whether the target is reached with that probability."""
    for name, value in (("target", target), ("probability", probability)):
        if not 0 < value < 1:
            raise SettingError(f"{name} must be between 0 and 1; got {value!r}")
    return chance_of(result, target, items) >= probability


@dataclass(frozen=True)
class Plan:
    """Votes still to ask until the expected accuracy is `target`: the mean of simulated campaigns, and a 90% interval.

    `out_of_reach` is the share of the campaigns that did not get there with 50 more votes per item.
    """

    target: float
    now: float
    votes: float
    low: float
    high: float
    out_of_reach: float


def plan(result: Result, target: float = 0.95, *, repeats: int = 20, random_state: int = 0) -> Plan:
    """Simulate campaigns from what is known: labels and confusion matrices are drawn from their posteriors.

    Every step asks about the least certain items; who answers is drawn by the activity so far, and the answers are weighed
    with the mean matrices, as the model would.
    """
    if not 0 < target < 1:
        raise SettingError(f"target must be between 0 and 1; got {target!r}")
    rng = np.random.default_rng(random_state)
    votes, now = result.votes, float(result.posterior.max(axis=1).mean()) if result.votes.n_items else float("nan")
    if votes.n_items == 0 or now >= target:
        return Plan(target, now, 0.0, 0.0, 0.0, 0.0)
    if votes.n_annotators == 0:
        raise SettingError("a plan needs votes of at least one annotator: nothing is known of who will answer")
    asked = np.array([_campaign(result, target, rng) for _ in range(repeats)])
    done = asked[np.isfinite(asked)]
    if not len(done):
        return Plan(target, now, np.inf, np.inf, np.inf, 1.0)
    # By rank: between finite and infinite numbers nothing can be interpolated.
    low, high = np.sort(asked)[np.round(np.array([0.05, 0.95]) * (len(asked) - 1)).astype(int)]
    return Plan(target, now, float(done.mean()), float(low), float(high), 1 - len(done) / len(asked))


def _campaign(result: Result, target: float, rng: np.random.Generator) -> float:
    """Votes asked until the target, infinite if it was not reached."""
    votes = result.votes
    chosen = rng.permutation(votes.n_items)[:_SIMULATED]
    q = result.posterior[chosen].copy()
    truth = (rng.random((len(q), 1)) > q.cumsum(axis=1)[:, :-1]).sum(axis=1)
    activity = votes.votes_per_annotator + 1e-9
    log_mean = np.log(np.maximum(result.confusion, 1e-300))
    gamma = rng.standard_gamma(result.concentration)
    drawn = gamma / np.maximum(gamma.sum(axis=2, keepdims=True), 1e-300)
    # A subset drawn by chance may start elsewhere than the whole: it aims at as much more as the whole has to.
    gain = target - float(result.posterior.max(axis=1).mean())
    aim = min(float(q.max(axis=1).mean()) + gain, 1 - 1e-6)
    n_step, n_asked = max(1, int(_STEP * len(q))), 0
    while q.max(axis=1).mean() < aim:
        if n_asked > _MOST * len(q):
            return float("inf")
        items = np.argpartition(q.max(axis=1), n_step - 1)[:n_step]
        who = rng.choice(votes.n_annotators, size=n_step, p=activity / activity.sum())
        said = (rng.random((n_step, 1)) > drawn[who, truth[items]].cumsum(axis=1)[:, :-1]).sum(axis=1)
        scores = np.log(np.maximum(q[items], 1e-300)) + log_mean[who, :, said]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        q[items] = scores / scores.sum(axis=1, keepdims=True)
        n_asked += n_step
    return n_asked * votes.n_items / len(q)


def _right(result: Result, items: Integers | None) -> Floats:
    """Probability that the label of every item is right."""
    return np.asarray((result.posterior if items is None else result.posterior[items]).max(axis=1))


def _distribution(right: Floats) -> Floats:
    """P(number of right labels), [N + 1]."""
    chance = np.ones(1)
    for p in right:
        chance = np.convolve(chance, [1 - p, p])
    return chance


def _quantile(right: Floats, level: float) -> float:
    n_items = len(right)
    if n_items <= _EXACT:
        return float(np.searchsorted(_distribution(right).cumsum(), level) / n_items)
    from scipy.special import ndtri

    sd = np.sqrt((right * (1 - right)).sum())
    return float(np.clip((right.sum() + ndtri(level) * sd) / n_items, 0, 1))
