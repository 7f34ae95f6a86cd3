"""What a Gaussian process on all items predicts, under either link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from crowdwise.data.storable import pointers, storable, within
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.priors.logistic_gp import SquaredExponential, log_mean_sigmoid, squared_distances
from crowdwise.parts.priors.scaling import Scaling

__all__ = ["ProcessModel", "SparseRows", "kept_rows", "log_mean_probit"]


# Entries of a table of covariances between new rows and items that are made together.
_CHUNK = 2**22


@storable
@dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse table as arrays, which can be saved: `data` and `indices` of the entries, `indptr` between rows."""

    data: Floats
    indices: Array
    indptr: Array
    n_columns: int

    @property
    def table(self) -> Any:
        """The table, [N, D]."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=(len(self.indptr) - 1, self.n_columns))

    def sound(self) -> bool:
        """Whether the arrays fit together: compiled loops trust their indices."""
        return (
            pointers(self.indptr, len(self.indptr) - 1, len(self.data))
            and self.indices.shape == self.data.shape
            and within(self.indices, 0, self.n_columns)
        )


def kept_rows(table: Any) -> Any:
    """A table as a fitted model keeps it: an array, or the arrays of a sparse one."""
    if not hasattr(table, "tocsr"):
        return table
    rows = table.tocsr()
    return SparseRows(rows.data, rows.indices, rows.indptr, rows.shape[1])


def log_mean_probit(mean: Floats, variance: Floats) -> Floats:
    """log E Phi(-f), log E Phi(f) for Gaussian f, [N, 2]."""
    from scipy.special import log_ndtr

    scaled = mean / np.sqrt(1 + variance)
    return np.column_stack([log_ndtr(-scaled), log_ndtr(scaled)])


_LINKS: dict[str, Callable[[Floats, Floats], Floats]] = {"logistic": log_mean_sigmoid, "probit": log_mean_probit}


@storable
@dataclass(frozen=True, eq=False)
class ProcessModel:
    """A Gaussian process under a Gaussian site exp(natural f - precision f^2 / 2) on every item that taught it.

    Attributes
    ----------
    link : str
        logistic or probit.
    scaling, rows : [N, D]
        How columns are scaled, and the items' scaled features: see `kept_rows`.
    precision, natural : [N]
        The sites.
    """

    link: str
    scaling: Scaling
    rows: Any
    kernel: SquaredExponential
    precision: Floats
    natural: Floats

    def sound(self) -> bool:
        """Whether the link exists and every item has its site."""
        n_rows = self._table.shape[0]
        return self.link in _LINKS and self.precision.shape == self.natural.shape == (n_rows,)

    def log_prob(self, features: Any) -> Floats:
        """[N, 2]."""
        mean, variance = self.moments(features)
        return _LINKS[self.link](mean, variance)

    def moments(self, features: Any) -> tuple[Floats, Floats]:
        """Mean and variance of f at new rows, [N] each."""
        from scipy.linalg import solve_triangular

        if hasattr(features, "tocsr") and not hasattr(self._table, "tocsr"):
            features = features.toarray()
        table = self.scaling.apply(features)
        factor, weights = self._factor
        mean, variance = np.zeros(table.shape[0]), np.zeros(table.shape[0])
        step = max(1, _CHUNK // len(weights))
        for start in range(0, len(mean), step):
            here = slice(start, start + step)
            covariance = self.kernel(squared_distances(self._table, table[here]))
            mean[here] = weights @ covariance
            covariance *= np.sqrt(self.precision)[:, None]
            explained = solve_triangular(factor, covariance, lower=True, overwrite_b=True, check_finite=False)
            variance[here] = self.kernel.variance - np.einsum("mn,mn->n", explained, explained)
        return mean, np.maximum(variance, 1e-12 * self.kernel.variance)

    @cached_property
    def _table(self) -> Any:
        return self.rows.table if isinstance(self.rows, SparseRows) else self.rows

    @cached_property
    def _factor(self) -> tuple[Floats, Floats]:
        """Cholesky factor of I + W K W, W = sqrt(precision), and K^-1 E f of the items."""
        from scipy.linalg import cho_solve, cholesky

        covariance, root = self.kernel(squared_distances(self._table)), np.sqrt(self.precision)
        factor = cholesky(np.eye(len(root)) + root[:, None] * covariance * root, lower=True)
        return factor, self.natural - root * cho_solve((factor, True), root * (covariance @ self.natural))
