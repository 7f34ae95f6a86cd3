"""How well classifiers label items that they have never seen, by the votes on these items.

    score = ( mean over votes of log T_a[c_n, y_e]  +  mean over votes V of log T_a[d_n, y_e] ) / 2

    c_n = argmax_k f(x_n)_k            the class of a new row
    d_n = argmax_k f(x_n)_k p(U_n | k) the class of an item with votes U; those of V, the other half, judge it
    f, p                               the candidate, trained on the items of the other folds
    T_a[k, l] = r_a if k = l, else (1 - r_a) / (K - 1)
    r_a = (right_a + 5 r) / (n_a + 5)  how often a's votes are the class, and r how often all votes are

Items are held out with all of their votes, so that a classifier which repeats the votes on its own items, and knows nothing of
others, is seen through. Only the class that is named counts: scored by how sure they are, vague classifiers would win, and with
a table per annotator those that have learned habits instead of classes. An annotator who is always wrong speaks as clearly as
one who is always right.

Candidates race: those that are clearly behind after a fold are tried no more, by what `consensus` makes of the items' votes. The
accuracies of annotators would say too little with the votes of one fold.
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
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.trust.choice.selection import Row, paired

__all__ = ["NewRows", "log_prob_by_class"]

# A candidate that is so many standard errors behind on the folds so far is tried no more.
_LOST = 2.0
# Weight of the crowd's accuracy beside an annotator's own votes, in votes.
_PSEUDO_VOTES = 5.0

Fit = Callable[[str, Any, Annotations], Any]


class NewRows:
    """Items that are held out in turn.

    Attributes
    ----------
    votes : Annotations
        On the items of the comparison, N of them.
    fold : [N]
    judges : [E]
        Votes that judge the class of an item with votes; the others are shown.
    """

    def __init__(self, features: Any, votes: Annotations, sample: Integers, folds: int, seed: int) -> None:
        self._features, self._sample, self.votes = features, sample, votes.take_items(sample)
        rng = np.random.default_rng(seed)
        self.fold = rng.permutation(len(sample)) % folds
        self.judges = _every_other(self.votes, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdwiseWarning)
            self._belief = make_aggregator("consensus").fit(self.votes).result_.posterior

    def try_all(self, rows: Sequence[Row], fit: Fit) -> None:
        """Fill in what eligible rows score; those that fail or fall behind say so in their notes, and are eligible no more.

        Parameters
        ----------
        fit : callable
            From a candidate's label, features and votes to a fitted classifier.
        """
        named = {row.method: np.full((2, len(self.fold)), -1) for row in rows if row.eligible}
        last = int(self.fold.max())
        for number in range(last + 1):
            for row in rows:
                if row.eligible:
                    # Shown in the table, and used for nothing else.
                    started = perf_counter()
                    self._try(row, fit, number, named[row.method])
                    row.seconds += perf_counter() - started
            if number < last:
                done = np.flatnonzero(self.fold <= number)
                _leave_behind(rows, {name: self._belief[done, classes[0, done]] for name, classes in named.items()}, number)
        for row in rows:
            if row.eligible:
                row.terms = self.terms(named[row.method])

    def terms(self, named: Integers) -> Floats:
        """What the classes of new rows and of items with votes, [2, N], score on every item, [N]."""
        votes, total = self.votes, np.zeros(len(self.fold))
        for classes, counted in zip(named, (np.ones(votes.n_votes, bool), self.judges), strict=True):
            log_prob = log_prob_by_class(votes, classes, counted)
            total += np.bincount(votes.item[counted], log_prob, minlength=len(total)) / max(len(log_prob), 1)
        return np.asarray(total * len(total) / 2)

    def _try(self, row: Row, fit: Fit, number: int, named: Integers) -> None:
        out = self.fold == number
        train, new = self._sample[~out], self._features[self._sample[out]]
        shown = self.votes.take_votes(~self.judges).take_items(np.flatnonzero(out))
        try:
            with warnings.catch_warnings():
                # Fits that only judge need not have converged; the chosen fit says what deserves a look.
                warnings.simplefilter("ignore", CrowdwiseWarning)
                fitted = fit(row.method, self._features[train], self.votes.take_items(np.flatnonzero(~out)))
                named[0, out] = fitted.predict_proba(new).argmax(axis=1)
                named[1, out] = fitted.predict_proba(new, votes=shown).argmax(axis=1)
        except (CrowdwiseError, ArithmeticError, np.linalg.LinAlgError) as problem:
            row.give_up(f"failed: {problem}")


def log_prob_by_class(votes: Annotations, classes: Integers, counted: Flags) -> Floats:
    """Log-probability of the votes that count, [n], if items have these classes, with an accuracy per annotator."""
    person, right = votes.annotator[counted], votes.label[counted] == classes[votes.item[counted]]
    weight = np.ones(len(person)) if votes.weight is None else votes.weight[counted]
    total = np.bincount(person, weight, votes.n_annotators)
    hits = np.bincount(person, weight * right, votes.n_annotators)
    overall = (hits.sum() + 1) / (total.sum() + 2)
    accuracy = ((hits + _PSEUDO_VOTES * overall) / (total + _PSEUDO_VOTES))[person]
    return np.asarray(weight * np.log(np.where(right, accuracy, (1 - accuracy) / max(votes.n_classes - 1, 1))))


def _every_other(votes: Annotations, rng: np.random.Generator) -> Flags:
    """Every other vote of an item, in random order, [E]: none of an item with one vote."""
    order = np.lexsort((rng.random(votes.n_votes), votes.item))
    place = np.empty(votes.n_votes, np.int64)
    place[order] = np.arange(votes.n_votes) - votes.item_ptr[votes.item[order]]
    return np.asarray(place % 2 == 1)


def _leave_behind(rows: Sequence[Row], belief: dict[str, Floats], number: int) -> None:
    """Take those out of the race who are clearly behind the first, on the items of the folds so far."""
    running = [row for row in rows if row.eligible]
    first = max((row.method for row in running), key=lambda name: float(belief[name].mean()), default="")
    for row in running:
        behind, error = paired(belief[first], belief[row.method], np.arange(len(belief[first])))
        if behind > _LOST * error:
            row.give_up(f"behind {first} by {behind:.4f} after fold {number + 1} (standard error {error:.4f})")
