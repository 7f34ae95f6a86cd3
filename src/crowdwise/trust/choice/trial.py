"""Run candidates on the same folds, one after the other; a failure is a note, not a crash."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from crowdwise.errors import CrowdwiseError, CrowdwiseWarning
from crowdwise.kernels.types import Floats
from crowdwise.trust.choice.scoring import Terms
from crowdwise.trust.choice.selection import Row

__all__ = ["try_all"]

SharesOf = Callable[[str, int], Floats]
Judge = Callable[[Terms, Floats], Floats]


def try_all(rows: Sequence[Row], shares_of: SharesOf, terms: Terms, judge: Judge) -> None:
    """Fill in how well every eligible row predicts the terms.

    Parameters
    ----------
    rows
        Candidates; one that fails says so in its note, and is eligible no more.
    shares_of : callable
        From a method's name and a fold to the class probabilities of the items of that fold's terms, [n, K].
    judge : callable
        From terms and class probabilities to the log-probability of every term: see `crowdwise.trust.choice.scoring`.
    """
    for row in rows:
        if row.eligible:
            # Shown in the table, and used for nothing else.
            started = perf_counter()
            _try(row, shares_of, terms, judge)
            row.seconds = perf_counter() - started


def _try(row: Row, shares_of: SharesOf, terms: Terms, judge: Judge) -> None:
    shares = np.zeros((len(terms.item), terms.n_classes))
    for number in range(int(terms.fold.max()) + 1):
        try:
            with warnings.catch_warnings():
                # Fits that only predict votes need not have converged; the chosen fit says what deserves a look.
                warnings.simplefilter("ignore", CrowdwiseWarning)
                shares[terms.fold == number] = shares_of(row.method, number)
        except (CrowdwiseError, ArithmeticError, np.linalg.LinAlgError) as problem:
            row.give_up(f"failed: {problem}")
            return
    row.terms = judge(terms, shares)
