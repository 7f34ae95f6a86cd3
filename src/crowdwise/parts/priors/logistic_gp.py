"""A label prior for two classes that reads features: a full Gaussian process behind a logistic link.

    f ~ N(0, K),  K_nm = variance exp(-|x_n - x_m|^2 / (2 length^2)),     p(z_n = 1 | f_n) = sigmoid(f_n)
    log sigmoid(+-f) >= +-f / 2 - log(2 cosh(xi / 2)) - lambda(xi) (f^2 - xi^2),      lambda(xi) = tanh(xi / 2) / (4 xi)

Under this bound (Jaakkola and Jordan) an item is as good as a Gaussian observation, a *site*

    exp(natural_n f_n - precision_n f_n^2 / 2),      natural = q(z_n = 1) - 1/2,   precision = 2 lambda(xi_n)

so q(f) is Gaussian, xi^2 = E f^2 is best, and variance and length climb the log-normaliser of the sites, which is the
bound with q(f) at its best. No step lets the bound fall.

Everything but the sites themselves serves expectation propagation too (see `crowdwise.methods.classify.rodr14`).
Cost of a round: O(N^3), and a few times that while the kernel is learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Floats

__all__ = [
    "VARIANCE",
    "Conditioned",
    "LogisticGP",
    "SquaredExponential",
    "climb",
    "condition",
    "curvature",
    "expected_log_sigmoid",
    "kernel_bounds",
    "learned",
    "log_mean_sigmoid",
    "log_normaliser",
    "median_distance",
    "squared_distances",
]


# Start of the variance.
VARIANCE = 10.0
# The variance of f: log-odds beyond some tens say nothing more. The length, as multiples of its start.
VARIANCE_RANGE, LENGTH_RANGE = (1e-2, 1e2), (1e-2, 1e2)
# Rows whose distances give the start of the length.
_SAMPLE = 1000
# Steps of a tenth of a standard deviation: exact to 1e-8 up to the largest variance above.
_NODES = np.linspace(-6.5, 6.5, 131)
_NODE_SHARE = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()


# -- the kernel --------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class SquaredExponential:
    """variance exp(-r^2 / (2 length^2)), from squared distances r^2."""

    variance: float
    length: float

    def __call__(self, squares: Floats) -> Floats:
        """Covariances, shaped as the squared distances are."""
        covariance = squares * (-0.5 / self.length**2)
        np.exp(covariance, out=covariance)
        covariance *= self.variance
        return covariance


def squared_distances(left: Any, right: Any = None) -> Floats:
    """|x - x'|^2 between rows, dense or sparse, [N, M]; of the left with themselves where there are no others."""
    from sklearn.metrics.pairwise import euclidean_distances

    return np.asarray(euclidean_distances(left, right, squared=True))


def median_distance(table: Any) -> float:
    """Median distance between different rows of a table, [N, D], from at most a thousand of them; 1 where it is zero."""
    rows = table[:: max(1, table.shape[0] // _SAMPLE)]
    squares = squared_distances(rows)[np.triu_indices(rows.shape[0], 1)]
    middle = float(np.sqrt(np.median(squares))) if len(squares) else 0.0
    return middle if middle > 0 else 1.0


# -- a Gaussian process under Gaussian sites ---------------------------------------------------


@dataclass(frozen=True, eq=False)
class Conditioned:
    """The process at the items after the sites.

    Attributes
    ----------
    mean, variance : [N]
        Moments of every f_n.
    weights : [N]
        K^-1 mean, which predicts: E f(x) = k(x) . weights.
    log_normaliser : float
        log of the integral of the prior times the sites.
    divergence : float
        KL from the prior.
    """

    mean: Floats
    variance: Floats
    weights: Floats
    log_normaliser: float
    divergence: float

    @classmethod
    def before(cls, n_items: int, variance: float) -> Conditioned:
        """The prior itself."""
        return cls(np.zeros(n_items), np.full(n_items, variance), np.zeros(n_items), 0.0, 0.0)


def condition(covariance: Floats, precision: Floats, natural: Floats) -> Conditioned:
    """Condition N(0, covariance), [N, N], on sites with precisions that are not negative, [N].

    With W = sqrt(precision), all goes by I + W K W, whose eigenvalues are at least one: no jitter is ever needed.
    """
    from scipy.linalg import cho_solve, cholesky, solve_triangular

    root = np.sqrt(precision)
    factor = cholesky(_scaled(covariance, root), lower=True, overwrite_a=True, check_finite=False)
    weights = natural - root * cho_solve((factor, True), root * (covariance @ natural), check_finite=False)
    mean = covariance @ weights
    log_det = 2 * float(np.log(np.diagonal(factor)).sum())
    explained = solve_triangular(factor, root[:, None] * covariance, lower=True, overwrite_b=True, check_finite=False)
    prior = np.diagonal(covariance)
    # Rounding may take all of the variance away; a Gaussian needs some.
    variance = np.maximum(prior - np.einsum("nm,nm->m", explained, explained), 1e-12 * prior)
    divergence = 0.5 * (log_det - float(precision @ variance) + float(weights @ mean))
    return Conditioned(mean, variance, weights, 0.5 * (float(natural @ mean) - log_det), divergence)


def log_normaliser(squares: Floats, log_kernel: Floats, precision: Floats, natural: Floats) -> tuple[float, Floats]:
    """log of the integral of prior times sites, and its slope by (log variance, log length), [2]."""
    from scipy.linalg import cho_solve, cholesky
    from scipy.linalg.lapack import dpotri

    variance, length = np.exp(log_kernel)
    root = np.sqrt(precision)
    covariance = SquaredExponential(variance, length)(squares)
    factor = cholesky(_scaled(covariance, root), lower=True, overwrite_a=True, check_finite=False)
    log_det = 2 * float(np.log(np.diagonal(factor)).sum())
    weights = natural - root * cho_solve((factor, True), root * (covariance @ natural), check_finite=False)
    mean = covariance @ weights
    # The lower half of (I + W K W)^-1; zeros above, so that the off-diagonal counts once.
    inverse = dpotri(factor, lower=1, overwrite_c=1)[0]
    # By the log length, K changes by K r^2 / length^2.
    covariance *= squares
    covariance /= length**2
    by_variance = float(weights @ mean) - (len(root) - float(np.trace(inverse)))
    inverse *= root[:, None]
    inverse *= root
    by_length = float(weights @ covariance @ weights) - 2 * float(np.vdot(inverse, covariance))
    return 0.5 * (float(natural @ mean) - log_det), np.array([by_variance, by_length]) / 2


def climb(
    value_and_slope: Callable[[Floats], tuple[float, Floats]], start: Floats, bounds: list[tuple[float, float]], steps: int
) -> Floats:
    """A few L-BFGS steps up from `start`; never to where it is lower."""
    from scipy.optimize import minimize

    first: list[float] = []

    def negative(point: Floats) -> tuple[float, Floats]:
        value, slope = value_and_slope(point)
        first.append(value)
        return -value, -slope

    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
    return np.asarray(found.x) if -found.fun > first[0] else start


def kernel_bounds(length: float) -> list[tuple[float, float]]:
    """Range of (log variance, log length), around the start of the length."""
    low, high = np.log(LENGTH_RANGE) + np.log(length)
    return [tuple(np.log(VARIANCE_RANGE)), (float(low), float(high))]


def _scaled(covariance: Floats, root: Floats) -> Floats:
    """I + W K W, [N, N]."""
    scaled = root[:, None] * covariance
    scaled *= root
    scaled.flat[:: len(root) + 1] += 1.0
    return scaled


# -- the logistic link -------------------------------------------------------------------------


def curvature(xi: Floats) -> Floats:
    """2 lambda(xi) = tanh(xi / 2) / (2 xi), at zero 1/4, [N]."""
    xi = np.maximum(np.abs(xi), 1e-8)
    return np.asarray(np.tanh(xi / 2) / (2 * xi))


def expected_log_sigmoid(mean: Floats, variance: Floats) -> Floats:
    """The bound on E log p(z | f) at its best xi, for z = 0 and 1, [N, 2]. Rows do not sum to one: they are expected logs."""
    xi = np.sqrt(mean**2 + variance)
    common = -xi / 2 - np.log1p(np.exp(-xi))
    return np.column_stack([common - mean / 2, common + mean / 2])


def log_mean_sigmoid(mean: Floats, variance: Floats) -> Floats:
    """log E sigmoid(-f), log E sigmoid(f) for Gaussian f, by the trapezium rule, [N, 2]."""
    from scipy.special import expit

    values = mean[:, None] + np.sqrt(variance)[:, None] * _NODES
    return log_floored(np.column_stack([expit(-values) @ _NODE_SHARE, expit(values) @ _NODE_SHARE]))


# -- the prior ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LogisticGP:
    """A Gaussian process over the items, squashed.

    Attributes
    ----------
    squares : [N, N]
        Squared distances of the items.
    xi : [N]
        Where the bound touches the link; the start is one.
    precision, natural : [N]
        The sites that `state` is conditioned on.
    bounds
        Range of (log variance, log length).
    rounds, steps : int
        Rounds in which the kernel is still to be learned, and L-BFGS steps in each.
    """

    squares: Floats
    kernel: SquaredExponential
    xi: Floats
    precision: Floats
    natural: Floats
    state: Conditioned
    bounds: list[tuple[float, float]]
    rounds: int
    steps: int

    @classmethod
    def start(cls, table: Any, *, rounds: int = 0, steps: int = 3) -> LogisticGP:
        """Before any label, from scaled rows [N, D]: the length is their median distance."""
        length, n_items = median_distance(table), table.shape[0]
        kernel = SquaredExponential(VARIANCE, length)
        state = Conditioned.before(n_items, VARIANCE)
        one, none = np.ones(n_items), np.zeros(n_items)
        return cls(squared_distances(table), kernel, one, none, none, state, kernel_bounds(length), rounds, steps)

    @property
    def probability(self) -> Floats:
        """Mean prediction, [2]."""
        return np.asarray(np.exp(log_mean_sigmoid(self.state.mean, self.state.variance)).mean(axis=0))

    def log_prob(self) -> Floats:
        """Expected log-probabilities (a bound on them), [N, 2]."""
        return expected_log_sigmoid(self.state.mean, self.state.variance)

    def update(self, posterior: Floats) -> LogisticGP:
        """The kernel, then q(f), then xi, under soft labels [N, 2]."""
        precision, natural = curvature(self.xi), posterior[:, 1] - 0.5
        kernel, rounds = self.kernel, self.rounds
        if rounds > 0:
            kernel, rounds = learned(kernel, self.squares, precision, natural, self.bounds, self.steps), rounds - 1
        state = condition(kernel(self.squares), precision, natural)
        xi = np.sqrt(state.mean**2 + state.variance)
        return replace(self, kernel=kernel, xi=xi, precision=precision, natural=natural, state=state, rounds=rounds)

    def penalty(self) -> float:
        """KL of q(f) from the process."""
        return self.state.divergence


def learned(
    kernel: SquaredExponential,
    squares: Floats,
    precision: Floats,
    natural: Floats,
    bounds: list[tuple[float, float]],
    steps: int,
) -> SquaredExponential:
    """A kernel under which the sites are likelier."""
    start = np.log([kernel.variance, kernel.length])
    found = climb(lambda point: log_normaliser(squares, point, precision, natural), start, bounds, steps)
    return SquaredExponential(*np.exp(found).tolist())
