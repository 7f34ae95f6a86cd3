"""Rodr14: a Gaussian process for two classes with the labels summed out, by expectation propagation (Rodrigues et al. 2014).

Model      f ~ GP(0, kappa);  p(z_n = 1 | f_n) = Phi(f_n);  vote of a on n ~ R_a[z_n]
           p(votes on n | f_n) = t_n(f_n) = a_n Phi(f_n) + b_n Phi(-f_n),   a_n, b_n: of the votes given z_n = 1, 0
EP         every t_n is replaced by a Gaussian site; the cavity N(m_n, v_n) is the process without item n's own votes
Labels     q(z_n = 1) proportional to a_n Phi(m_n / sqrt(1 + v_n))
Annotators Dirichlet rows given expected counts; kernel by L-BFGS on EP's evidence

Notes
-----
Sites move together, damped by a half, twice per round. Where votes outweigh what the features say, t_n is not log-concave
and moment matching may ask for a site of negative precision: it gets precision zero and keeps the mean. What an item's
own votes say comes from the round before, as the quotient of its posterior and its cavity's prediction. The paper's
annotators are points; here they have Dirichlet rows, as in the other Gaussian processes. The bound is EP's approximation
of the evidence: it settles, but need not rise. Cost of a round: O(N^3).

References
----------
Rodrigues, Pereira and Ribeiro (2014), Gaussian process classification and active learning with multiple annotators, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import Model
from crowdwise.methods.classify.process_model import ProcessModel, kept_rows, log_mean_probit
from crowdwise.methods.classify.vgpcr import ROUNDS, BinaryClassifier, announce_cubic
from crowdwise.parts.priors.logistic_gp import (
    VARIANCE,
    Conditioned,
    SquaredExponential,
    condition,
    kernel_bounds,
    learned,
    median_distance,
    squared_distances,
)
from crowdwise.parts.priors.scaling import Scaling

__all__ = ["ProbitGP", "Rodr14", "tilted_moments"]


_DAMPING, _SWEEPS = 0.5, 2


@dataclass(eq=False, repr=False, kw_only=True)
class Rodr14(BinaryClassifier):
    """Rodrigues et al. (2014): a Gaussian process on all items x Dirichlet confusion rows, by expectation propagation."""

    name: ClassVar[str] = "rodr14"

    def _process(self, table: Any) -> ProbitGP:
        announce_cubic(self.name, table.shape[0], _SWEEPS * ROUNDS + 6 * self.kernel_rounds)
        return ProbitGP.start(table)

    def _model(self, fit: Fit, table: Any, scaling: Scaling) -> ProcessModel:
        prior: ProbitGP = fit.prior
        return ProcessModel("probit", scaling, kept_rows(table), prior.kernel, prior.precision, prior.natural)

    def _log_prior(self, fit: Fit, model: Model, features: Any, taught: Integers) -> Floats:
        # The process has seen the votes of these items; its cavities have not.
        log_prior = model.log_prob(features)
        log_prior[taught] = fit.prior.log_prob()
        return log_prior


@dataclass(frozen=True, eq=False)
class ProbitGP:
    """A label prior for two classes: a Gaussian process by expectation propagation.

    Attributes
    ----------
    squares : [N, N]
        Squared distances of the items.
    precision, natural : [N]
        The sites exp(natural f - precision f^2 / 2).
    state
        The process under them.
    """

    squares: Floats
    kernel: SquaredExponential
    precision: Floats
    natural: Floats
    state: Conditioned
    bounds: list[tuple[float, float]]
    rounds: int
    steps: int

    @classmethod
    def start(cls, table: Any, *, rounds: int = 0, steps: int = 3) -> ProbitGP:
        """Before any label, from scaled rows [N, D]: the length is their median distance."""
        length, n_items = median_distance(table), table.shape[0]
        none, state = np.zeros(n_items), Conditioned.before(n_items, VARIANCE)
        kernel = SquaredExponential(VARIANCE, length)
        return cls(squared_distances(table), kernel, none, none, state, kernel_bounds(length), rounds, steps)

    @property
    def probability(self) -> Floats:
        """Mean prediction, [2]."""
        return np.asarray(np.exp(log_mean_probit(self.state.mean, self.state.variance)).mean(axis=0))

    def log_prob(self) -> Floats:
        """What the other items say of each, [N, 2]."""
        return log_mean_probit(*self.cavity())

    def cavity(self) -> tuple[Floats, Floats]:
        """Mean and variance of every f_n without its own site, [N] each."""
        # Sites of positive precision only ever narrow the prior; by rounding a cavity could seem wider.
        precision = np.maximum(1 / self.state.variance - self.precision, 1 / self.kernel.variance)
        return (self.state.mean / self.state.variance - self.natural) / precision, 1 / precision

    def update(self, posterior: Floats) -> ProbitGP:
        """Sweeps over the sites, then a better kernel; `posterior` [N, 2] is of the present cavities and the votes."""
        evidence = log_floored(posterior) - self.log_prob()
        prior = self
        for _ in range(_SWEEPS):
            prior = prior._swept(evidence)
        if prior.rounds > 0:
            sites = prior.precision, prior.natural
            kernel = learned(prior.kernel, prior.squares, *sites, prior.bounds, prior.steps)
            state = condition(kernel(prior.squares), *sites)
            prior = replace(prior, kernel=kernel, state=state, rounds=prior.rounds - 1)
        return prior

    def penalty(self) -> float:
        """What EP's evidence has besides the normalisers of the tilted items, negative."""
        mean, variance = self.cavity()
        site = np.log(self.state.variance / variance) + self.state.mean**2 / self.state.variance - mean**2 / variance
        return float(site.sum() / 2) - self.state.log_normaliser

    def _swept(self, evidence: Floats) -> ProbitGP:
        cavity_mean, cavity_variance = self.cavity()
        mean, variance = tilted_moments(evidence[:, 1], evidence[:, 0], cavity_mean, cavity_variance)
        precision = np.maximum(1 / variance - 1 / cavity_variance, 0.0)
        natural = mean * (1 / cavity_variance + precision) - cavity_mean / cavity_variance
        precision = _DAMPING * precision + (1 - _DAMPING) * self.precision
        natural = _DAMPING * natural + (1 - _DAMPING) * self.natural
        state = condition(self.kernel(self.squares), precision, natural)
        return replace(self, precision=precision, natural=natural, state=state)


def tilted_moments(log_one: Floats, log_zero: Floats, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of  N(f; mean, variance) (a Phi(f) + b Phi(-f)),  a = exp(log_one), b = exp(log_zero), [N] each."""
    from scipy.special import log_ndtr

    top = np.maximum(log_one, log_zero)
    log_one, log_zero = log_one - top, log_zero - top
    root = np.sqrt(1 + variance)
    z = mean / root
    log_normaliser = np.logaddexp(log_one + log_ndtr(z), log_zero + log_ndtr(-z))
    density = np.exp(-(z**2) / 2 - log_normaliser) / np.sqrt(2 * np.pi)
    slope = (np.exp(log_one) - np.exp(log_zero)) * density / root
    shrunk = variance - variance**2 * slope * (mean / (1 + variance) + slope)
    return mean + variance * slope, np.maximum(shrunk, 1e-10 * variance)
