"""Values as the models take them: flat arrays in units of the overall spread, and sums over items and annotators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.ratings import Ratings
from crowdwise.kernels.types import Floats

__all__ = ["Problem"]

# Values are steps of a scale where so many answers have each, and the most frequent at most so many times a neighbour's.
_PER_VALUE, _ALONE = 4, 2


@dataclass(frozen=True, eq=False)
class Problem:
    """Values with mean zero and variance one in each dimension.

    Attributes
    ----------
    item, annotator : [E]
    value : [E, D]
    weight : [E]
    known : [N, D]
        Known values in the same units, NaN where unknown.
    is_known : [N]
    centre, spread : [D]
        What was taken off and divided by.
    offset : [D]
        Mean error of the crowd where values are known, in the users' units; taken off as well where it was asked for.
    """

    item: NDArray[np.intp]
    annotator: NDArray[np.intp]
    value: Floats
    weight: Floats
    known: Floats
    is_known: NDArray[np.bool_]
    centre: Floats
    spread: Floats
    offset: Floats
    n_items: int
    n_annotators: int

    @classmethod
    def of(cls, values: Ratings, known: Floats, *, correct: bool = False) -> Problem:
        """Standardise; a dimension that never varies keeps its unit.

        With `correct`, the mean error of the crowd on known items is taken off first: biases are spread around that.
        """
        is_known = np.asarray(np.isfinite(known).all(axis=1))
        offset = np.zeros(values.n_dimensions)
        held = is_known[values.item]
        if correct and values.weights[held].sum() > 0:
            offset = np.average((values.value - known[values.item])[held], axis=0, weights=values.weights[held])
        weights = values.weights[:, None]
        total = max(float(weights.sum()), 1e-300)
        centre = (weights * values.value).sum(axis=0) / total - offset
        spread = np.sqrt((weights * (values.value - offset - centre) ** 2).sum(axis=0) / total)
        spread = np.where(spread > 1e-12 * (1 + np.abs(centre)), spread, 1.0)
        return cls(
            values.item.astype(np.intp),
            values.annotator.astype(np.intp),
            (values.value - offset - centre) / spread,
            values.weights,
            (known - centre) / spread,
            is_known,
            centre,
            spread,
            offset,
            values.n_items,
            values.n_annotators,
        )

    @property
    def n_dimensions(self) -> int:
        """Numbers in one answer, D."""
        return int(self.value.shape[1])

    @property
    def count(self) -> Floats:
        """Weight of the answers of every annotator, [A]."""
        return np.asarray(np.bincount(self.annotator, self.weight, minlength=self.n_annotators), np.float64)

    def by_item(self, rows: Floats) -> Floats:
        """Sums over the answers of every item, [N, D]."""
        return _sums(self.item, rows, self.n_items)

    def by_annotator(self, rows: Floats) -> Floats:
        """Sums over the answers of every annotator, [A, D]."""
        return _sums(self.annotator, rows, self.n_annotators)

    def item_means(self) -> Floats:
        """Weighted mean of the answers of every item, [N, D]; known values where known, 0 without answers."""
        weight = self.weight[:, None]
        total = np.maximum(self.by_item(weight), 1e-300)
        return np.where(self.is_known[:, None], np.nan_to_num(self.known), self.by_item(weight * self.value) / total)

    def noise(self) -> Floats:
        """Variance of answers around the mean of their item, [D], pooled; 0.5 where no item has two."""
        squares = (self.weight[:, None] * (self.value - self.item_means()[self.item]) ** 2).sum(axis=0)
        unknown = len(np.unique(self.item[~self.is_known[self.item]]))
        freedom = self.weight.sum() - unknown
        return np.maximum(squares / freedom, 1e-6) if freedom > 0 else np.full(self.n_dimensions, 0.5)

    def usual_noise(self) -> Floats:
        """Noise variance by mean absolute deviations, [D]: slips and spammers raise it less than they raise `noise`."""
        total = np.maximum(self.by_item(self.weight[:, None]), 1e-300)
        # A mean that contains the answer itself lies nearer to it.
        alone = np.maximum(1 - self.weight[:, None] / total[self.item], 1e-300)
        several = alone[:, 0] > 1e-9
        if not several.any():
            return self.noise()
        away = (np.abs(self.value - self.item_means()[self.item]) / np.sqrt(alone))[several]
        # The mean absolute value of a Gaussian is sqrt(2 / pi) of its standard deviation.
        return np.minimum(np.average(away, axis=0, weights=self.weight[several]) ** 2 * np.pi / 2, self.noise())

    def ties(self) -> Floats:
        """Share of the pairs of answers that two annotators gave to one item that are equal, [D].

        One pair more is counted as equal and one as not (the rule of succession): a few answers without ties show little.
        """
        pairs = self._pairs(self.item) - self._pairs(self.item, self.annotator)
        equal = np.empty(self.n_dimensions)
        for d in range(self.n_dimensions):
            value = np.unique(self.value[:, d], return_inverse=True)[1].ravel()
            equal[d] = self._pairs(self.item, value) - self._pairs(self.item, value, self.annotator)
        return (equal + 1) / (pairs + 2)

    def _pairs(self, *codes: NDArray[np.intp]) -> float:
        """Pairs of answers, by weight, that have all these codes in common; each answer is one with itself."""
        order = np.lexsort(codes)
        changes = np.any([code[order][1:] != code[order][:-1] for code in codes], axis=0)
        total = np.bincount(np.cumsum(np.r_[False, changes]), self.weight[order]) if len(order) else np.empty(0)
        return float(total @ total) / 2

    def rounding(self) -> Floats:
        """Variance with which answers are known, [D], by how often two of them are equal.

        Answers rounded to steps of h with Gaussian noise of variance v are equal with probability h / sqrt(4 pi v); a rounded
        answer is known up to the variance h^2 / 12. Many answers that are never equal are known exactly.
        """
        return np.asarray(np.pi / 3 * self.ties() ** 2 * self.usual_noise())

    def steps(self) -> Floats:
        """The step to which answers are rounded, [D]; infinity where the values do not show one.

        It is the least difference of two values, where these have four answers each in the mean and none of them stands out:
        the most frequent one has at most twice the answers of one beside it. Where many always answer 0, say, answers are alike
        for another reason than that they are rounded.

        Ties say less of it: they presume one noise of all, and precise annotators among noisy ones are alike more often.
        """
        found = np.full(self.n_dimensions, np.inf)
        for d in range(self.n_dimensions):
            value, count = np.unique(np.round(self.value[:, d], 9), return_counts=True)
            if len(value) < 2 or count.mean() < _PER_VALUE:
                continue
            step, top = np.diff(value).min(), int(count.argmax())
            beside = count[np.abs(np.abs(value - value[top]) - step) < 1e-6 * step + 1e-8]
            if len(beside) and count[top] <= _ALONE * beside.max():
                found[d] = step
        return found


def _sums(index: NDArray[np.intp], rows: Floats, n: int) -> Floats:
    return np.stack([np.bincount(index, rows[:, d], minlength=n) for d in range(rows.shape[1])], axis=1)
