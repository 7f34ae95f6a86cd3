"""Answers of judges, and the cells of item and group that they are in, group within group: sums over them, and logs of sums."""

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
    """Answers, and above them cells, each of one item and one group.

    Attributes
    ----------
    share_el : [E, K]
        Labels of every answer; rows sum to one.
    items, nodes : tuple of [M]
        Item and judge of every answer, then item and group of every cell: a level after the other, families last.
    above : tuple of [M]
        Of every answer, then of every cell, the cell that it is in; families are in none.
    codes : [L, A]
        Group of every judge at every level above the judges, families last.
    """

    share_el: Floats
    items: tuple[Integers, ...]
    nodes: tuple[Integers, ...]
    above: tuple[Integers, ...]
    codes: Integers
    n_items: int

    @classmethod
    def of(cls, answers: SingleAnswers, codes: Integers, n_items: int) -> Cells:
        """The cells of these answers; `codes` are those of the families of judges, [A], or of groups within groups, [L, A]."""
        codes = np.atleast_2d(codes)
        items, nodes, above = [answers.item], [answers.annotator], list[Integers]()
        # Of every cell, the first answer says which cell it is in.
        first = np.arange(len(answers.item))
        size = int(codes.max(initial=0)) + 1
        for code in codes:
            key, cell, back = np.unique(answers.item * size + code[answers.annotator], return_index=True, return_inverse=True)
            above.append(back[first])
            items.append(key // size)
            nodes.append(key % size)
            first = cell
        return cls(answers.share_cl, tuple(items), tuple(nodes), tuple(above), codes, n_items)

    @property
    def item(self) -> Integers:
        """Item of every answer, [E]."""
        return self.items[0]

    @property
    def annotator(self) -> Integers:
        """Judge of every answer, [E]."""
        return self.nodes[0]

    @property
    def n_annotators(self) -> int:
        """Number of judges."""
        return int(self.codes.shape[1])

    @cached_property
    def labels(self) -> tuple[Floats, ...]:
        """Label shares of judges, groups and families, [J, K] per level, with one label more, spread as all labels are."""
        return tuple(self._shares(code) for code in (np.arange(self.n_annotators), *self.codes))

    def _shares(self, code: Integers) -> Floats:
        raised = row_sums(self.share_el, code[self.annotator], int(code.max(initial=-1)) + 1) + self.share_el.mean(axis=0)
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def counts(self, posterior: Floats) -> Floats:
        """Expected answers of every judge by class and label, [A, K, K]."""
        return row_sums(posterior[self.item][:, :, None] * self.share_el[:, None, :], self.annotator, self.n_annotators)


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
