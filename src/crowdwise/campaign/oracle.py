"""Crowds that answer questions: one that was recorded, and one that is simulated.

Policies are restricted to the pairs that a recorded crowd can answer by `Pool.of(..., allowed=crowd.votes)`: the recorded
votes themselves, sorted by item, are the list of allowed pairs. While the pairs of some short-listed items are scored, those
that are not in the list are barred, so that memory grows with the recorded votes and the short list, never with items x
annotators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from crowdwise.data.encode import series_of, tidy, translate, vocabulary_array
from crowdwise.errors import InputError
from crowdwise.kernels.types import Array, Integers

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.data.simulate import Simulation

__all__ = ["Oracle", "RecordedCrowd", "SimulatedCrowd"]


class Oracle(Protocol):
    """A crowd: what it can be asked, its answers, and the truth where that is known.

    Attributes
    ----------
    items, annotators, classes
        Vocabularies.
    truth : [N]
        Class code of every item, -1 where unknown.
    allowed : Annotations or None
        Votes whose pairs are all that can be asked; None for every pair.
    """

    items: Array
    annotators: Array
    classes: Array
    truth: Integers
    allowed: Annotations | None

    def answer(self, questions: pl.DataFrame) -> pl.DataFrame:
        """Answers to questions (item, annotator): item, annotator, label."""
        ...


class RecordedCrowd:
    """Answers with recorded votes; an annotator who voted several times on an item gives the first by class order.

    Parameters
    ----------
    votes : Annotations
    truth : mapping, frame or sequence, optional
        True labels to measure accuracy by; those of ``votes.gold`` unless given.
    """

    def __init__(self, votes: Annotations, truth: Any = None) -> None:
        known = votes if truth is None else votes.with_gold(truth)
        self.items, self.annotators, self.classes = votes.items, votes.annotators, votes.classes
        self.truth = np.full(votes.n_items, -1) if known.gold is None else known.gold.astype(np.int64)
        self.allowed: Annotations | None = votes
        self._votes = votes
        # Sorted, because votes are sorted by item and annotator.
        self._key = votes.pair

    def answer(self, questions: pl.DataFrame) -> pl.DataFrame:
        """The recorded answers, in the order of the questions; a pair that was not recorded is an error."""
        item, annotator = _positions(self, questions)
        key = item * self._votes.n_annotators + annotator
        place = np.minimum(np.searchsorted(self._key, key), max(len(self._key) - 1, 0))
        absent = np.flatnonzero(self._key[place] != key) if len(self._key) else np.arange(len(key))
        if len(absent):
            row = questions.row(int(absent[0]), named=True)
            raise InputError(
                f"{row['annotator']!r} was not recorded on {row['item']!r}; ask recorded pairs only: allowed=crowd.allowed"
            )
        return _answers(questions, self.classes[self._votes.label[place]])


class SimulatedCrowd:
    """Answers drawn from confusion matrices: the same question has the same answer, whenever and by whomever it is asked.

    Parameters
    ----------
    confusion : [A, K, K]
        P(observed | true) of every annotator.
    truth : [N]
        Class codes.
    items, annotators, classes : sequence, optional
        Names; positions unless given.
    """

    def __init__(
        self,
        confusion: ArrayLike,
        truth: ArrayLike,
        *,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
        random_state: int = 0,
    ) -> None:
        self.confusion, self.truth = np.asarray(confusion, float), np.asarray(truth, np.int64)
        shape = self.confusion.shape
        if len(shape) != 3 or shape[1] != shape[2]:
            raise InputError(f"confusion has a matrix per annotator, [A, K, K]; got shape {shape}")
        if not np.allclose(self.confusion.sum(axis=2), 1) or (self.confusion < 0).any():
            raise InputError("rows of confusion matrices are probabilities that sum to 1")
        if self.truth.ndim != 1 or (self.truth < 0).any() or (self.truth >= shape[1]).any():
            raise InputError(f"truth holds a class code from 0 to {shape[1] - 1} for every item")
        sides = (items, len(self.truth), "items"), (annotators, shape[0], "annotators"), (classes, shape[1], "classes")
        self.items, self.annotators, self.classes = (_named(*side) for side in sides)
        self.allowed: Annotations | None = None
        self._seed = random_state

    @classmethod
    def of(cls, simulation: Simulation, random_state: int = 0) -> SimulatedCrowd:
        """The crowd of `crowdwise.data.simulate`, without the votes drawn there."""
        votes = simulation.votes
        return cls(
            simulation.confusion,
            simulation.truth,
            items=votes.items.tolist(),
            annotators=votes.annotators.tolist(),
            classes=votes.classes.tolist(),
            random_state=random_state,
        )

    def answer(self, questions: pl.DataFrame) -> pl.DataFrame:
        """Drawn answers, in the order of the questions."""
        item, annotator = _positions(self, questions)
        draws = np.array(
            [np.random.default_rng([self._seed, n, a]).random() for n, a in zip(item.tolist(), annotator.tolist(), strict=True)]
        )
        chances = self.confusion[annotator, self.truth[item]].cumsum(axis=1)
        return _answers(questions, self.classes[(draws[:, None] > chances[:, :-1]).sum(axis=1)])


def _positions(crowd: Oracle, questions: pl.DataFrame) -> tuple[Integers, Integers]:
    """Item and annotator of every question by position."""
    found = []
    for name, known in (("item", crowd.items), ("annotator", crowd.annotators)):
        codes = translate(vocabulary_array(tidy(questions[name])), known).astype(np.int64)
        if (codes < 0).any():
            raise InputError(f"the crowd has no {name} {questions[name][int(np.flatnonzero(codes < 0)[0])]!r}")
        found.append(codes)
    return found[0], found[1]


def _answers(questions: pl.DataFrame, labels: Array) -> pl.DataFrame:
    return questions.select("item", "annotator").with_columns(label=series_of(labels))


def _named(given: Sequence[Any] | Mapping[Any, Any] | None, size: int, what: str) -> Array:
    names = vocabulary_array(tidy(series_of(list(range(size) if given is None else given))))
    if len(names) != size or len(set(names.tolist())) != size:
        raise InputError(f"{what} must be {size} different names; got {len(names)}")
    return names
