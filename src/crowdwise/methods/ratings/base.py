"""The shell of methods for values: check, fit, say what came out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.ratings import Ratings
from crowdwise.errors import ConvergenceWarning, InputError
from crowdwise.estimator.configured import Configured
from crowdwise.estimator.settings import check_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from crowdwise.methods.ratings.result import Estimates

__all__ = ["NumberMethod", "check_values", "iterate"]

Floats = NDArray[np.float64]
# Estimates that move by less than this share of the overall spread in a round have arrived.
_STILL = 1e-4


@dataclass(repr=False)
class NumberMethod(Configured):
    """Base of methods that estimate numbers from values alone; a method defines `_fit`."""

    name: ClassVar[str]

    def fit(self, values: Ratings, gold: Any = None) -> Self:
        """Estimate the value of every item.

        Parameters
        ----------
        values : Ratings
        gold : mapping or frame, optional
            Known values of some items, ``{item: value}``; see `Ratings.known`. They are kept as they are, and tell how
            annotators are off.
        """
        check_settings(self)
        check_values(values)
        self.n_iter_, self.converged_, self.trace_ = 0, True, np.zeros(0)
        vars(self)["result_"] = self._fit(values, values.known(gold))
        return self

    def _fit(self, values: Ratings, known: Floats) -> Estimates:
        raise NotImplementedError

    @property
    def result_(self) -> Estimates:
        """Estimates, intervals and annotators."""
        found: Estimates = self._kept("result_")
        return found

    @property
    def estimate_(self) -> Floats:
        """The estimates, [N, D]."""
        return self.result_.estimate

    @property
    def items_(self) -> pl.DataFrame:
        """One row per item, with its 95% interval."""
        return self.result_.items_frame()

    @property
    def annotators_(self) -> pl.DataFrame:
        """One row per annotator."""
        return self.result_.annotators_frame()

    def _account(self, trace: list[float], converged: bool, max_iter: int) -> None:
        self.n_iter_, self.converged_, self.trace_ = len(trace), converged, np.array(trace)
        if not converged:
            warnings.warn(
                f"{self.name} did not converge in {max_iter} rounds; raise max_iter or tol", ConvergenceWarning, stacklevel=4
            )


def check_values(values: Any) -> None:
    """Refuse what is no `Ratings`, or holds none."""
    if not isinstance(values, Ratings):
        raise InputError(f"expected Ratings, got {type(values).__name__}; build them with Ratings.from_arrays or Ratings.read")
    if not values.n_votes or not values.weights.sum() > 0:
        raise InputError("there are no values to learn from; every value is missing or has weight 0")


def iterate(
    state: Any,
    step: Callable[[Any], Any],
    score: Callable[[Any], float],
    where: Callable[[Any], Floats],
    tol: float,
    max_iter: int,
) -> tuple[Any, list[float], bool]:
    """Repeat `step` until the score's relative change is below `tol` and estimates stand still, as far as anybody could see.

    `where` gives the estimates of a state, in units of the overall spread.
    """
    trace: list[float] = []
    for _ in range(max_iter):
        before = where(state)
        state = step(state)
        trace.append(score(state))
        still = len(trace) > 1 and abs(trace[-1] - trace[-2]) <= tol * max(abs(trace[-1]), 100.0)
        if still and float(np.abs(where(state) - before).max(initial=0.0)) <= max(100 * tol, _STILL):
            return state, trace, True
    return state, trace, False
