"""A label prior for two classes that reads features: logistic regression on Fourier features, random or learned.

    phi(x) = F^(-1/2) [cos(x . w_f / length), sin(x . w_f / length)]_f,     w_f ~ N(0, I)
    f(x) = phi(x) . rho,   rho ~ N(0, variance I),     p(z = 1 | x) = sigmoid(f(x))

E f(x) f(x') tends to the squared-exponential kernel as F grows, so this is the process of `LogisticGP` at a cost that is
linear in the items. The same bound makes q(rho) Gaussian,

    S^-1 = I / variance + Phi' diag(2 lambda(xi)) Phi,     m = S Phi' (q - 1/2)

and variance and length climb its log-normaliser; where frequencies are learned as well (`learn_frequencies`), they do too.
Features are computed for some rows at a time and never kept: memory beyond the table is O(F^2) and a block of rows.
Cost of a round: O(N F (D + F)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.kernels.types import Floats
from crowdwise.parts.priors.logistic_gp import (
    VARIANCE,
    climb,
    curvature,
    expected_log_sigmoid,
    kernel_bounds,
    log_mean_sigmoid,
    median_distance,
)

__all__ = ["FourierPrior", "fourier_features", "moments_of"]


_BLOCK = 10_000
# A frequency so high that the function is noise between any two rows.
_HIGHEST = 1e3


def fourier_features(phase: Floats) -> Floats:
    """[cos, sin] / sqrt(F) of phases [N, F], [N, 2 F]."""
    return np.asarray(np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(phase.shape[1]))


@dataclass(frozen=True, eq=False)
class FourierPrior:
    """Bayesian logistic regression on Fourier features.

    Attributes
    ----------
    table : [N, D]
        Scaled rows, dense or CSR.
    parameters : [2] or [2 + D F]
        log variance, log length, and the frequencies where they are learned.
    frequencies : [D, F]
        In units of 1 / length.
    weights, factor : [2 F], [2 F, 2 F]
        q(rho): its mean, and the lower Cholesky factor of its precision.
    xi : [N]
        Where the bound touches the link; the start is one.
    mean, variance : [N]
        Moments of f at the items.
    divergence : float
        KL of q(rho) from its prior.
    """

    table: Any
    parameters: Floats
    frequencies: Floats
    weights: Floats
    factor: Floats
    xi: Floats
    mean: Floats
    variance: Floats
    divergence: float
    bounds: list[tuple[float, float]]
    rounds: int
    steps: int

    @classmethod
    def start(
        cls,
        table: Any,
        n_frequencies: int,
        rng: np.random.Generator,
        *,
        learn_frequencies: bool = False,
        rounds: int = 0,
        steps: int = 3,
    ) -> FourierPrior:
        """Before any label, from scaled rows [N, D]: the length is their median distance."""
        n_items, n_columns = table.shape
        length = median_distance(table)
        frequencies = rng.standard_normal((n_columns, n_frequencies))
        parameters, bounds = np.log([VARIANCE, length]), kernel_bounds(length)
        if learn_frequencies:
            parameters = np.concatenate([parameters, frequencies.ravel()])
            bounds += [(-_HIGHEST, _HIGHEST)] * frequencies.size
        size = 2 * n_frequencies
        factor = np.eye(size) / np.sqrt(VARIANCE)
        # |phi|^2 = 1 for every row.
        moments = np.ones(n_items), np.zeros(n_items), np.full(n_items, VARIANCE)
        return cls(table, parameters, frequencies, np.zeros(size), factor, *moments, 0.0, bounds, rounds, steps)

    @property
    def probability(self) -> Floats:
        """Mean prediction, [2]."""
        return np.asarray(np.exp(log_mean_sigmoid(self.mean, self.variance)).mean(axis=0))

    @property
    def angular(self) -> Floats:
        """Frequencies for the scaled table as it is, [D, F]."""
        return np.asarray(self._frequencies(self.parameters) / np.exp(self.parameters[1]))

    def log_prob(self) -> Floats:
        """Expected log-probabilities (a bound on them), [N, 2]."""
        return expected_log_sigmoid(self.mean, self.variance)

    def update(self, posterior: Floats) -> FourierPrior:
        """The kernel, then q(rho), then xi, under soft labels [N, 2]."""
        precision, natural = curvature(self.xi), posterior[:, 1] - 0.5
        parameters, rounds = self.parameters, self.rounds
        if rounds > 0:
            parameters = climb(
                lambda point: self.log_normaliser(point, precision, natural), self.parameters, self.bounds, self.steps
            )
            rounds -= 1
        return replace(self, parameters=parameters, rounds=rounds)._conditioned(precision, natural)

    def penalty(self) -> float:
        """KL of q(rho) from its prior."""
        return self.divergence

    def log_normaliser(self, parameters: Floats, precision: Floats, natural: Floats) -> tuple[float, Floats]:
        """log of the integral of prior times sites exp(natural f - precision f^2 / 2), and its slope by the parameters."""
        from scipy.linalg import cho_solve

        variance, length = np.exp(parameters[:2])
        weights, factor, value = self._weights(parameters, precision, natural)
        spread = cho_solve((factor, True), np.eye(len(weights)))
        slope = np.zeros_like(parameters)
        slope[0] = 0.5 * ((np.trace(spread) + weights @ weights) / variance - len(weights))
        half = len(weights) // 2
        by_frequency = np.zeros_like(self.frequencies)
        for here, phase, phi in self._blocks(parameters):
            # Slope by the features with q(rho) held, which at its best is the whole slope.
            excess = natural[here] - precision[here] * (phi @ weights)
            by_phi = excess[:, None] * weights - precision[here, None] * (phi @ spread)
            by_phase = phi[:, :half] * by_phi[:, half:] - phi[:, half:] * by_phi[:, :half]
            slope[1] -= float(np.vdot(by_phase, phase))
            if len(parameters) > 2:
                by_frequency += np.asarray(self.table[here].T @ by_phase) / length
        slope[2:] = by_frequency.ravel()[: len(parameters) - 2]
        return value, slope

    def _frequencies(self, parameters: Floats) -> Floats:
        return parameters[2:].reshape(self.frequencies.shape) if len(parameters) > 2 else self.frequencies

    def _blocks(self, parameters: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        """Rows some at a time, with their phases and features."""
        angular = self._frequencies(parameters) / np.exp(parameters[1])
        for start in range(0, self.table.shape[0], _BLOCK):
            here = slice(start, start + _BLOCK)
            phase = np.asarray(self.table[here] @ angular)
            yield here, phase, fourier_features(phase)

    def _weights(self, parameters: Floats, precision: Floats, natural: Floats) -> tuple[Floats, Floats, float]:
        """Mean of q(rho), the Cholesky factor of its precision, and the log-normaliser."""
        from scipy.linalg import cho_solve, cholesky

        variance, size = np.exp(parameters[0]), len(self.weights)
        curve, target = np.eye(size) / variance, np.zeros(size)
        for here, _, phi in self._blocks(parameters):
            curve += (phi.T * precision[here]) @ phi
            target += natural[here] @ phi
        factor = cholesky(curve, lower=True)
        weights = cho_solve((factor, True), target)
        log_det = 2 * float(np.log(np.diagonal(factor)).sum()) + size * parameters[0]
        return weights, factor, 0.5 * (float(target @ weights) - log_det)

    def _conditioned(self, precision: Floats, natural: Floats) -> FourierPrior:
        weights, factor, value = self._weights(self.parameters, precision, natural)
        mean, variance = np.empty(len(natural)), np.empty(len(natural))
        for here, _, phi in self._blocks(self.parameters):
            mean[here], variance[here] = moments_of(phi, weights, factor)
        # The log-normaliser is what the sites expect less the divergence.
        expected = natural @ mean - 0.5 * (precision @ (mean**2 + variance))
        divergence = max(float(expected) - value, 0.0)
        xi = np.sqrt(mean**2 + variance)
        return replace(self, weights=weights, factor=factor, xi=xi, mean=mean, variance=variance, divergence=divergence)


def moments_of(phi: Floats, weights: Floats, factor: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of phi . rho, [N] each, under the mean of q(rho) and the Cholesky factor of its precision."""
    from scipy.linalg import solve_triangular

    spread = solve_triangular(factor, phi.T, lower=True)
    return phi @ weights, np.einsum("fn,fn->n", spread, spread)
