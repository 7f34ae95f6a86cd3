"""Annotators with one accuracy (one-coin), or one accuracy per true class (confusion vector).

One-coin: P(observed l | true k) = w_a if l = k else (1 - w_a) / (K - 1); confusion vector: the same
with w_ak. Both are MAP estimates under Beta(1 + right, 1 + wrong) priors given as pseudo-counts.

Symbols
-------
right, wrong : [A] or [A, K]      pseudo-counts of right and wrong answers
accuracy : [A] or [A, K]          w
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import log_floored, ratio
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import (
    ByTable,
    FittedToCounts,
    WithoutPosterior,
    counts_of,
    infer_by_votes,
    taken,
    voted_log_lik,
    voted_mass,
)

__all__ = ["ClassAccuracy", "OneAccuracy"]


# An accuracy of exactly 0 or 1 would make one vote outweigh all others.
_EDGE = 1e-6
AccuraciesT = TypeVar("AccuraciesT", bound="Accuracies")


class Accuracies(FittedToCounts, WithoutPosterior):
    """Base of both: accuracies under Beta priors, and that of the crowd for annotators never seen."""

    if TYPE_CHECKING:
        right: Floats
        wrong: Floats
        accuracy: Floats
        population: Any

    def penalty(self) -> float:
        """Minus the log Beta density, up to its constant."""
        w = self.accuracy
        return float(-(self.right * log_floored(w) + self.wrong * log_floored(1 - w)).sum())

    def aligned(self: AccuraciesT, index: Integers, item_index: Integers) -> AccuraciesT:
        """Reorder; an annotator never seen has the pooled accuracy."""
        right, wrong = taken(self.right, index, 0.0), taken(self.wrong, index, 0.0)
        accuracy = taken(self.accuracy, index, self.population)
        return cast("AccuraciesT", replace(cast("Any", self), right=right, wrong=wrong, accuracy=accuracy))


@storable
@dataclass(frozen=True, eq=False)
class OneAccuracy(Accuracies):
    """One-coin annotators; evidence touches only the class voted, so a step costs O(E)."""

    shapes: ClassVar[dict[str, str]] = {"right": "a", "wrong": "a", "accuracy": "a"}
    right: Floats
    wrong: Floats
    accuracy: Floats
    population: float
    n_classes: int

    @classmethod
    def start(cls, right: Floats, wrong: Floats, n_classes: int) -> OneAccuracy:
        """Before any data: one half."""
        return cls(right, wrong, np.full(len(right), 0.5), 0.5, n_classes)

    def statistics(self, votes: Annotations, posterior: Floats) -> tuple[Floats, ...]:
        """Expected right answers, and answers, two of [A]."""
        right = voted_mass(votes, posterior, votes.annotator, votes.n_annotators)
        return right, votes.weight_per_annotator

    def conditioned(self, statistics: tuple[Floats, ...]) -> OneAccuracy:
        """w_a = (expected right answers + pseudo-count) / (answers + pseudo-counts)."""
        right, total = statistics
        population = _accuracy(right.sum() + 1.0, max(total.sum() - right.sum(), 0.0) + 1.0)
        accuracy = _accuracy(right + self.right, np.maximum(total - right, 0.0) + self.wrong)
        return replace(self, accuracy=accuracy, population=float(population))

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step."""
        miss, gain = self._evidence()
        return infer_by_votes(votes, miss, gain, log_prior, known, posterior, votes.annotator)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """log P(vote | class), [len(index), K]."""
        miss, gain = self._evidence()
        who = votes.annotator[index]
        return voted_log_lik(votes, index, miss[who], gain[who])

    def confusion(self) -> Floats:
        """[A, K, L]."""
        return _expand(np.repeat(self.accuracy[:, None], self.n_classes, axis=1)).transpose(0, 2, 1)

    def _evidence(self) -> tuple[Floats, Floats]:
        """Log-probability of a vote for a wrong class, and what naming the class adds to it."""
        if self.n_classes == 1:
            # With one class every vote is right, whatever w says.
            return np.zeros(len(self.accuracy)), np.zeros(len(self.accuracy))
        miss = log_floored(1 - self.accuracy) - np.log(self.n_classes - 1)
        return miss, log_floored(self.accuracy) - miss


@storable
@dataclass(frozen=True, eq=False)
class ClassAccuracy(Accuracies, ByTable):
    """Confusion-vector annotators: one accuracy per true class, wrong answers uniform."""

    shapes: ClassVar[dict[str, str]] = {"right": "ak", "wrong": "ak", "accuracy": "ak", "population": "k"}
    right: Floats
    wrong: Floats
    accuracy: Floats
    population: Floats

    @classmethod
    def start(cls, right: Floats, wrong: Floats) -> ClassAccuracy:
        """Before any data: one half."""
        return cls(right, wrong, np.full(right.shape, 0.5), np.full(right.shape[1], 0.5))

    def statistics(self, votes: Annotations, posterior: Floats) -> tuple[Floats, ...]:
        """Expected right and wrong answers on every class, two of [A, K]."""
        counts = counts_of(votes, posterior)
        right = np.einsum("akk->ak", counts).copy()
        return right, np.maximum(counts.sum(axis=1) - right, 0.0)

    def conditioned(self, statistics: tuple[Floats, ...]) -> ClassAccuracy:
        """w_ak = (expected right answers on class k + pseudo-count) / (answers on k + pseudo-counts)."""
        right, wrong = statistics
        population = _accuracy(right.sum(axis=0) + 1.0, wrong.sum(axis=0) + 1.0)
        return replace(self, accuracy=_accuracy(right + self.right, wrong + self.wrong), population=population)

    def vote_table(self) -> Floats:
        """P(vote | class), [A, L, K]."""
        return _expand(self.accuracy)

    def log_table(self) -> Floats:
        """Its logarithm."""
        return log_floored(self.vote_table())

    def confusion(self) -> Floats:
        """[A, K, L]."""
        return self.vote_table().transpose(0, 2, 1)


def _accuracy(right: Any, wrong: Any) -> Floats:
    """The maximiser of right log w + wrong log(1 - w) inside the allowed interval; one half without data."""
    total = right + wrong
    share = ratio(right, total, 0.5)
    return np.clip(share, _EDGE, 1 - _EDGE)


def _expand(accuracy_ak: Floats) -> Floats:
    """[A, L, K] table of vote probabilities from accuracies per class."""
    n_classes = accuracy_ak.shape[1]
    if n_classes == 1:
        return np.ones((len(accuracy_ak), 1, 1))
    table = np.repeat(((1 - accuracy_ak) / (n_classes - 1))[:, None, :], n_classes, axis=1)
    diagonal = np.arange(n_classes)
    table[:, diagonal, diagonal] = accuracy_ak
    return table
