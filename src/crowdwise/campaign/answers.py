"""What annotators are expected to answer, as far as a fitted model knows.

A model whose annotators depend on the item says so itself: `expertise(rows)` (yan, dalc: the probability of a right answer,
errors uniform) or `confusion_of(rows)` (instance-confusion, conal, annot-mix: whole matrices). Of who gave no votes a network
knows only where it started: there the mean of the others counts, by their votes. Of every other model the rows of confusion
matrices are Dirichlet:

    R_a[k] ~ Dir(concentration_a[k])

the model's own where it is Bayesian; else the population's parameters plus the expected counts of the annotator's votes in
company, on items that somebody else or a classifier speaks of too. The population's are those under which the counts of all
annotators are likeliest (`crowdwise.parts.annotators.communities`, one community): an annotator with few votes is near the
crowd, and one without any is like somebody drawn from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from crowdwise.campaign import expected_gain
from crowdwise.estimator.judgement import without_company
from crowdwise.estimator.outcome import expected_counts
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.communities import CommunityConfusion

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import Result

__all__ = ["Answers", "Beliefs", "Matrices", "RightOrWrong", "Rows"]

# The population before any votes: an annotator right in three of four cases, as three votes and one would show.
_RIGHT, _WRONG, _TRUST = 3.0, 1.0, 1.0


class Beliefs(Protocol):
    """Answers of every annotator about n items; `q` is what is known of the items' labels, [n, K]."""

    def information(self, q: Floats) -> Floats:
        """What one answer is expected to tell, in nats, [n, A]."""
        ...

    def error_reduction(self, q: Floats) -> Floats:
        """Expected drop of the probability of a wrong label by one answer, [n, A]."""
        ...

    def rightness(self, q: Floats) -> Floats:
        """Probability of a right answer, [n, A]."""
        ...

    def matrix(self, annotator: int) -> Floats:
        """P(observed | true) of an annotator about the first of the items, [K, L]."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """Dirichlet rows, the same for all items: `concentration`, [A, K, L]."""

    concentration: Floats

    @cached_property
    def mean(self) -> Floats:
        """Posterior mean, [A, K, L]: the predictive distribution of one answer."""
        return np.asarray(self.concentration / self.concentration.sum(axis=2, keepdims=True))

    def information(self, q: Floats) -> Floats:
        """About the label, averaged over what the annotator may be."""
        return expected_gain.expected_information(q, self.concentration)

    def error_reduction(self, q: Floats) -> Floats:
        """By the predictive distribution of the answer."""
        return expected_gain.error_reduction(q, self.mean)

    def rightness(self, q: Floats) -> Floats:
        """By the posterior mean."""
        return expected_gain.rightness(q, self.mean)

    def matrix(self, annotator: int) -> Floats:
        """The posterior mean."""
        return np.asarray(self.mean[annotator])


@dataclass(frozen=True, eq=False)
class RightOrWrong:
    """Probabilities of a right answer, `right` [n, A], and errors uniform over the other classes."""

    right: Floats
    n_classes: int

    def information(self, q: Floats) -> Floats:
        """About the label."""
        return expected_gain.information_of_accuracy(q, self.right)

    def error_reduction(self, q: Floats) -> Floats:
        """Of one answer."""
        return expected_gain.error_reduction_of_accuracy(q, self.right)

    def rightness(self, q: Floats) -> Floats:
        """As the model has it."""
        return self.right

    def matrix(self, annotator: int) -> Floats:
        """From the accuracy about the first item."""
        right = self.right[0, annotator] if self.n_classes > 1 else 1.0
        table = np.full((self.n_classes, self.n_classes), (1 - right) / max(self.n_classes - 1, 1))
        np.fill_diagonal(table, right)
        return table


@dataclass(frozen=True, eq=False)
class Matrices:
    """A confusion matrix for every item and annotator: `confusion`, [n, A, K, L]."""

    confusion: Floats

    def information(self, q: Floats) -> Floats:
        """About the label."""
        return expected_gain.information(q, self.confusion)

    def error_reduction(self, q: Floats) -> Floats:
        """Of one answer."""
        return expected_gain.error_reduction(q, self.confusion)

    def rightness(self, q: Floats) -> Floats:
        """Of the likely classes."""
        return expected_gain.rightness(q, self.confusion)

    def matrix(self, annotator: int) -> Floats:
        """About the first item."""
        return np.asarray(self.confusion[0, annotator])


class Answers:
    """Beliefs about the answers of a fitted crowd; computed once, whatever is supposed of labels."""

    def __init__(self, result: Result, model: Any, features: Any) -> None:
        self.result, self.model, self.features = result, model, features
        self._last: tuple[bytes, Beliefs] | None = None

    @property
    def by_item(self) -> str:
        """The model's own word on an annotator and an item; empty where it has none."""
        if self.model is None or self.features is None:
            return ""
        return next((name for name in ("expertise", "confusion_of") if hasattr(self.model, name)), "")

    @cached_property
    def rows(self) -> Rows:
        """Of models whose annotators are the same on all items."""
        return Rows(self._concentration())

    def of(self, items: Integers) -> Beliefs:
        """About these items, by position."""
        if not self.by_item:
            return self.rows
        # The branches of a look-ahead are one item many times.
        each, place = np.unique(items, return_inverse=True)
        key = each.tobytes()
        if self._last is None or self._last[0] != key:
            found = np.asarray(getattr(self.model, self.by_item)(self.features[each]), float)
            votes = self.result.votes
            known = (
                RightOrWrong(found, votes.n_classes) if self.by_item == "expertise" else Matrices(_with_newcomers(found, votes))
            )
            self._last = key, known
        beliefs = self._last[1]
        if isinstance(beliefs, RightOrWrong):
            return RightOrWrong(beliefs.right[place], beliefs.n_classes)
        assert isinstance(beliefs, Matrices)
        return Matrices(beliefs.confusion[place])

    def _concentration(self) -> Floats:
        own = self.result.annotators.concentration()
        if own is not None:
            return np.asarray(own)
        counts = self._counts()
        if self.result.history is not None:
            counts = counts + self.result.history
        n_classes = counts.shape[1]
        start = np.where(np.eye(n_classes, dtype=bool), _RIGHT, _WRONG / max(n_classes - 1, 1))
        crowd = CommunityConfusion.start(np.zeros_like(counts), start, 1, _TRUST)
        return np.asarray(crowd.conditioned((counts,)).concentration())

    def _counts(self) -> Floats:
        """Expected confusion counts, [A, L, K], of votes that something else bears on.

        A model makes the only vote on an item its label, more or less, and would count it as right: whoever was believed
        first would look better with every question.
        """
        result = self.result
        votes, posterior = result.votes, result.model_posterior
        alone = without_company(votes) if self.model is None else np.zeros(votes.n_items, bool)
        if alone.any():
            votes, posterior = votes.take_items(np.flatnonzero(~alone)), posterior[~alone]
        return expected_counts(votes, posterior, result.annotators, result.class_prior)


def _with_newcomers(confusion: Floats, votes: Annotations) -> Floats:
    """Matrices [n, A, K, L]; of annotators without votes the mean of the others', by their votes."""
    new = votes.votes_per_annotator == 0
    if new.all() or not new.any():
        return confusion
    # A copy: the model's own arrays stay what they are.
    return np.where(new[:, None, None], np.average(confusion, axis=1, weights=votes.votes_per_annotator)[:, None], confusion)
