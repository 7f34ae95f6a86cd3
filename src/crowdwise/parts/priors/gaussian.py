"""A label prior that reads features: one Gaussian per class around its own mean, with a covariance that all classes share.

    p(z = k, x) = d_k N(x; mu_k, S)
    update       class shares, means and covariance from expected counts (closed form)

The classifier that follows is linear, as in logistic regression, but it must also say where the features lie. So a class
is a cloud of items, and not whatever explains the votes best: errors that annotators share on similar items do not
become part of the class. With few items it needs fewer of them than logistic regression, too (Ng and Jordan 2002).

Priors (pseudo-counts): mu_k ~ N(0, S / 1) on scaled columns, S as if `rows` items of a unit covariance had been seen.

In the coordinates y = (X'X + rows I)^(-1/2) x the shared scatter is I minus one outer product per class. Symbols:

    n_k, m_dk     expected count of class k, sum of y over its items
    b_dk          m_dk / sqrt(n_k + 1);      S = (I - b b') / (N + rows)
    g_kk          (I - b'b)^-1;              S^-1 = (N + rows) (I + b g b'),  log|S| = -D log(N + rows) - log|g|

so a round costs O(N D K), as much as a gradient of logistic regression.

References
----------
Ng and Jordan (2002), On discriminative vs. generative classifiers, NIPS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.kernels.types import Floats
from crowdwise.parts.priors.scaling import Scaling, principal_axes

__all__ = ["GaussianPrior"]


# Items that say that a class lies in the middle of all.
_MEAN_ROWS = 1.0
# Directions that are kept of wide tables; a sparse table is never made dense in more.
_MOST_AXES = 1000
_MOST_SPARSE_AXES = 200


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """Gaussian classes with one covariance.

    Attributes
    ----------
    white, norm2 : [N, R], [N]
        Items in the coordinates in which the ridged scatter of all is the unit matrix, and their squared lengths.
    prior_share : [R]
        Share of the pseudo-items in that scatter, along every axis.
    to_white : [D + 1, R]
        From features as given to those coordinates; the last row is added.
    rows : float
        Pseudo-items of the covariance.
    count, total : [K], [R, K]
        Expected counts of the classes, and sums of `white` over their items.
    """

    white: Floats
    norm2: Floats
    prior_share: Floats
    to_white: Floats
    rows: float
    count: Floats
    total: Floats

    @classmethod
    def start(cls, features: Any, n_classes: int, rows: float | None = None) -> GaussianPrior:
        """Before any data: all classes alike. Without `rows`, as many pseudo-items as columns."""
        scaling = Scaling.of(features)
        table = scaling.apply(features)
        axes, variance, mean = principal_axes(table, _MOST_SPARSE_AXES if hasattr(table, "tocsr") else _MOST_AXES)
        strength = float(features.shape[1]) if rows is None else float(rows)
        scatter = variance * table.shape[0] + strength
        turn = axes / np.sqrt(scatter)
        shift = mean @ turn
        white = np.asarray(table @ turn - shift)
        return cls(
            white=white,
            norm2=np.einsum("nd,nd->n", white, white),
            prior_share=strength / scatter,
            to_white=scaling.raw_weights(np.vstack([turn, -shift])),
            rows=strength,
            count=np.zeros(n_classes),
            total=np.zeros((turn.shape[1], n_classes)),
        )

    @property
    def probability(self) -> Floats:
        """Class shares, [K]."""
        return np.asarray((self.count + 1) / (self.count + 1).sum())

    @property
    def raw_weights(self) -> Floats:
        """Weights [D + 1, K] for features as given, whose softmax is p(z | x)."""
        slope, constant = self._linear()
        weights = self.to_white @ slope
        weights[-1] += constant
        return weights

    def log_prob(self) -> Floats:
        """log p(z, x) up to a constant of the data, [N, K]."""
        b_dk, g_kk, mean_dk = self._shape()
        along = self.white @ b_dk
        # mean_dk is b_dk by another factor, so one product with the table serves all that follows.
        inner = g_kk @ (b_dk.T @ mean_dk) + np.diag(1 / np.sqrt(self.count + _MEAN_ROWS))
        square = self.norm2 + np.einsum("nk,nk->n", along @ g_kk, along)
        common = -0.5 * self._weight * square - 0.5 * self._log_determinant(g_kk)
        return np.asarray(self._weight * (along @ inner) + self._linear()[1] + common[:, None])

    def update(self, posterior: Floats) -> GaussianPrior:
        """Condition on soft labels, [N, K]."""
        return replace(self, count=posterior.sum(axis=0), total=self.white.T @ posterior)

    def penalty(self) -> float:
        """Minus the log prior densities of shares, means and covariance, up to constants."""
        b_dk, g_kk, mean_dk = self._shape()
        along = b_dk.T @ mean_dk
        means = (mean_dk**2).sum() + np.vdot(along, g_kk @ along)
        unit = self.prior_share.sum() + np.vdot(g_kk, (b_dk * self.prior_share[:, None]).T @ b_dk)
        gaussian = self.rows * self._log_determinant(g_kk) + self._weight * (_MEAN_ROWS * means + unit)
        return float(gaussian / 2 - np.log(self.probability).sum())

    @property
    def _weight(self) -> float:
        return len(self.white) + self.rows

    def _shape(self) -> tuple[Floats, Floats, Floats]:
        """b [R, K], g [K, K] and the class means [R, K]."""
        b_dk = self.total / np.sqrt(self.count + _MEAN_ROWS)
        g_kk = np.linalg.inv(np.eye(len(self.count)) - b_dk.T @ b_dk)
        return b_dk, np.asarray(g_kk, float), self.total / (self.count + _MEAN_ROWS)

    def _log_determinant(self, g_kk: Floats) -> float:
        """Of the covariance."""
        return float(-len(self.total) * np.log(self._weight) - np.linalg.slogdet(g_kk)[1])

    def _linear(self) -> tuple[Floats, Floats]:
        """Slope [R, K] and constant [K] of log p(z, x) where it depends on the class."""
        b_dk, g_kk, mean_dk = self._shape()
        slope = self._weight * (mean_dk + b_dk @ (g_kk @ (b_dk.T @ mean_dk)))
        return slope, np.log(self.probability) - 0.5 * (slope * mean_dk).sum(axis=0)
