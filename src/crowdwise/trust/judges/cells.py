"""Answers of judges, and the cells of item and family that they are in: sums over both, and logs of sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crowdwise.data.meetings import SingleAnswers
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats, Integers

__all__ = ["Cells", "log_sum", "row_sums"]


@dataclass(frozen=True, eq=False)
class Cells:
    """Answers, [E], and cells, [M], each of one item and one family.

    Attributes
    ----------
    item, annotator, cell : [E]
    share_el : [E, K]
        Labels of every answer; rows sum to one.
    item_m, family_m : [M]
    """

    item: Integers
    annotator: Integers
    share_el: Floats
    cell: Integers
    item_m: Integers
    family_m: Integers
    n_items: int
    n_annotators: int

    @classmethod
    def of(cls, answers: SingleAnswers, family: Integers, n_items: int) -> Cells:
        """The cells of these answers; `family` is that of every annotator, [A]."""
        n_families = int(family.max(initial=0)) + 1
        key, cell = np.unique(answers.item * n_families + family[answers.annotator], return_inverse=True)
        parts = answers.item, answers.annotator, answers.share_cl, cell
        return cls(*parts, key // n_families, key % n_families, n_items, answers.n_annotators)

    @cached_property
    def labels_al(self) -> Floats:
        """Shares of every judge's labels, [A, K], with one label more, spread as all labels are."""
        return self._shares(np.arange(self.n_annotators), self.n_annotators)

    def family_labels(self, family: Integers) -> Floats:
        """The same of every family, [F, K]."""
        return self._shares(family, int(family.max(initial=-1)) + 1)

    def _shares(self, group: Integers, size: int) -> Floats:
        raised = row_sums(self.share_el, group[self.annotator], size) + self.share_el.mean(axis=0)
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def counts(self, posterior: Floats) -> Floats:
        """Expected answers of every judge by class and label, [A, K, K]."""
        return row_sums(posterior[self.item][:, :, None] * self.share_el[:, None, :], self.annotator, self.n_annotators)

    def summed(self, values: Floats) -> Floats:
        """Sums over the answers of every cell, [M, ..]."""
        return row_sums(values, self.cell, len(self.item_m))


def row_sums(values: Floats, index: Integers, size: int) -> Floats:
    """Sums of rows with equal `index`, [size, ..]."""
    flat = values.reshape(len(values), -1)
    columns = [segment_sum(index, np.ascontiguousarray(column), size) for column in flat.T]
    return np.asarray(np.stack(columns, axis=1).reshape(size, *values.shape[1:]))


def log_sum(values: Floats) -> Floats:
    """log of the sum of exponentials along the last axis, which is short: numpy is faster entry by entry."""
    top = values[..., 0]
    for k in range(1, values.shape[-1]):
        top = np.maximum(top, values[..., k])
    total = np.zeros(top.shape)
    for k in range(values.shape[-1]):
        total += np.exp(values[..., k] - top)
    return np.asarray(np.log(total) + top)
