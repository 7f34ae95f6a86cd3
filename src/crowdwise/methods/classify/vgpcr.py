"""VGPCR: a full Gaussian process for two classes, and annotators with a sensitivity and a specificity (Ruiz et al. 2019).

Model      f ~ GP(0, kappa);  z_n ~ Bernoulli(sigmoid(f_n));  R_ak ~ Dir (two Betas);  vote of a on n ~ R_a[z_n]
Posterior  q(f) prod_n q(z_n) prod_ak Dir(R_ak), with the Jaakkola bound on the link
q(z_n)     log-odds  E f_n + sum_e (E log R[a_e, 1, y_e] - E log R[a_e, 0, y_e])
q(f)       a Gaussian process under Gaussian sites, in closed form (see `crowdwise.parts.priors.logistic_gp`)
kernel     by L-BFGS on the bound, in some rounds after the first five

Notes
-----
Every step is exact for its block, so the bound never falls. The paper starts from vote shares (here ``init="identity"``);
the default, the posterior of `dawid-skene`, recognises adversaries before the process learns from them. Features are
standardised. Items without votes or gold teach nothing and are left out. Cost of a round: O(N^3).

References
----------
Ruiz, Morales-Alvarez, Molina and Katsaggelos (2019), Learning from crowds with variational Gaussian processes, Pattern
Recognition 88, 298-311.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import ABOUT_TOL, Fit, LabelPrior, Progress, alternate, continued, warn_unless_converged
from crowdwise.errors import InputError
from crowdwise.estimator.estimator import announce, setting
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import CrowdClassifier, Learned, Model
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.process_model import ProcessModel, kept_rows
from crowdwise.methods.classify.raykar import teaching_items
from crowdwise.methods.classify.start import start_posterior
from crowdwise.parts.annotators.model import DirichletConfusion
from crowdwise.parts.priors.abilities import dirichlet_rows
from crowdwise.parts.priors.logistic_gp import LogisticGP
from crowdwise.parts.priors.scaling import Scaling

__all__ = ["VGPCR", "BinaryClassifier", "announce_cubic"]


# First rounds, in which the kernel stays as it is.
_HELD = 5
# Rounds that a fit takes, as a rule, and how much faster matrix products are than plain numpy.
ROUNDS, FASTER = 40, 30


@dataclass(eq=False, repr=False, kw_only=True)
class BinaryClassifier(CrowdClassifier):
    """Base of the methods for two classes: a label prior that reads features beside Dirichlet confusion rows."""

    annotator_prior: Any = setting(
        "dir:2,1",
        'Dirichlet prior of confusion rows, "dir:R,W": R on the right label, W on the wrong one; "dir:1,1" is the paper\'s.',
        free=True,
    )
    init: Any = setting(
        "dawid-skene",
        'Start: the posterior of an aggregation method by its name, "identity" (vote shares, as in the paper), or a '
        "posterior [N, 2].",
        free=True,
    )
    kernel_rounds: int = setting(
        10, "Iterations in which the kernel is learned, after the first few; 0 keeps its start.", low=0, whole=True
    )
    max_iter: int = setting(200, "Most iterations.", low=1, whole=True)
    tol: float = setting(1e-4, ABOUT_TOL, above=0)

    def latent(self, X: Any) -> tuple[Floats, Floats]:
        """Mean and variance of the latent function at rows, [N] each: the second class where it is above zero."""
        self._fitted()
        moments: tuple[Floats, Floats] = self.model_.moments(  # type: ignore[attr-defined]
            checked_features(self, X, fitting=False, images=False)
        )
        return moments

    def _process(self, table: Any) -> LabelPrior:
        """The label prior before any vote, on scaled rows; a dataclass whose `rounds` say how long its kernel moves."""
        raise NotImplementedError

    def _model(self, fit: Fit, table: Any, scaling: Scaling) -> Model:
        """What predicts new rows."""
        raise NotImplementedError

    def _log_prior(self, fit: Fit, model: Model, features: Any, taught: Integers) -> Floats | None:
        """What is known of the items before their votes, where it is not what the model says of them."""
        return None

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        if votes.n_classes != 2:
            raise InputError(
                f"Only binary classification is supported. {self.name} is for two classes; these votes have {votes.n_classes}; "
                "use svgpcr"
            )
        rows = dirichlet_rows(self.annotator_prior, 2, votes.annotators)
        taught = teaching_items(votes)
        start = start_posterior(votes, self.init)[taught]
        some, fewer = features[taught], votes.take_items(taught)
        scaling = Scaling.of(some)
        table = scaling.apply(some)
        prior = self._process(table)
        annotators = DirichletConfusion.start(rows, votes.n_annotators)
        fit = warn_unless_converged(self._alternated(fewer, prior, annotators, start, progress))
        model = self._model(fit, table, scaling)
        log_prior = self._log_prior(fit, model, features, taught)
        return Learned(model, fit.annotators, fit.trace, fit.n_iter, fit.converged, log_prior)

    def _alternated(
        self, votes: Annotations, prior: Any, annotators: DirichletConfusion, start: Floats, progress: Progress | None
    ) -> Fit:
        """Some rounds with the kernel held, then the others: under labels that are still rough, it would learn to be flat."""
        known = votes.known_codes
        n_held = min(_HELD, self.max_iter - 1) if self.kernel_rounds else 0
        held = alternate(votes, prior, annotators, start=start, known=known, max_iter=n_held, tol=self.tol, progress=progress)

        fit = alternate(
            votes,
            replace(held.prior, rounds=self.kernel_rounds),
            held.annotators,
            start=held.posterior,
            known=known,
            max_iter=self.max_iter - held.n_iter,
            tol=self.tol,
            progress=continued(progress, held.n_iter),
        )
        trace = {term: np.concatenate([held.trace[term], fit.trace[term]]) for term in fit.trace}
        return replace(fit, trace=trace, n_iter=held.n_iter + fit.n_iter)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def announce_cubic(method: str, n_items: int, evaluations: float) -> None:
    """Say what a process on all items will cost; `evaluations` count Cholesky factors of all items."""
    announce(
        method,
        operations=evaluations * 2.0 * float(n_items) ** 3 / FASTER,
        memory=6.0 * 8 * float(n_items) ** 2,
        advice="use svgpcr or rff, which are linear in the items, or select fewer items",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class VGPCR(BinaryClassifier):
    """Ruiz et al. (2019): a Gaussian process on all items x Dirichlet confusion rows, by variational inference."""

    name: ClassVar[str] = "vgpcr"

    def _process(self, table: Any) -> LogisticGP:
        announce_cubic(self.name, table.shape[0], ROUNDS + 5 * self.kernel_rounds)
        return LogisticGP.start(table)

    def _model(self, fit: Fit, table: Any, scaling: Scaling) -> Model:
        prior: LogisticGP = fit.prior
        return ProcessModel("logistic", scaling, kept_rows(table), prior.kernel, prior.precision, prior.natural)
