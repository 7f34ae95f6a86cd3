"""The shell of every label-only method: validate, call `_fit`, keep one `Result`.

Follows scikit-learn's protocol (constructor stores settings, `get_params`, `set_params`, `clone`,
fitted names end in `_`) without importing scikit-learn, which would cost more than most fits.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import translate
from crowdwise.engines.alternate import Fit, Progress, alternate, best_of, warn_unless_converged
from crowdwise.engines.sharded import alternate_shards
from crowdwise.errors import DataWarning, InputError, NotFittedError, SettingError
from crowdwise.estimator.configured import Configured
from crowdwise.estimator.cost import check_tables
from crowdwise.estimator.history import encode_history
from crowdwise.estimator.problem import (
    MOMENT_STARTS,
    Problem,
    carried_posterior,
    positions,
    start_of_shards,
    start_posteriors,
)
from crowdwise.estimator.result import Result
from crowdwise.estimator.settings import check_settings, setting
from crowdwise.estimator.views import ResultViews
from crowdwise.kernels.numerics import best_class
from crowdwise.parts.annotators.confusion import foretelling
from crowdwise.parts.priors.marginals import given_class_prior

if TYPE_CHECKING:
    from typing_extensions import Self

    from crowdwise.engines.alternate import LabelPrior
    from crowdwise.engines.shards import Shards
    from crowdwise.parts.annotators.protocol import AnnotatorModel

__all__ = ["Aggregator", "IterativeAggregator"]

Floats = NDArray[np.float64]

# Votes from which `update` goes on from the earlier posterior.
_WARM_FROM = 100_000


@dataclass(eq=False, repr=False, kw_only=True)
class Aggregator(Configured, ResultViews):
    """Base of the label-only methods; a method supplies `name` and `_fit`."""

    class_prior: Any = setting(
        "learn", 'Class shares: "learn" from the votes, "uniform", or K probabilities (a list, or class -> share).', free=True
    )

    name: ClassVar[str]

    def _fit(self, problem: Problem) -> Fit:
        raise NotImplementedError

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self, votes: Any, gold: Any = None, *, annotator_prior: Any = None, progress: Progress | None = None, engine: Any = None
    ) -> Self:
        """Fit to votes.

        Parameters
        ----------
        votes : Annotations, frame or matrix
            Frames and matrices are turned into `Annotations` by the usual column names.
        gold : mapping, frame, Series or sequence, optional
            Known labels of some items; they stay fixed and teach the model about annotators.
        annotator_prior : Result, estimator, mapping or frame, optional
            What is known of annotators from before: see `crowdwise.estimator.history`.
        progress : callable, optional
            Called after every iteration with (iteration, bound, largest change).
        engine : optional
            Where the fit runs: `crowdwise.scale.Local` (threads, out of core) or `crowdwise.scale.Ray`. The methods of votes
            that it can spread are listed there. Default: here, in memory.
        """
        check_settings(self)
        if engine is not None:
            engine.fit(self, votes, gold, annotator_prior=annotator_prior, progress=progress)
            return self
        votes = as_annotations(votes)
        if gold is not None:
            votes = votes.with_gold(gold)
        earlier = getattr(self, "result_", None) if getattr(self, "warm_start", False) else None
        history = None if annotator_prior is None else encode_history(votes, annotator_prior)
        return self._run(votes, history, earlier, progress)

    def update(self, votes: Any, gold: Any = None, *, progress: Progress | None = None) -> Self:
        """Fold in new votes (new items, annotators and classes too): the fit to all votes together.

        Large fits go on from the present posterior. Small ones take milliseconds and start where a
        fit starts: on thin data the bound has several optima, and going on from an earlier one
        often ends in another than the fit to all votes does.
        """
        check_settings(self)
        earlier = self._fitted()
        votes = earlier.votes.concat(as_annotations(votes))
        added = votes.classes[earlier.votes.n_classes :].tolist()
        if added:
            warnings.warn(
                f"classes that the earlier votes did not have: {', '.join(map(str, added))}", DataWarning, stacklevel=2
            )
        if gold is not None:
            before, votes = votes.gold, votes.with_gold(gold)
            if before is not None and votes.gold is not None:
                # New gold adds to, and where both speak corrects, the labels known before.
                votes = replace(votes, gold=np.where(votes.gold >= 0, votes.gold, before))
        history = None if earlier.history is None else _carried_history(earlier, votes)
        thin = votes.n_votes < _WARM_FROM and isinstance(getattr(self, "init", "votes"), str)
        return self._run(votes, history, None if thin else earlier, progress)

    def _run(self, votes: Annotations, history: Floats | None, earlier: Result | None, progress: Progress | None) -> Self:
        done = self._solve(votes, history, earlier, progress)
        self.result_ = Result(votes=votes, posterior=done.posterior, **self._told(done, history))
        warn_if_switched(self._fitted())
        return self

    def _solve(
        self,
        votes: Annotations,
        history: Floats | None,
        earlier: Result | None,
        progress: Progress | None,
        spread: Shards | None = None,
    ) -> Fit:
        """Check what only votes and settings together can tell, and fit; to votes in shards, where `spread` has them."""
        if votes.n_classes == 1:
            warnings.warn(
                f"only one class occurs ({votes.classes[0]}); if there are others, name them all with classes=... or --classes",
                DataWarning,
                stacklevel=4,
            )
        check_tables(votes.n_annotators, votes.n_classes, votes.n_votes)
        problem = Problem(
            votes=votes,
            known=np.empty(0, np.int16) if spread is not None or votes.gold is None else votes.gold,
            history=history,
            class_prior=given_class_prior(self.class_prior, votes),
            warm=None if earlier is None else carried_posterior(earlier, votes),
            rng=_generator(getattr(self, "random_state", None)),
            progress=progress,
            spread=spread,
        )
        return self._fit(problem)

    def _told(self, done: Fit, history: Floats | None) -> dict[str, Any]:
        """What a result says beside votes and posteriors."""
        return {
            "method": self.name,
            "settings": self.get_params(),
            "seed": getattr(self, "random_state", None),
            "prior": done.prior,
            "annotators": done.annotators,
            "history": history,
            "trace": done.trace,
            "n_iter": done.n_iter,
            "converged": done.converged,
        }

    # -- using a fit ---------------------------------------------------------------------------

    def predict_proba(self, votes: Any) -> Floats:
        """Posterior of the items in `votes` under the fitted model, [N, K]; nothing is refitted.

        Annotators never seen in the fit get the population's model.
        """
        return self._infer(votes)[0]

    def predict(self, votes: Any) -> NDArray[Any]:
        """Labels of the items in `votes` under the fitted model, [N]."""
        result = self._fitted()
        return np.asarray(result.votes.classes[best_class(self.predict_proba(votes), result.class_prior)])

    def fit_predict(self, votes: Any, gold: Any = None, **options: Any) -> NDArray[Any]:
        """Fit and return the labels, [N]."""
        return self.fit(votes, gold, **options).labels_

    def fit_predict_proba(self, votes: Any, gold: Any = None, **options: Any) -> Floats:
        """Fit and return the posterior, [N, K]."""
        return self.fit(votes, gold, **options).posterior_

    def score(self, votes: Any, y: Any = None) -> float:
        """Without `y`, the mean log-probability of a vote under the fitted model; with it, accuracy.

        The first needs no true labels, so ``GridSearchCV(...).fit(votes)`` works without any.
        Methods that only count votes have no likelihood and need `y`.
        """
        if y is not None:
            from crowdwise.data.gold import encode_gold

            result = self._fitted()
            aligned = as_annotations(votes).with_classes(result.votes.classes.tolist())
            truth, chosen = encode_gold(aligned, y), best_class(self.predict_proba(aligned), result.class_prior)
            return float((chosen == truth)[truth >= 0].mean()) if (truth >= 0).any() else float("nan")
        if not self._fitted().trace:
            raise SettingError(f"{self.name} has no likelihood to score votes by; give true labels: score(votes, y)")
        _, evidence, total = self._infer(votes, foretell=True)
        return evidence / total if total > 0 else 0.0

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the fit into `folder` as arrays and JSON, whole or not at all; `crowdwise.load` reads it back."""
        self._fitted().save(folder)

    def _infer(self, votes: Any, foretell: bool = False) -> tuple[Floats, float, float]:
        """Posterior, log-evidence and the total weight of the votes, as learned from or as foretold."""
        result = self._fitted()
        votes = as_annotations(votes).with_classes(result.votes.classes.tolist())
        who = positions(votes.annotators, result.votes.annotators)
        what = positions(votes.items, result.votes.items)
        posterior = np.zeros((votes.n_items, votes.n_classes))
        known = np.empty(0, np.int16)
        annotators = result.annotators.aligned(who, what)
        log_prior = result.prior.log_prob()
        evidence, _ = (foretelling(annotators) if foretell else annotators).infer(votes, log_prior, known, posterior)
        return posterior, evidence, float(votes.n_votes if votes.weight is None else votes.weight.sum())

    def _fitted(self) -> Result:
        if "result_" not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(votes) first")
        result: Result = vars(self)["result_"]
        return result

    # -- views of the result -------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, [K]."""
        return self._fitted().votes.classes


@dataclass(eq=False, repr=False, kw_only=True)
class IterativeAggregator(Aggregator):
    """Base of the methods that iterate from a start."""

    max_iter: int = setting(1000, "Most iterations of one run.", low=1, whole=True)
    tol: float = setting(
        1e-6, "Stop when the bound changes by less than this share and no probability by more than 100 times it.", above=0
    )
    init: Any = setting(
        "votes",
        'Start: vote shares ("votes"), majority labels ("hard-votes"), "random", "one-coin", "moments" (the best of several), '
        "a moment method by its name, or a posterior [N, K].",
        choices=("votes", "hard-votes", "random", "one-coin", "moments", *MOMENT_STARTS),
        free=True,
    )
    restarts: int = setting(
        1, "Runs: the first from `init`, the others from random starts; the best bound is kept.", low=1, whole=True
    )
    random_state: int | None = setting(0, "Seed of the random starts.", free=True)
    warm_start: bool = setting(False, "Go on from the previous fit when `fit` is called again.")

    def _alternate(self, problem: Problem, prior: LabelPrior, annotators: AnnotatorModel, hard: bool = False) -> Fit:
        """Run engine 1 from every start and keep the best."""
        if problem.spread is not None:
            return self._alternate_shards(problem, prior, annotators, hard)
        return best_of(
            lambda start: alternate(
                problem.votes,
                prior,
                annotators,
                start=start,
                known=problem.known,
                max_iter=self.max_iter,
                tol=self.tol,
                hard=hard,
                progress=problem.progress,
            ),
            start_posteriors(problem, self.init, self.restarts),
        )

    def _alternate_shards(self, problem: Problem, prior: LabelPrior, annotators: AnnotatorModel, hard: bool) -> Fit:
        """Run engine 1 over shards, on from where an earlier run was interrupted."""
        start = None
        if problem.shards.kept(type(annotators).__name__) is None:
            start = start_of_shards(problem, annotators, self.init, hard)
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "hard": hard, "progress": problem.progress}
        return warn_unless_converged(alternate_shards(problem.shards, prior, annotators, start=start, **options))


def as_annotations(votes: Any) -> Annotations:
    """Accept votes in any usual form: Annotations, a long frame, or an items x annotators matrix."""
    if isinstance(votes, Annotations):
        return votes
    if hasattr(votes, "columns") or isinstance(votes, dict):
        return Annotations.from_frame(votes)
    if getattr(votes, "ndim", None) == 2 or (isinstance(votes, list) and votes and isinstance(votes[0], list)):
        return Annotations.from_matrix(votes)
    if isinstance(votes, str | PathLike) or hasattr(votes, "shard_folder"):
        what = "a path" if isinstance(votes, str | PathLike) else "votes in shards"
        raise InputError(f"got {what}: read votes into memory (crowdwise.read), or fit(..., engine=crowdwise.scale.Local())")
    raise InputError(
        f"expected Annotations, a frame with item, annotator and label columns, or a matrix; got {type(votes).__name__}"
    )


def _carried_history(earlier: Result, votes: Annotations) -> Floats:
    """The user's history, spread over the annotators and classes of `votes`, [A, L, K]."""
    assert earlier.history is not None
    classes = translate(earlier.votes.classes, votes.classes)
    who = positions(earlier.votes.annotators, votes.annotators)
    history = np.zeros((votes.n_annotators, votes.n_classes, votes.n_classes))
    history[np.ix_(who, classes, classes)] = earlier.history
    return history


def _generator(seed: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise SettingError(f"random_state must be None or a whole number >= 0; got {seed!r}") from None


def warn_if_switched(result: Result) -> None:
    """The likelihood does not change when classes are renamed; warn if another naming fits the votes better."""
    n_classes = result.votes.n_classes
    if n_classes < 2 or result.votes.n_votes == 0 or result.annotators.confusion() is None:
        return
    pooled = np.einsum("a,akl->kl", result.votes.votes_per_annotator.astype(float), result.confusion)
    if (pooled.argmax(axis=1) == np.arange(n_classes)).all():
        return
    from scipy.optimize import linear_sum_assignment

    rows, best = linear_sum_assignment(-pooled)
    if pooled[rows, best].sum() > np.trace(pooled) * (1 + 1e-6):
        moved = ", ".join(
            f"{result.votes.classes[k]} -> {result.votes.classes[b]}" for k, b in zip(rows, best, strict=True) if k != b
        )
        warnings.warn(
            f"the fitted classes look renamed ({moved}): most annotators would be more often right under other names; "
            "give some gold labels, or use a stronger prior",
            DataWarning,
            stacklevel=4,
        )
