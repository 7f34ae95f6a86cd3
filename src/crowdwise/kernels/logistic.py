"""Models of the form P(vote is right) = sigmoid(ability x easiness): sums over votes, Newton steps, inference.

Per vote, s = ability_a easiness_n and the expected log-likelihood is
weight [rho log sigmoid(s) + (1 - rho) log sigmoid(-s)], rho the posterior of the class voted. Wrong votes fall evenly on the
other classes. Small problems run in numpy, larger ones in the compiled loops of `logistic_loops`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crowdwise.kernels.numerics import (
    COMPILED_FROM,
    combined,
    in_ranges,
    infer_voted,
    item_of_votes,
    log_sigmoid,
    of_type,
    segment_sum,
)
from crowdwise.kernels.types import Floats, Integers

__all__ = ["LogisticVotes", "climb", "logistic_terms"]

_MOST_STEPS = 5


@dataclass(frozen=True, eq=False)
class LogisticVotes:
    """Votes sorted by item, as the loops take them: see `numerics` for the arrays."""

    item_ptr: Integers
    annotator: Integers
    label: Integers
    weight: Floats

    @property
    def small(self) -> bool:
        """Whether numpy is faster than loading the compiled loops."""
        return len(self.label) < COMPILED_FROM

    @property
    def arrays(self) -> tuple[Integers, Integers, Integers, Floats]:
        """The arrays, of the types for which the loops are compiled."""
        return (
            of_type(np.int64, self.item_ptr),
            of_type(np.int32, self.annotator),
            of_type(np.int16, self.label),
            of_type(np.float64, self.weight),
        )

    def ability_terms(self, posterior: Floats, ability: Floats, easiness: Floats) -> Floats:
        """Value, slope and negative curvature by the ability of every annotator, [A, 3]."""
        if self.small:
            item = item_of_votes(self.item_ptr)
            scale = easiness[item]
            value, slope, curve = self._terms(ability[self.annotator] * scale, posterior[item, self.label])
            terms = (value, slope * scale, curve * scale**2)
            return np.column_stack([segment_sum(self.annotator, term, len(ability)) for term in terms])
        from crowdwise.kernels import logistic_loops

        last = of_type(np.float64, posterior), of_type(np.float64, ability), of_type(np.float64, easiness)
        arrays = (*self.arrays, *last)

        def add(start: int, stop: int) -> Floats:
            sums = np.zeros((len(ability), 4))
            sums[:, 3] = 1.0
            logistic_loops.ability_terms(start, stop, *arrays, sums)
            sums[:, 0] -= np.log(sums[:, 3])
            return sums[:, :3]

        return np.asarray(sum(in_ranges(self.item_ptr, add)))

    def climb_easiness(self, posterior: Floats, ability: Floats, log_easiness: Floats, centre: float) -> Floats:
        """Newton steps on the log-easiness of every item, with its N(centre, 1) prior, [N]."""
        if self.small:
            return climb(lambda b: self._easiness_terms(posterior, ability, b, centre), log_easiness)
        from crowdwise.kernels import logistic_loops

        own = of_type(np.float64, posterior), of_type(np.float64, ability), of_type(np.float64, np.exp(log_easiness))
        arrays, reached = (*self.arrays, *own, float(centre), _MOST_STEPS), np.array(log_easiness)
        in_ranges(self.item_ptr, lambda start, stop: logistic_loops.climb_easiness(start, stop, *arrays, reached))
        return reached

    def infer(
        self, ability: Floats, log_easiness: Floats, log_prior: Floats, known: Integers, posterior: Floats
    ) -> tuple[float, float]:
        """Overwrite the posterior; return the summed log-normalisers and the sum of the changes of items."""
        others = float(np.log(max(posterior.shape[1] - 1, 1)))
        if self.small:
            s = ability[self.annotator] * np.exp(log_easiness)[item_of_votes(self.item_ptr)]
            base, bonus = log_sigmoid(-s) - others, s + others
            each: Integers = np.empty(0, np.int32)
            return infer_voted(self.item_ptr, self.label, each, self.weight, base, bonus, log_prior, known, posterior)
        from crowdwise.kernels import logistic_loops

        given = (of_type(np.float64, array) for array in (ability, np.exp(log_easiness)))
        last = (of_type(np.float64, log_prior), of_type(np.int16, known), posterior)
        return combined(self.item_ptr, logistic_loops.infer_logistic, *self.arrays, *given, others, *last)

    def _easiness_terms(self, posterior: Floats, ability: Floats, b: Floats, centre: float) -> Floats:
        item = item_of_votes(self.item_ptr)
        s = ability[self.annotator] * np.exp(b)[item]
        value, slope, curve = self._terms(s, posterior[item, self.label])
        terms = np.column_stack([segment_sum(item, term, len(b)) for term in (value, slope * s, curve * s**2)])
        # The exact curvature where it is the larger: Gauss-Newton alone overshoots on items whose votes look wrong, and
        # circles around the top there.
        missing = np.maximum(-terms[:, 1], 0.0)
        return np.asarray(terms + np.column_stack([-0.5 * (b - centre) ** 2, centre - b, 1 + missing]))

    def _terms(self, s: Floats, rho: Floats) -> tuple[Floats, Floats, Floats]:
        return logistic_terms(s, rho, self.weight if len(self.weight) else np.ones(len(s)))


def logistic_terms(s: Floats, rho: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Value, slope and negative curvature in s of weight [rho log sigmoid(s) + (1 - rho) log sigmoid(-s)]."""
    # log sigmoid(-s) = log sigmoid(s) - s, so one transcendental serves both sides and the sigmoid itself.
    log_right = log_sigmoid(s)
    sigma = np.exp(log_right)
    return weight * (log_right - (1 - rho) * s), weight * (rho - sigma), weight * sigma * (1 - sigma)


def climb(objective: Callable[[Floats], Floats], x: Floats, scale: float = np.inf) -> Floats:
    """A Newton step on every coordinate, shortened where it would not climb, and more for those whose steps are cut.

    `objective` returns [value, slope, negative curvature] per coordinate, each of its own coordinate alone. `scale` says that
    the curvature grows at most by exp(scale d) over a distance d: steps over which it cannot double climb for sure, and where
    all do, nothing is computed to see it.
    """
    going = np.ones(len(x), bool)
    for _ in range(_MOST_STEPS):
        value, slope, curve = objective(x).T
        # Near the top, rounding decides whether a step climbs; such a step is harmless.
        enough = value - 1e-12 * (1 + np.abs(value))
        wanted = np.where(going, slope / curve, 0.0)
        step = np.clip(wanted, -1.0, 1.0)
        sure = np.abs(step).max(initial=0.0) <= np.log(2) / scale
        for shrink in () if sure else (0.25, 0.25, 0.0):
            worse = objective(x + step)[:, 0] < enough
            if not worse.any():
                break
            step = np.where(worse, shrink * step, step)
        x = x + step
        # Cut steps are all alike: stopping there would forget what the posterior says (from ability 1 they
        # lead to 0, where votes on two classes mean nothing), and with it every start.
        going &= np.abs(wanted) > 1
        if not going.any():
            break
    return np.asarray(x)
