"""Raykar et al.: a classifier and a confusion matrix per annotator, estimated together by EM.

Model      p(votes, z | x) = prod_n f(x_n)[z_n] prod_{votes e on n} pi[a_e, z_n, y_e],   f(x) = softmax(x . w + b)
E-step     log q_nk = log f(x_n)_k + sum_e log pi[a_e, k, y_e] + const
M-step     pi_akl proportional to C_akl + pseudo-votes;  w by a step on soft targets q with an L2 penalty

For two classes pi holds the paper's sensitivities, sum_n q_n y_n / sum_n q_n, and specificities.

Notes
-----
Starts from the posterior of `dawid-skene` (the paper: vote shares, here ``init="identity"``), so that adversaries are
recognised before the classifier learns from them. Pseudo-votes follow the crowd's rows as far as the annotator attends: a
hierarchical prior, where the paper has one Beta prior for all. ``classifier="gaussian"`` uses Gaussian classes instead of
logistic regression (see `crowdwise.parts.priors.gaussian`); their probabilities, which are always too sure of themselves, are
tempered until they predict the votes on items left out best. ``classifier="auto"`` fits both, and takes the Gaussians where
they predict these votes better by more than a standard error. Cost of a round: O(N D K + E K).

Late rounds hardly follow the votes any more where features say little: the Gaussians move to where features lie densest, and a
few further votes may send them elsewhere. A campaign that fits again after every batch therefore sets ``gaussian_iter``.

References
----------
Raykar, Yu, Zhao, Valadez, Florin, Bogoni and Moy (2010), Learning from crowds, JMLR 11, 1297-1322.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import ABOUT_TOL, Fit, Progress, alternate, warn_unless_converged
from crowdwise.estimator.estimator import random_state_setting, setting
from crowdwise.kernels.numerics import generator
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import CrowdClassifier, Learned
from crowdwise.methods.classify.logistic_model import LogisticModel
from crowdwise.methods.classify.start import attended_rows, crowd_confusion, start_posterior
from crowdwise.parts.annotators.model import AnnotatorModel, Confusion, row_smoothing
from crowdwise.parts.priors.gaussian import GaussianPrior
from crowdwise.parts.priors.logistic import LogisticPrior, log_softmax

__all__ = ["Raykar", "teaching_items"]


_FOLDS = 5
# Blocks of items, whose differences give the standard error of a sum over all items.
_BLOCKS = 25
# Steps of a logistic regression on given labels, which ends earlier where it can.
_LOGISTIC_STEPS = 100


@dataclass(eq=False, repr=False, kw_only=True)
class Raykar(CrowdClassifier):
    """Raykar et al. (2010): logistic regression x confusion matrices, fitted by EM.

    Examples
    --------
    >>> from crowdwise.data.datasets import crowd_digits
    >>> X, votes, truth = crowd_digits()
    >>> model = Raykar().fit(X[:300], votes[:300])
    >>> bool(model.score(X[300:], truth[300:]) > 0.8)
    True
    """

    classifier: str = setting(
        "logistic",
        "logistic: logistic regression, as in the paper; gaussian: a Gaussian per class with one covariance, which learns "
        "from fewer items; auto: these, where they predict the votes on items left out better by more than a standard error.",
        choices=("logistic", "gaussian", "auto"),
    )
    l2: float | None = setting(
        None,
        "L2 penalty of logistic regression on scaled columns (1 / C of scikit-learn); by default columns / 3.",
        low=0,
        optional=True,
    )
    pseudo_rows: float | None = setting(
        None, "Items of a unit covariance that shrink the Gaussians'; by default as many as columns.", above=0, optional=True
    )
    pool: str = setting(
        "attended",
        "What pseudo-votes follow: attended, the crowd's rows as far as the annotator attends; crowd, the rows of all "
        "annotators together; own, the annotator's use of labels.",
        choices=("attended", "crowd", "own"),
    )
    smoothing: float | None = setting(
        None,
        "Pseudo-votes per class added to every confusion row; by default 1, or 1 / K (own). 0 is maximum likelihood.",
        low=0,
        optional=True,
    )
    init: Any = setting(
        "dawid-skene",
        'Start: the posterior of an aggregation method by its name, "identity" (vote shares, as in the paper), or a '
        "posterior [N, K].",
        free=True,
    )
    max_iter: int = setting(500, "Most iterations.", low=1, whole=True)
    gaussian_iter: int | None = setting(
        None,
        "Iterations after which a fit of the Gaussians is done, converged or not; by default they run as the others do.",
        low=1,
        whole=True,
        optional=True,
    )
    tol: float = setting(1e-5, ABOUT_TOL, above=0)
    steps: int = setting(1, "Steps of logistic regression per iteration.", low=1, whole=True)
    random_state: int | None = random_state_setting("Seed of the items left out to temper the Gaussians.")

    name: ClassVar[str] = "raykar"

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        taught = teaching_items(votes)
        start = start_posterior(votes, self.init)[taught]
        some, fewer = features[taught], votes.take_items(taught)
        kinds = ("logistic", "gaussian") if self.classifier == "auto" else (self.classifier,)
        fits = {kind: self._alternated(kind, some, fewer, start, progress) for kind in kinds}
        if self.classifier == "logistic":
            return _learned(fits["logistic"])
        # The same folds for both.
        seed = int(generator(self.random_state).integers(2**31))
        tempers = {kind: self._tempered(kind, fit, some, fewer, np.random.default_rng(seed)) for kind, fit in fits.items()}
        if "logistic" in tempers and not _surely_above(tempers["gaussian"].evidence, tempers["logistic"].evidence):
            return _learned(fits["logistic"])
        fit, temper = fits["gaussian"], tempers["gaussian"]
        model = LogisticModel(fit.prior.raw_weights * temper.factor)
        # What the Gaussians say of an item that they have seen is too sure; what they say without it is not.
        log_prior = model.log_prob(features)
        log_prior[taught] = log_softmax(temper.scores * temper.factor)
        return replace(_learned(fit), model=model, log_prior=log_prior)

    def _alternated(self, kind: str, features: Any, votes: Annotations, start: Floats, progress: Progress | None) -> Fit:
        """EM with one of the classifiers."""
        prior: LogisticPrior | GaussianPrior
        if kind == "gaussian":
            prior = GaussianPrior.start(features, votes.n_classes, self.pseudo_rows)
        else:
            prior = LogisticPrior.start(features, votes.n_classes, l2=self.l2, steps=self.steps)
        annotators = Confusion.start(self._pseudo_votes(votes, start), votes.n_annotators)
        few = self.gaussian_iter if kind == "gaussian" else None
        fit = alternate(
            votes,
            prior,
            annotators,
            start=start,
            known=votes.known_codes,
            max_iter=self.max_iter if few is None else min(few, self.max_iter),
            tol=self.tol,
            progress=progress,
        )
        return replace(fit, converged=True) if fit.n_iter == few else warn_unless_converged(fit)

    def _tempered(self, kind: str, fit: Fit, features: Any, votes: Annotations, rng: np.random.Generator) -> _Temper:
        """A classifier's log-odds of items that it has not seen, under the labels found, and how far the votes believe them."""

        def weights(rest: Integers) -> Floats:
            prior: LogisticPrior | GaussianPrior
            if kind == "gaussian":
                prior = GaussianPrior.start(features[rest], votes.n_classes, self.pseudo_rows)
            else:
                prior = LogisticPrior.start(features[rest], votes.n_classes, l2=self.l2, steps=_LOGISTIC_STEPS)
            return prior.update(fit.posterior[rest]).raw_weights

        scores = _left_out_scores(features, votes.n_classes, weights, rng)
        factor = _temperature(scores, votes, fit.annotators)
        return _Temper(scores, factor, _evidence(log_softmax(scores * factor), votes, fit.annotators))

    def _pseudo_votes(self, votes: Annotations, start: Floats) -> Floats:
        if self.pool == "own":
            return row_smoothing(votes, 1 / votes.n_classes if self.smoothing is None else self.smoothing)
        rows = attended_rows(votes, start) if self.pool == "attended" else crowd_confusion(votes, start).T[None]
        return (1.0 if self.smoothing is None else self.smoothing) * votes.n_classes * rows


def teaching_items(votes: Annotations) -> Integers:
    """Items with votes or a known label: the others say nothing about the classifier, and would only slow EM down."""
    return np.flatnonzero((votes.votes_per_item > 0) | votes.is_known)


@dataclass(frozen=True)
class _Temper:
    """Log-odds of items left out, [N, K], what to multiply them by, and the log-probability of votes then, by block."""

    scores: Floats
    factor: float
    evidence: Floats


def _learned(fit: Fit) -> Learned:
    return Learned(LogisticModel(fit.prior.raw_weights), fit.annotators, fit.trace, fit.n_iter, fit.converged)


def _left_out_scores(features: Any, n_classes: int, weights: Callable[[Integers], Floats], rng: np.random.Generator) -> Floats:
    """Log-odds of every item by weights [D + 1, K] found without it and a fifth of the others, [N, K]."""
    n_items = features.shape[0]
    fold = rng.permutation(n_items) % _FOLDS
    scores = np.zeros((n_items, n_classes))
    for held_out in range(min(_FOLDS, n_items) if n_items > 1 else 0):
        out = fold == held_out
        found = weights(np.flatnonzero(~out))
        scores[out] = features[np.flatnonzero(out)] @ found[:-1] + found[-1]
    return scores


def _temperature(scores: Floats, votes: Annotations, annotators: AnnotatorModel) -> float:
    """What to multiply log-odds by, at most 1, so that the votes are likeliest."""
    from scipy.optimize import minimize_scalar

    no_one, scratch = np.empty(0, np.int16), np.zeros_like(scores)

    def loss(log_temperature: float) -> float:
        return -annotators.infer(votes, log_softmax(scores * np.exp(log_temperature)), no_one, scratch)[0]

    found = minimize_scalar(loss, bounds=(np.log(0.01), 0.0), method="bounded")
    return float(np.exp(found.x))


def _evidence(log_prior: Floats, votes: Annotations, annotators: AnnotatorModel) -> Floats:
    """Log-probability of the votes on every block of items, [B]."""
    no_one, n_items = np.empty(0, np.int16), len(log_prior)
    blocks = [np.arange(first, n_items, _BLOCKS) for first in range(min(_BLOCKS, n_items))]
    parts = ((votes.take_items(block), log_prior[block]) for block in blocks)
    return np.array([annotators.infer(some, log_some, no_one, np.zeros_like(log_some))[0] for some, log_some in parts])


def _surely_above(one: Floats, other: Floats) -> bool:
    """Whether the first sum is above the second by more than the standard error of their difference."""
    gain = one - other
    return bool(gain.sum() > gain.std(ddof=1) * len(gain) ** 0.5) if len(gain) > 1 else False
