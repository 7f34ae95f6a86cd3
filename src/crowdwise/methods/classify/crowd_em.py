"""EM around any classifier of scikit-learn: class probabilities of every item from models that have not seen it.

Model      p(votes, z | x) = prod_n p(z_n | x_n) prod_{votes e on n} pi[a_e, z_n, y_e],   rows of pi Dirichlet
           p(z = k | x) = (1 - e) softmax_k(t log(f(x)_k / m_k) + log rho_k) + e rho_k,   f any classifier, m its mean
A round    1  deal items into folds; f_n = what a classifier says of item n that was trained, on the labels q, without its fold
           2  labels, annotators and rho, t, e to their end, given f_n:  log q_nk = log p(z_n = k) + sum_e E log pi[a_e, k, y_e]
At the end f is trained on all items, and its probabilities of new rows are corrected in the same way

Notes
-----
A forest, a boosted model or a few neighbours repeat the labels that they were trained on. As a prior of the same labels they
would confirm whatever they were told, hence the folds: they are dealt once, every class into all of them as evenly as it goes,
and every round trains with the same seed. How far f can be believed is learned from the same items, as the correction under
which their votes are likeliest; see `crowdwise.parts.priors.recalibrated`. Soft labels are weights: see
`crowdwise.methods.classify.soft_fit`. Annotators are drawn from the crowd (`crowd_rows`), and the fit starts from an
aggregation, so that adversaries are recognised before a classifier learns from them. Trees answer a small change of labels by
a jump: rounds end by the usual rule, or when items move no less than they did before (`settled_or_jumping`). The bound that is
traced is that of step 2, under classifiers that change from round to round; it may fall. Cost of a round: `folds` trainings,
and O(E K).

References
----------
After Raykar et al. (2010), Learning from crowds, JMLR 11, whose classifier is a logistic regression; cross-fitting after
Chernozhukov et al. (2018), Double/debiased machine learning, The Econometrics Journal 21.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.engines.loop import ABOUT_TOL, Fit, Progress, Round, alternate, loop, settled, warn_unless_converged
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import random_state_setting, seed_of, setting
from crowdwise.kernels.numerics import moved
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import CrowdClassifier, Learned, Model
from crowdwise.methods.classify.logistic_model import LogisticModel
from crowdwise.methods.classify.raykar import teaching_items
from crowdwise.methods.classify.soft_fit import SklearnModel, check_classifier, fitted_classifier, some_rows
from crowdwise.methods.classify.start import crowd_rows, start_posterior
from crowdwise.parts.annotators.model import DirichletConfusion
from crowdwise.parts.priors.abilities import dirichlet_rows
from crowdwise.parts.priors.anchored import Anchored
from crowdwise.parts.priors.logistic import LogisticPrior
from crowdwise.parts.priors.recalibrated import Correction, Recalibrated

__all__ = ["CorrectedModel", "CrowdEM"]

_NAMES = ("logistic", "boosting", "forest")
# Steps of a logistic regression, which ends earlier where it can.
_LOGISTIC_STEPS = 1000
# Labels, annotators and correction under given classifiers: they cost little, and are taken to their end.
_ROUNDS, _TOL = 100, 1e-5


@storable
@dataclass(frozen=True, eq=False)
class CorrectedModel:
    """A fitted classifier whose probabilities are corrected."""

    model: Any
    correction: Correction

    def log_prob(self, features: Any) -> Floats:
        """[N, K]."""
        return self.correction.apply(self.model.log_prob(features))


@dataclass(eq=False, repr=False, kw_only=True)
class CrowdEM(CrowdClassifier):
    """Any classifier of scikit-learn x confusion matrices, fitted by EM with cross-fitting.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from crowdwise.data.datasets import crowd_digits
    >>> X, votes, truth = crowd_digits()
    >>> model = CrowdEM(estimator=RandomForestClassifier(20), folds=3).fit(X[:300], votes[:300])
    >>> bool(model.score(X[300:], truth[300:]) > 0.7)
    True
    """

    estimator: Any = setting(
        "logistic",
        '"logistic", "boosting" (HistGradientBoostingClassifier), "forest" (RandomForestClassifier), or any classifier with '
        "scikit-learn's fit and predict_proba, such as LGBMClassifier() or a pipeline.",
        choices=_NAMES,
        free=True,
    )
    folds: int = setting(
        5, "Parts that items are dealt into: a classifier judges one and learns from the others.", low=2, whole=True
    )
    init: Any = setting(
        "dawid-skene",
        'Start: the posterior of an aggregation method by its name, "identity" (vote shares), or a posterior [N, K].',
        free=True,
    )
    annotator_prior: Any = setting(
        "crowd",
        'Dirichlet prior of confusion rows: "crowd" (what votes alone say of all annotators), "dir:R,W" (R on the diagonal, '
        'W spread over the wrong labels), or annotator -> such a prior, with "*" for all others.',
        free=True,
    )
    max_iter: int = setting(50, "Most rounds.", low=1, whole=True)
    tol: float = setting(0.01, ABOUT_TOL, above=0)
    random_state: int | None = random_state_setting("Seed of the folds, and of an estimator that has none.")

    name: ClassVar[str] = "crowd-em"

    @property
    def takes_any_rows(self) -> bool:
        """Whether rows go to the estimator as they are: all but the house's logistic regression."""
        return not _is_logistic(self.estimator)

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        estimator, seed = self._made()
        taught = teaching_items(votes)
        some, fewer = some_rows(features, taught), votes.take_items(taught)
        start = start_posterior(votes, self.init)[taught]
        fold = dealt(start, self.folds, np.random.default_rng(seed))

        def step(fit: Fit) -> tuple[Fit, Round]:
            prior = fit.prior.of(left_out(estimator, some, fit.posterior, fold))
            done = alternate(
                fewer, prior, fit.annotators, start=fit.posterior, known=fewer.known_codes, max_iter=_ROUNDS, tol=_TOL
            )
            terms = {name: float(values[-1]) for name, values in done.trace.items()}
            return done, Round(moved(done.posterior, fit.posterior) / max(len(taught), 1), terms)

        shares = Anchored.start(start_posterior(fewer, "identity").sum(axis=0))
        annotators = DirichletConfusion.start(self._rows(fewer), votes.n_annotators)
        first = Fit(start, Recalibrated.start(np.zeros_like(start), shares), annotators, {}, 0, False)
        run = warn_unless_converged(
            loop(step, first, max_iter=self.max_iter, tol=self.tol, progress=progress, rule=settled_or_jumping)
        )
        found = run.state
        prior: Recalibrated = found.prior
        final = fitted_model(estimator, some, found.posterior)
        model = CorrectedModel(final, prior.correction)
        # What a classifier says of an item that it has seen is too sure; what others say without it is not.
        log_prior = np.empty((votes.n_items, votes.n_classes))
        log_prior[taught] = prior.log_prob()
        rest = np.setdiff1d(np.arange(votes.n_items), taught)
        if len(rest):
            log_prior[rest] = model.log_prob(some_rows(features, rest))
        return Learned(model, found.annotators, run.trace, run.n_iter, run.converged, log_prior)

    def _rows(self, votes: Annotations) -> Floats:
        """Dirichlet parameters of confusion rows before any vote, [1 or A, L, K]."""
        if isinstance(self.annotator_prior, str) and self.annotator_prior == "crowd":
            return crowd_rows(votes)
        return dirichlet_rows(self.annotator_prior, votes.n_classes, votes.annotators)

    def _made(self) -> tuple[Any, int]:
        """The estimator, with a seed wherever it has none, and the seed."""
        seed = seed_of(self.random_state)
        if isinstance(self.estimator, str):
            return named(self.estimator, seed), seed
        check_classifier(self.estimator, "estimator")
        estimator = clone(self.estimator)
        open_ones = [name for name, value in estimator.get_params().items() if value is None and _is_seed(name)]
        return estimator.set_params(**dict.fromkeys(open_ones, seed)), seed

    def check_save(self, folder: str | PathLike[str]) -> None:
        """Refuse, before training, what `save` would refuse after it."""
        super().check_save(folder)
        if not _is_logistic(self.estimator):
            raise _unsaved(self.estimator)

    def _members(self) -> dict[str, bytes]:
        assert isinstance(self.model_, CorrectedModel)
        if isinstance(self.model_.model, SklearnModel):
            raise _unsaved(self.model_.model.classifier)
        return super()._members()


def settled_or_jumping(rounds: Sequence[Round], tol: float) -> bool:
    """The usual rule, or: items have calmed down, and moved no less in the last two rounds than in some round before.

    What is left then are the jumps of a classifier that is no smooth function of its labels, and more rounds change nothing.
    Calm is half of the largest change, so that a fit which gathers speed is not taken for one that jumps.
    """
    if settled(rounds, tol):
        return True
    change = [done.change for done in rounds]
    return len(change) > 3 and change[-1] <= max(change) / 2 and min(change[-2:]) >= min(change[:-2])


def named(name: str, seed: int) -> Any:
    """The estimator of a name; "logistic" stands for itself."""
    if name == "logistic":
        return name
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    if name == "forest":
        return RandomForestClassifier(random_state=seed)
    # Rows are repeated, so that a part which it holds out itself would not be unseen.
    return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)


def dealt(posterior: Floats, folds: int, rng: np.random.Generator) -> Integers:
    """The fold of every item, [N]: at random, but each class in all of them as evenly as it goes."""
    order = rng.permutation(len(posterior))
    by_class = order[np.argsort(posterior.argmax(axis=1)[order], kind="stable")]
    fold = np.empty(len(order), np.int64)
    fold[by_class] = np.arange(len(order)) % folds
    return fold


def left_out(estimator: Any, features: Any, target: Floats, fold: Integers) -> Floats:
    """Log class probabilities of every item by a classifier trained on the other folds, [N, K]."""
    found = np.full_like(target, -np.log(target.shape[1]))
    for held_out in np.unique(fold):
        out, others = np.flatnonzero(fold == held_out), np.flatnonzero(fold != held_out)
        # One item in all: there is nothing to learn from.
        if len(others):
            trained = fitted_model(estimator, some_rows(features, others), target[others])
            found[out] = trained.log_prob(some_rows(features, out))
    return found


def fitted_model(estimator: Any, features: Any, target: Floats) -> Model:
    """The estimator, or the house's logistic regression, on soft labels."""
    if not _is_logistic(estimator):
        return fitted_classifier(estimator, features, target)
    start = LogisticPrior.start(features, target.shape[1], steps=_LOGISTIC_STEPS)
    return LogisticModel(start.update(target).raw_weights)


def _is_logistic(estimator: Any) -> bool:
    return isinstance(estimator, str) and estimator == "logistic"


def _is_seed(name: str) -> bool:
    return name.rpartition("__")[2] == "random_state"


def _unsaved(estimator: Any) -> SettingError:
    what = estimator if isinstance(estimator, str) else type(estimator).__name__
    return SettingError(
        f'{what} cannot be saved without pickle; use estimator="logistic", or keep the estimator in memory, or give new rows '
        "to the fit: those without votes are labelled too"
    )
