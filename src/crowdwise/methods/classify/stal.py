"""Fang et al.'s annotators: reliability that depends on the concepts an item belongs to, with a logistic classifier, by EM.

Model      p(z = k | x) = softmax(x . w + b)_k
           t(x) = memberships of x~ in a Gaussian mixture, one component per concept
           P(vote of a = z | x) = eta_a(x) = sigmoid(w_a . t~(x) + gamma_a), wrong labels uniform

All else is `yan`'s: principal components x~, EM, and weights that are drawn around the crowd's. t~ are the memberships less
their mean, each of unit variance over the training items.

Notes
-----
A mixture tells islands apart that no straight line separates, which is what `yan` cannot say. The paper lets the best annotator
of an item teach the worst, who answers better from then on; recorded answers cannot change, so this is left out.

References
----------
Fang, Zhu, Li, Ding and Wu (2012), Self-taught active learning from crowds, ICDM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.estimator.estimator import random_state_setting, seed_of, setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.yan import Yan, YanModel, component_projection
from crowdwise.parts.priors.logistic import LogisticPrior, log_softmax

__all__ = ["STAL", "STALModel"]


@storable
@dataclass(frozen=True, eq=False)
class STALModel(YanModel):
    """The classifier, and a mixture of Gaussians over principal components.

    Attributes
    ----------
    means, variances : [C, d]
        Of the concepts, in components.
    log_shares : [C]
        Logarithms of the concepts' shares.
    centre, spread : [C]
        Mean and standard deviation of the memberships over the training items.
    """

    means: Floats
    variances: Floats
    log_shares: Floats
    centre: Floats
    spread: Floats

    def memberships(self, features: Any) -> Floats:
        """How far each row belongs to each concept, [N, C]; rows sum to one."""
        rows = super().project(features)
        # The square written out: one product of matrices instead of an array of rows x concepts x components.
        precision = 1 / self.variances
        distance = rows**2 @ precision.T - 2 * rows @ (self.means * precision).T + (self.means**2 * precision).sum(axis=1)
        return np.asarray(np.exp(log_softmax(self.log_shares - (distance + np.log(self.variances).sum(axis=1)) / 2)))

    def project(self, features: Any) -> Floats:
        """Features of reliability, [N, C]."""
        return (self.memberships(features) - self.centre) / self.spread


@dataclass(eq=False, repr=False, kw_only=True)
class STAL(Yan):
    """Fang et al. (2012): logistic regression x reliability that depends on an item's concepts, fitted by EM."""

    concepts: int = setting(10, "Components of the mixture; fewer where there are fewer different items.", low=1, whole=True)
    random_state: int | None = random_state_setting("The mixture starts from k-means.")

    name: ClassVar[str] = "stal"

    def _unfitted(self, prior: LogisticPrior, features: Any) -> STALModel:
        from sklearn.mixture import GaussianMixture

        projection = component_projection(prior, self.dimensions)
        flat = YanModel(prior.raw_weights, projection).project(features)
        n_concepts, width = min(self.concepts, len(np.unique(flat, axis=0))), flat.shape[1]
        means, variances, shares = flat.mean(axis=0, keepdims=True), np.ones((1, width)), np.ones(1)
        if n_concepts > 1:
            mixture = GaussianMixture(n_concepts, covariance_type="diag", random_state=seed_of(self.random_state)).fit(flat)
            means, variances, shares = mixture.means_, mixture.covariances_, mixture.weights_
        raw = STALModel(
            prior.raw_weights, projection, means, variances, np.log(shares), np.zeros(len(shares)), np.ones(len(shares))
        )
        member = raw.memberships(features)
        spread = member.std(axis=0)
        return replace(raw, centre=member.mean(axis=0), spread=np.where(spread > 1e-6, spread, 1.0))
