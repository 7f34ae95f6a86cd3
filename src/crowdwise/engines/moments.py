"""Engine 3: co-occurrence statistics of votes, from which moment methods estimate annotators.

With O_a the one-hot votes of annotator a, R_a its confusion matrix (rows: true class) and D the
diagonal matrix of class shares, conditional independence gives

    mu_a = E[o_a] = R_a' d          M_ab = E[o_a o_b'] = R_a' D R_b,  a != b

`Cooccurrence` holds the counts behind mu and M, only for pairs that met and only for cells that
occurred: memory in meetings, never A x A x K x K. The diagonal block (diag mu_a) says nothing about
R_a and is never formed. A vote of weight w counts as w votes and repeated votes add up, as
everywhere; given the true class they are independent, so the moments stay unbiased.

Symbols
-------
count_al : [A, L]             labels used by each annotator
left, right, count_c : [C]    cells: rows a K + i and b K + j, a < b, with their counts
first, second, met_p : [P]    pairs that met and N_ab, the weight of their meetings
table : [A L, K]              a confusion table, P(observed l | true k) at [a K + l, k]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.cooccurrence import distinct, distributions, pair_cells
from crowdwise.kernels.numerics import COMPILED_FROM, in_ranges, segment_sum
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import weight_of

__all__ = ["Cooccurrence", "Estimate", "class_shares", "others_table"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a moment method found: tables [A, L, K] or accuracies [A], class shares [K], and for whom it speaks, [A]."""

    annotators: Floats
    shares: Floats
    seen: NDArray[np.bool_]
    n_iter: int = 1
    converged: bool = True


@dataclass(frozen=True, eq=False)
class Cooccurrence:
    """First moments and the non-zero cells of all pairwise moments, as counts."""

    count_al: Floats
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    count_c: Floats

    @classmethod
    def of(cls, votes: Annotations) -> Cooccurrence:
        """Count the votes."""
        n_annotators, n_classes = votes.n_annotators, votes.n_classes
        used = segment_sum(votes.row, votes.weight, n_annotators * n_classes).reshape(n_annotators, n_classes)
        return cls(used, *pair_cells(votes.item_ptr, votes.row, weight_of(votes), n_annotators * n_classes, n_classes))

    @property
    def n_annotators(self) -> int:
        """A."""
        return len(self.count_al)

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.count_al.shape[1])

    @cached_property
    def _pairing(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        code = (self.left // self.n_classes) * self.n_annotators + self.right // self.n_classes
        return distinct(code, self.n_annotators**2)

    @cached_property
    def row_ptr(self) -> NDArray[np.int64]:
        """Where the cells of each left row begin, [A L + 1]: cells are sorted by it."""
        return np.searchsorted(self.left, np.arange(self.n_annotators * self.n_classes + 1))

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """Lower annotator of every pair that met, [P]."""
        return self._pairing[0] // max(self.n_annotators, 1)

    @cached_property
    def second(self) -> NDArray[np.int64]:
        """Higher annotator of every pair that met, [P]."""
        return self._pairing[0] % max(self.n_annotators, 1)

    @property
    def pair_of_cell(self) -> NDArray[np.int64]:
        """Pair of every cell, [C]."""
        return self._pairing[1]

    @cached_property
    def met_p(self) -> Floats:
        """N_ab of every pair, [P]."""
        return segment_sum(self.pair_of_cell, self.count_c, len(self._pairing[0]))

    @cached_property
    def met_a(self) -> Floats:
        """Meetings of every annotator with anybody, [A]."""
        ends = np.concatenate([self.first, self.second])
        return segment_sum(ends, np.tile(self.met_p, 2), self.n_annotators)

    @cached_property
    def component(self) -> NDArray[np.int32]:
        """Connected component of every annotator in the graph of pairs that met, [A]."""
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import connected_components

        shape = (self.n_annotators, self.n_annotators)
        return np.asarray(
            connected_components(csr_matrix((self.met_p, (self.first, self.second)), shape=shape), directed=False)[1]
        )

    def blocks(self, pairs: Integers) -> Floats:
        """Counts C_ab of some pairs as dense blocks, [len(pairs), K, K]."""
        n_classes = self.n_classes
        order, start = self._by_pair
        size = start[pairs + 1] - start[pairs]
        place = np.repeat(np.arange(len(pairs)), size)
        cell = order[np.arange(size.sum()) + np.repeat(start[pairs] - (np.cumsum(size) - size), size)]
        code = (place * n_classes + self.left[cell] % n_classes) * n_classes + self.right[cell] % n_classes
        return segment_sum(code, self.count_c[cell], len(pairs) * n_classes**2).reshape(-1, n_classes, n_classes)

    @cached_property
    def _by_pair(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cells in the order of their pairs, and where each pair begins."""
        order = np.argsort(self.pair_of_cell, kind="stable")
        return order, np.searchsorted(self.pair_of_cell[order], np.arange(len(self.met_p) + 1))

    def both_ways(self, data_c: Floats) -> Any:
        """Symmetric sparse matrix [A L, A L] with `data_c` in the place of the cells' counts."""
        from scipy.sparse import csr_matrix

        pattern = self._pattern
        return csr_matrix((data_c[pattern.data], pattern.indices, pattern.indptr), shape=pattern.shape)

    @cached_property
    def _pattern(self) -> Any:
        """Where each cell goes in the symmetric matrix: sorting once serves every iteration."""
        from scipy.sparse import csr_matrix

        size, cell = self.n_annotators * self.n_classes, np.arange(len(self.count_c))
        ends = np.concatenate([self.left, self.right]), np.concatenate([self.right, self.left])
        return csr_matrix((np.tile(cell, 2), ends), shape=(size, size))

    def times(self, data_c: Floats, table: Floats) -> Floats:
        """The matrix of `both_ways` times a table, [A L, K]."""
        if len(data_c) < COMPILED_FROM:
            return np.asarray(self.both_ways(data_c) @ table)
        from crowdwise.kernels.moment_loops import add_products

        def add(start: int, stop: int) -> Floats:
            sums = np.zeros(table.shape)
            add_products(start, stop, self.row_ptr, self.right, data_c, table, sums)
            return sums

        return np.asarray(sum(in_ranges(self.row_ptr, add)))

    def between(self, data_p: Floats) -> Any:
        """Symmetric sparse matrix [A, A] with one number per pair that met."""
        from scipy.sparse import csr_matrix

        ends = np.concatenate([self.first, self.second]), np.concatenate([self.second, self.first])
        return csr_matrix((np.tile(data_p, 2), ends), shape=(self.n_annotators, self.n_annotators))

    def agreement(self) -> Floats:
        """Share of equal labels of every pair, [P]."""
        equal = self.left % self.n_classes == self.right % self.n_classes
        return segment_sum(self.pair_of_cell[equal], self.count_c[equal], len(self.met_p)) / self.met_p


def others_table(moments: Cooccurrence) -> tuple[Floats, Floats]:
    """A first guess: the labels of the others stand for the truth. Table [A L, K] and class shares [K]."""
    n_annotators, n_classes = moments.count_al.shape
    # others[a K + l, k]: how often somebody else said k where a said l.
    others = np.zeros((n_annotators * n_classes, n_classes))
    for mine, theirs in ((moments.left, moments.right), (moments.right, moments.left)):
        others += segment_sum(mine * n_classes + theirs % n_classes, moments.count_c, others.size).reshape(others.shape)
    own = distributions(moments.count_al, 1)
    # One pseudo-meeting per class, at the annotator's own shares, keeps every entry above zero.
    counts = others.reshape(n_annotators, n_classes, n_classes) + (own + 1e-3)[:, :, None]
    return distributions(counts, 1).reshape(-1, n_classes), distributions(moments.count_al.sum(axis=0) + 1, 0)


def class_shares(table: Floats, moments: Cooccurrence, seen: NDArray[np.bool_]) -> Floats:
    """Shares d >= 0 that fit the first moments best, min_d sum_a E_a |mu_a - R_a' d|^2, scaled to sum to one."""
    from scipy.optimize import nnls

    n_annotators, n_classes = moments.count_al.shape
    total = moments.count_al.sum(axis=1)
    use = seen & (total > 0)
    if not use.any():
        return np.full(n_classes, 1 / n_classes)
    scale = 1 / np.sqrt(total[use])
    rows = table.reshape(n_annotators, n_classes, n_classes)[use] * np.sqrt(total[use])[:, None, None]
    target = (moments.count_al[use] * scale[:, None]).ravel()
    orthogonal, triangle = np.linalg.qr(rows.reshape(-1, n_classes))
    solution, _ = nnls(triangle, orthogonal.T @ target)
    return distributions(solution, 0)
