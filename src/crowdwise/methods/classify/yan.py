"""Yan et al.: annotators whose reliability depends on the item, with a logistic classifier, by EM.

Model      p(z = k | x) = softmax(x . w + b)_k
           P(vote of a = z | x) = eta_a(x) = sigmoid(w_a . x~ + gamma_a), wrong labels uniform
E-step     a vote adds  logit eta_a(x_n) + log(K - 1)  to the class it names
M-step     a logistic regression per annotator with soft target q_{n, y_e} (all at once), and the classifier on q

Notes
-----
x~ are the first `dimensions` principal components of the scaled features, each of unit variance: weights per annotator
and feature would be more than the votes can determine. The paper has no priors; here annotators' weights are drawn around the
crowd's (see `crowdwise.parts.annotators.reliability`), so that few votes, or votes that are all right, have a solution. Starts
from the posterior of `dawid-skene`. Cost of a round: O(N D K + E d^2).

References
----------
Yan, Rosales, Fung, Schmidt, Hermosillo, Bogoni, Moy and Dy (2010), Modeling annotator expertise: learning when everybody
knows a bit of something, AISTATS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.engines.loop import ABOUT_TOL, Progress, alternate, best_of
from crowdwise.estimator.estimator import random_state_setting, setting
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import CrowdClassifier, Learned
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.logistic_model import LogisticModel
from crowdwise.methods.classify.raykar import teaching_items
from crowdwise.methods.classify.start import start_posterior
from crowdwise.parts.annotators.reliability import ItemReliability
from crowdwise.parts.priors.logistic import LogisticPrior
from crowdwise.parts.priors.scaling import principal_axes

__all__ = ["Yan", "YanModel", "component_projection"]


@storable
@dataclass(frozen=True, eq=False)
class YanModel(LogisticModel):
    """The classifier, and what turns features into those that reliability depends on: `projection`, [D + 1, d]."""

    projection: Floats

    def project(self, features: Any) -> Floats:
        """Features of reliability, [N, d]."""
        return np.asarray(features @ self.projection[:-1] + self.projection[-1])


@dataclass(eq=False, repr=False, kw_only=True)
class Yan(CrowdClassifier):
    """Yan et al. (2010): logistic regression x reliability that depends on the item, fitted by EM."""

    dimensions: int = setting(20, "Principal components of the features that reliability may depend on.", low=1, whole=True)
    reliability_l2: float | None = setting(
        None,
        "L2 penalty that holds an annotator's weights to the crowd's; by default the number of components.",
        above=0,
        optional=True,
    )
    l2: float | None = setting(
        None,
        "L2 penalty of the classifier on scaled columns (1 / C of scikit-learn); by default columns / 3.",
        low=0,
        optional=True,
    )
    init: Any = setting(
        "dawid-skene",
        'Start: the posterior of an aggregation method by its name, "identity" (vote shares), or a posterior [N, K].',
        free=True,
    )
    max_iter: int = setting(500, "Most iterations.", low=1, whole=True)
    tol: float = setting(1e-5, ABOUT_TOL, above=0)
    steps: int = setting(1, "Steps of the classifier per iteration.", low=1, whole=True)
    random_state: int | None = random_state_setting("As in the other methods; nothing is random here.")

    name: ClassVar[str] = "yan"

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        taught = teaching_items(votes)
        start = start_posterior(votes, self.init)[taught]
        some, fewer = features[taught], votes.take_items(taught)
        prior = LogisticPrior.start(some, votes.n_classes, l2=self.l2, steps=self.steps)
        model = self._unfitted(prior, some)
        rows = model.project(some)
        # As many units of penalty as components: from item to item, log-odds then differ by about one from the crowd's.
        strength = rows.shape[1] if self.reliability_l2 is None else self.reliability_l2
        annotators = ItemReliability.start(rows, votes.n_annotators, votes.n_classes, l2=float(strength))
        known = fewer.known_codes
        fit = best_of(
            lambda first: alternate(
                fewer, prior, annotators, start=first, known=known, max_iter=self.max_iter, tol=self.tol, progress=progress
            ),
            [start],
        )
        model = replace(model, weights=fit.prior.raw_weights)
        # The items without votes have features, too.
        everyone = replace(fit.annotators, features=model.project(features))
        return Learned(model, everyone, fit.trace, fit.n_iter, fit.converged)

    def _unfitted(self, prior: LogisticPrior, features: Any) -> YanModel:
        """The model before EM: what reliability depends on is found in the features alone."""
        return YanModel(prior.raw_weights, component_projection(prior, self.dimensions))

    def reliability(self, X: Any, annotators: Sequence[Any] | None = None) -> Floats:
        """Probability that each annotator labels each row right, [N, A'].

        Parameters
        ----------
        X : [N, D]
            Rows, seen in the fit or not.
        annotators : sequence, optional
            Ids of the annotators, in the order of the columns; by default all of the fit.
            One never seen is like the crowd.
        """
        from crowdwise.data.encode import series_of, tidy, vocabulary_array
        from crowdwise.estimator.carry import positions

        result = self._fitted()
        rows = self._projected(checked_features(self, X, fitting=False, images=False))
        model: ItemReliability = result.annotators
        if annotators is not None:
            ids = vocabulary_array(tidy(series_of(np.asarray(annotators))))
            model = model.aligned(positions(ids, result.votes.annotators), np.empty(0, np.int64))
        return model.reliability(rows)

    #: The name by which policies ask, as of `dalc`.
    expertise = reliability

    def _annotators_on(self, features: Any, who: Integers) -> ItemReliability:
        """The annotators' part for new rows: reliability follows the rows' own features."""
        model: ItemReliability = self._fitted().annotators
        return replace(model.aligned(who, np.empty(0, np.int64)), features=self._projected(features))

    def _projected(self, features: Any) -> Floats:
        assert isinstance(self.model_, YanModel)
        return self.model_.project(features)


def component_projection(prior: LogisticPrior, dimensions: int) -> Floats:
    """From features as given to principal components of unit variance, [D + 1, d]."""
    axes, variance, mean = principal_axes(prior.table, dimensions)
    kept = variance > 1e-10 * max(float(variance[0]), 1e-300)
    turn = axes[:, kept] / np.sqrt(variance[kept])
    return prior.scaling.raw_weights(np.vstack([turn, -(mean @ turn)]))
