"""How well classifiers label rows that they have never seen, by what the crowd says of these rows.

    score = mean over items of  b_n[argmax_k f(x_n)_k]     f: trained on the items of the other folds
                                                           b: what `consensus` makes of all votes, as sure as experience allows

Items are held out with all of their votes, so that a classifier which repeats the votes on its own items, and knows nothing of
others, is seen through. Only the class that is named counts: probabilities are judged by how sure the crowd is, not by how sure
classifiers are, for vague ones and those with an eye on the annotators' habits would win otherwise.

Candidates race: after every fold those go that are clearly behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning
from crowdwise.estimator.registry import make_aggregator
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.choice.selection import Row, paired

__all__ = ["NewRows"]

# A candidate that is so many standard errors behind on the folds so far is tried no more.
_LOST = 2.0

Fit = Callable[[str, Any, Annotations], Any]


class NewRows:
    """Items that are held out in turn, and what the crowd says of them.

    Attributes
    ----------
    fold : [N]
        Of every item of the comparison.
    belief : [N, K]
    """

    def __init__(self, features: Any, votes: Annotations, sample: Integers, folds: int, seed: int) -> None:
        self._features, self._votes, self._sample = features, votes, sample
        self.fold = np.random.default_rng(seed).permutation(len(sample)) % folds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdwiseWarning)
            self.belief = make_aggregator("consensus").fit(votes.take_items(sample)).result_.posterior

    def try_all(self, rows: Sequence[Row], fit: Fit) -> None:
        """Fill in what eligible rows score; those that fail or fall behind say so in their notes, and are eligible no more.

        Parameters
        ----------
        fit : callable
            From a candidate's label, features and votes to a fitted classifier.
        """
        found = {row.method: np.full(len(self.fold), np.nan) for row in rows if row.eligible}
        for number in range(int(self.fold.max()) + 1):
            done = self.fold <= number
            for row in rows:
                if row.eligible:
                    # Shown in the table, and used for nothing else.
                    started = perf_counter()
                    self._try(row, fit, number, found[row.method])
                    row.seconds += perf_counter() - started
            _leave_behind([row for row in rows if row.eligible], {name: terms[done] for name, terms in found.items()}, number)
        for row in rows:
            row.terms = found[row.method] if row.eligible else None

    def _try(self, row: Row, fit: Fit, number: int, terms: Floats) -> None:
        out = np.flatnonzero(self.fold == number)
        train, new = self._sample[self.fold != number], self._sample[out]
        try:
            with warnings.catch_warnings():
                # Fits that only judge need not have converged; the chosen fit says what deserves a look.
                warnings.simplefilter("ignore", CrowdwiseWarning)
                fitted = fit(row.method, self._features[train], self._votes.take_items(train))
                proba = fitted.predict_proba(self._features[new])
        except (CrowdwiseError, ArithmeticError, np.linalg.LinAlgError) as problem:
            row.give_up(f"failed: {problem}")
            return
        terms[out] = self.belief[out, proba.argmax(axis=1)]


def _leave_behind(rows: Sequence[Row], terms: dict[str, Floats], number: int) -> None:
    """Take those out of the race who are clearly behind the first, on the items of the folds so far."""
    if len(rows) < 2:
        return
    first = max(rows, key=lambda row: float(terms[row.method].mean()))
    items = np.arange(len(terms[first.method]))
    for row in rows:
        behind, error = paired(terms[first.method], terms[row.method], items)
        if row is not first and behind > _LOST * error:
            row.give_up(f"behind {first.method} by {behind:.4f} after {number + 1} of the folds (standard error {error:.4f})")
