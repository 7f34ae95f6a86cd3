"""RFF and VFF: a Gaussian process for two classes by Fourier features (Morales-Alvarez et al. 2019).

Model      as `vgpcr`, with f(x) = phi(x) . rho, F cosines and F sines, rho ~ N(0, variance I)
rff        frequencies are drawn once from the kernel's spectrum; variance and length are learned
vff        ``learned=True``: frequencies are learned as well

Notes
-----
The bound and its steps are those of `vgpcr`, in the space of the weights rho: the cost of a round is linear in the items,
O(N F (D + F)). The kernel, and for vff the frequencies, are learned after the first rounds, each time by a few L-BFGS
steps on the bound, and then held. Features are standardised.

References
----------
Morales-Alvarez, Ruiz, Santos-Rodriguez, Molina and Katsaggelos (2019), Scalable and efficient learning from crowds with
Gaussian processes, Information Fusion 52, 110-127.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.engines.loop import Fit
from crowdwise.estimator.estimator import announce, random_state_setting, setting
from crowdwise.kernels.numerics import generator
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.vgpcr import FASTER, ROUNDS, BinaryClassifier
from crowdwise.parts.priors.fourier import FourierPrior, fourier_features, moments_of
from crowdwise.parts.priors.logistic_gp import log_mean_sigmoid
from crowdwise.parts.priors.scaling import Scaling

__all__ = ["FourierGP", "FourierModel"]


_CHUNK = 10_000


@dataclass(eq=False, repr=False, kw_only=True)
class FourierGP(BinaryClassifier):
    """Morales-Alvarez et al. (2019): Bayesian logistic regression on Fourier features x Dirichlet confusion rows."""

    frequencies: int = setting(100, "Frequencies; each gives a cosine and a sine.", low=1, whole=True)
    learned: bool = setting(False, "Learn the frequencies, which are otherwise drawn once.")
    random_state: int | None = random_state_setting("Seed of the frequencies.")

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in the registry: rff, or with learned frequencies vff."""
        return "vff" if self.learned else "rff"

    def _process(self, table: Any) -> FourierPrior:
        evaluations = ROUNDS + 10 * self.kernel_rounds
        announce(
            self.name,
            operations=evaluations * 2.0 * table.shape[0] * (2 * self.frequencies) ** 2 / FASTER,
            memory=8.0 * (2 * self.frequencies) ** 2,
            advice="use svgpcr, or fewer frequencies or kernel_rounds",
        )
        return FourierPrior.start(
            table,
            self.frequencies,
            generator(self.random_state),
            learn_frequencies=self.learned,
        )

    def _model(self, fit: Fit, table: Any, scaling: Scaling) -> FourierModel:
        prior: FourierPrior = fit.prior
        angular = np.vstack([prior.angular, np.zeros(prior.angular.shape[1])])
        return FourierModel(scaling.raw_weights(angular), prior.weights, prior.factor)


@storable
@dataclass(frozen=True, eq=False)
class FourierModel:
    """Logistic regression on Fourier features with Gaussian weights.

    Attributes
    ----------
    angular : [D + 1, F]
        Frequencies for features as they are given; the last row is the phase at zero.
    weights, factor : [2 F], [2 F, 2 F]
        Mean of the weights, and the lower Cholesky factor of their precision.
    """

    angular: Floats
    weights: Floats
    factor: Floats

    def log_prob(self, features: Any) -> Floats:
        """[N, 2]."""
        mean, variance = self.moments(features)
        return log_mean_sigmoid(mean, variance)

    def moments(self, features: Any) -> tuple[Floats, Floats]:
        """Mean and variance of f at new rows, [N] each."""
        n_rows = features.shape[0]
        mean, variance = np.zeros(n_rows), np.zeros(n_rows)
        for start in range(0, n_rows, _CHUNK):
            here = slice(start, start + _CHUNK)
            phi = fourier_features(np.asarray(features[here] @ self.angular[:-1] + self.angular[-1]))
            mean[here], variance[here] = moments_of(phi, self.weights, self.factor)
        return mean, variance
