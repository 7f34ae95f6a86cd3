"""Run candidates on the same folds, one after the other, within a time budget; a failure is a note, not a crash."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from crowdwise.errors import CrowdwiseError, CrowdwiseWarning
from crowdwise.kernels.numerics import best_class
from crowdwise.kernels.types import Floats
from crowdwise.trust.choice.scoring import Terms, cross_fitted
from crowdwise.trust.choice.selection import Row

__all__ = ["Budget", "try_all"]

SharesOf = Callable[[str, int], Floats]
Judge = Callable[[Terms, Floats], Floats]


class Budget:
    """Seconds from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._started = perf_counter()

    @property
    def left(self) -> float:
        """Seconds that are left; below zero when overdrawn."""
        return self.seconds - (perf_counter() - self._started)


def try_all(rows: Sequence[Row], shares_of: SharesOf, terms: Terms, budget: Budget, judge: Judge = cross_fitted) -> None:
    """Fill in how well every eligible row predicts the terms, as far as the budget allows.

    Parameters
    ----------
    rows
        Candidates; one that fails or is skipped says so in its note, and is eligible no more.
    shares_of : callable
        From a method's name and a fold to the class probabilities of the items of that fold's terms, [n, K].
    budget
        The first candidate is measured whatever it takes. Of another, the folds so far show what all would take.
    judge : callable
        From terms and class probabilities to the log-probability of every term: see `crowdwise.trust.choice.scoring`.
    """
    first = True
    for row in rows:
        if row.eligible:
            _try(row, shares_of, terms, None if first else budget, judge)
            first = first and not row.eligible


def _try(row: Row, shares_of: SharesOf, terms: Terms, budget: Budget | None, judge: Judge) -> None:
    if budget is not None and budget.left <= 0:
        row.give_up(f"skipped: the {budget.seconds:g} s were used up")
        return
    started, n_folds = perf_counter(), int(terms.fold.max()) + 1
    shares = np.zeros((len(terms.item), terms.n_classes))
    for number in range(n_folds):
        own = terms.fold == number
        try:
            with warnings.catch_warnings():
                # Fits that only predict votes need not have converged; the chosen fit says what deserves a look.
                warnings.simplefilter("ignore", CrowdwiseWarning)
                found = shares_of(row.method, number)
        except (CrowdwiseError, ArithmeticError, np.linalg.LinAlgError) as problem:
            row.give_up(f"failed: {problem}")
        else:
            shares[own] = found
        row.seconds = perf_counter() - started
        needed = row.seconds / (number + 1) * n_folds
        if budget is not None and needed - row.seconds > max(budget.left, 0):
            row.give_up(f"skipped: it needs about {needed:.0f} s, more than was left of {budget.seconds:g} s")
        if not row.eligible:
            return
    row.labels = best_class(shares, shares.mean(axis=0)).astype(np.int16)
    row.log_prob = judge(terms, shares)
