"""A Gaussian process by inducing points, with a noise variance of its own for every observation; closed form throughout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from crowdwise.data.storable import storable
from crowdwise.kernels.types import Floats

__all__ = ["Kernel", "Process", "inducing_rows"]

_JITTER = 1e-6


@storable
@dataclass(frozen=True)
class Kernel:
    """Variance times exp(-distance^2 / (2 length^2)), or, linear, times the inner product over the number of columns."""

    kind: str
    variance: float
    length: float

    def between(self, rows: Floats, others: Floats) -> Floats:
        """Covariances, [N, M]."""
        if self.kind == "linear":
            linear: Floats = self.variance * (rows @ others.T + self.length**2) / (rows.shape[1] * (1 + self.length**2))
            return linear
        squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * rows @ others.T
        found: Floats = self.variance * np.exp(-0.5 * np.maximum(squares, 0) / self.length**2)
        return found

    def diagonal(self, rows: Floats) -> Floats:
        """Variances, [N]."""
        if self.kind == "linear":
            own: Floats = self.variance * ((rows**2).sum(axis=1) + self.length**2) / (rows.shape[1] * (1 + self.length**2))
            return own
        return np.full(len(rows), self.variance)


@storable
@dataclass(frozen=True, eq=False)
class Process:
    """The posterior of f, and the bound on the log-probability of what was observed (Titsias, 2009).

    Attributes
    ----------
    inducing : [M, F]
    mean : float
        Of f before anything is seen.
    bound : float
    """

    kernel: Kernel
    inducing: Floats
    mean: float
    root: Floats
    inner: Floats
    coefficients: Floats
    bound: float

    @classmethod
    def of(cls, kernel: Kernel, inducing: Floats, rows: Floats, observed: Floats, noise: Floats, mean: float) -> Process:
        """Condition on observations, [N], with these noise variances, [N]."""
        base = kernel.between(inducing, inducing)
        base[np.diag_indices_from(base)] += _JITTER * max(float(np.trace(base)) / len(base), 1e-12)
        root = np.linalg.cholesky(base)
        # A = L^-1 K_mn, then scaled by the noise.
        projected = scipy.linalg.solve_triangular(root, kernel.between(inducing, rows), lower=True)
        scaled = projected / np.sqrt(noise)
        inner = np.linalg.cholesky(np.eye(len(base)) + scaled @ scaled.T)
        residual = (observed - mean) / np.sqrt(noise)
        coefficients = scipy.linalg.solve_triangular(inner, scaled @ residual, lower=True)
        lost = (kernel.diagonal(rows) - (projected**2).sum(axis=0)) / noise
        bound = -0.5 * (np.log(2 * np.pi * noise).sum() + 2 * np.log(np.diag(inner)).sum())
        bound -= 0.5 * ((residual**2).sum() - (coefficients**2).sum() + np.maximum(lost, 0).sum())
        return cls(
            kernel, inducing, mean, np.asarray(root, np.float64), np.asarray(inner, np.float64), coefficients, float(bound)
        )

    def at(self, rows: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of f at these rows, [N] each."""
        projected = scipy.linalg.solve_triangular(self.root, self.kernel.between(self.inducing, rows), lower=True)
        seen = scipy.linalg.solve_triangular(self.inner, projected, lower=True)
        variance = self.kernel.diagonal(rows) - (projected**2).sum(axis=0) + (seen**2).sum(axis=0)
        return self.mean + seen.T @ self.coefficients, np.maximum(variance, 1e-12)


def inducing_rows(rows: Floats, most: int, seed: int) -> Floats:
    """Rows that stand for all: centres of clusters, or all of them where they are few."""
    distinct = np.unique(rows, axis=0)
    if len(distinct) <= most:
        return distinct
    from sklearn.cluster import KMeans

    found: Floats = KMeans(most, n_init=1, max_iter=20, random_state=seed).fit(rows).cluster_centers_
    return found
