"""The shell of every label-only method: validate, make a `Problem`, call `_fit`, keep one `Result`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.columns import plays_role
from crowdwise.data.crowd import Crowd
from crowdwise.data.gold import encode_gold
from crowdwise.engines.loop import Fit, Progress
from crowdwise.engines.shards import Shard, Shards, Tally, Whole
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.estimator.carry import carried_history, carried_posterior, places
from crowdwise.estimator.estimator import Estimator, check_settings, check_tables, setting
from crowdwise.estimator.experience import CONFIDENCES
from crowdwise.estimator.history import encode_history
from crowdwise.estimator.judgement import calibrated, exponent_of
from crowdwise.estimator.outcome import LabelOutcome, Result
from crowdwise.kernels.numerics import best_class, generator, vote_shares
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.annotators.model import predictive, weight_of
from crowdwise.parts.priors.anchored import Anchored
from crowdwise.parts.priors.marginals import Marginals, given_class_prior

if TYPE_CHECKING:
    from typing_extensions import Never, Self

    from crowdwise.estimator.explain import Explanation

__all__ = ["Aggregator", "Problem", "ResultViews", "as_annotations", "generator", "warn_of_new_classes"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Votes and everything known beside them, validated and encoded.

    Attributes
    ----------
    shards : Shards
        Where the votes and posteriors lie: several shards, or the one of a fit in memory.
    crowd : Crowd
        Sizes, vocabularies and who gave which label how often.
    history : [A, L, K] or None
        Earlier answers of annotators, as counts.
    class_prior : [K] or None
        Given class shares; None means learn them.
    anchor : [K] or None
        Vote shares of items, summed, where class shares are to stay near them.
    warm : [N, K] or None
        Posterior to start from instead of `init`.
    """

    shards: Shards
    crowd: Crowd
    history: Floats | None
    class_prior: Floats | None
    anchor: Floats | None
    warm: Floats | None
    rng: np.random.Generator
    progress: Progress | None

    @property
    def in_memory(self) -> bool:
        """Whether there is one shard, in memory, so that `votes` may be asked for."""
        return isinstance(self.shards, Whole)

    @property
    def votes(self) -> Annotations:
        """The votes of a fit in memory."""
        assert isinstance(self.shards, Whole)
        return self.shards.votes

    @property
    def known(self) -> Array:
        """Class codes of gold items, -1 elsewhere, of a fit in memory: [N], or [0] without any."""
        assert isinstance(self.shards, Whole)
        return self.shards.shard.known

    @property
    def shares(self) -> Floats:
        """Vote shares of a fit in memory, [N, K]."""
        votes = self.votes
        return vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)

    def with_votes(self, votes: Annotations, **changes: Any) -> Problem:
        """The same about other votes in memory."""
        shards = Whole.of(votes)
        anchor = None if self.anchor is None else shards.total(summed_shares).sums[0]
        return replace(self, shards=shards, crowd=votes, anchor=anchor, **changes)

    def marginals(self, pseudo_count: float | Floats = 0.0) -> Marginals | Anchored:
        """Point class shares: the given ones, or to be learned, freely or near those of the votes."""
        if self.anchor is not None:
            return Anchored.start(self.anchor)
        if self.class_prior is not None:
            return Marginals(self.class_prior, learn=False)
        return Marginals(np.full(self.crowd.n_classes, 1 / self.crowd.n_classes), pseudo_count=pseudo_count)


def summed_shares(shard: Shard) -> Tally:
    """Vote shares of the items of a shard, summed, [K]; an item without votes counts evenly."""
    votes = shard.votes
    even = np.full(votes.n_classes, 1 / votes.n_classes)
    return Tally((vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes, even).sum(axis=0),))


# Votes from which `update` starts from the earlier posterior.
_WARM_FROM = 100_000


@dataclass(eq=False, repr=False, kw_only=True)
class ResultViews(Estimator):
    """What every fitted estimator of class labels shows of its result, label-only method or classifier."""

    confidence: str = setting(
        "experience",
        'How sure labels may be: as "experience" with real crowds allows, or as the "model" of independent annotators says.',
        choices=CONFIDENCES,
    )

    def _outcome(self) -> LabelOutcome:
        """What the fit left, even where labels are not in memory."""
        found: LabelOutcome = super()._outcome()
        return found

    def _fitted(self) -> Result:
        found = self._outcome()
        if not isinstance(found, Result):
            raise SettingError("labels of votes in shards stay there; write them: result_.write_labels('labels.parquet')")
        return found

    def explain(self, item: Any) -> Explanation:
        """Say how much the class prior (or the classifier) and each vote moved the label of one item."""
        return self._fitted().explain(item)

    @property
    def posterior_(self) -> Floats:
        """Probability of every class for every item of the fit, [N, K]."""
        return self._fitted().all_posteriors()

    @property
    def labels_(self) -> Array:
        """Label of every item, in the user's classes, [N]."""
        return self._fitted().labels

    @property
    def confusion_(self) -> Floats:
        """P(observed | true) of every annotator, [A, K, K]; rows sum to one."""
        return self._outcome().confusion

    @property
    def concentration_(self) -> Floats:
        """Dirichlet parameters of every confusion row, [A, K, L]: the model's, or those of expected counts."""
        return self._outcome().concentration

    def confusion_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends of the central interval of every confusion entry, two of [A, K, L]."""
        return self._outcome().confusion_interval(level)

    @property
    def prior_(self) -> Floats:
        """Share of each class, [K]."""
        return self._outcome().class_prior


@dataclass(eq=False, repr=False, kw_only=True)
class Aggregator(ResultViews):
    """Base of the label-only methods; a method supplies `name` and `_fit`."""

    class_prior: Any = setting(
        "learn",
        'Class shares: "learn" from the votes, "anchored" (learned, but near the shares of the votes), "uniform", '
        "or K probabilities (a list, or class -> share).",
        free=True,
    )

    name: ClassVar[str]

    def _fit(self, problem: Problem) -> Fit:
        raise NotImplementedError

    def solve(self, problem: Problem) -> Fit:
        """Run the method on what was made ready for it, and leave the estimator as it is."""
        return self._fit(problem)

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        gold: Any = None,
        *,
        history: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Fit to votes.

        Parameters
        ----------
        data : Annotations, frame or matrix
            Frames and matrices are turned into `Annotations` by the usual column names.
        gold : mapping, frame, Series or sequence, optional
            Known labels of some items; they stay fixed and teach the model about annotators. May be given by position, where
            scikit-learn's tools put `y`.
        history : Result, estimator, mapping or frame, optional
            What is known of annotators from before: see `crowdwise.estimator.history`.
        progress : callable, optional
            Called after every iteration with (iteration, bound, mean change per item).
        engine : optional
            Where the fit runs: `crowdwise.scale.Local` (threads, out of core) or `crowdwise.scale.Ray`, for methods that
            can run over shards. Default: here, in memory.
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        if engine is not None:
            engine.fit(self, data, gold=gold, history=history, progress=progress)
            return self
        votes = as_annotations(data)
        if gold is not None:
            votes = votes.with_gold(gold)
        earlier = getattr(self, "result_", None) if getattr(self, "warm_start", False) else None
        counts = None if history is None else encode_history(votes, history)
        return self._run(votes, counts, earlier if isinstance(earlier, Result) else None, progress)

    def update(self, data: Any, *, gold: Any = None, progress: Progress | None = None) -> Self:
        """Fold in new votes (new items, annotators and classes too): the fit to all votes together.

        Large fits continue from the present posterior. Small ones take milliseconds and start where a
        fit starts: on thin data the bound has several optima, and continuing from an earlier one
        often ends in another than the fit to all votes does.
        """
        check_settings(self)
        earlier = self._fitted()
        votes = earlier.votes.concat(as_annotations(data))
        warn_of_new_classes(votes.classes[earlier.votes.n_classes :])
        if gold is not None:
            before, votes = votes.gold, votes.with_gold(gold)
            if before is not None and votes.gold is not None:
                # New gold adds to, and where both speak corrects, the labels known before.
                votes = replace(votes, gold=np.where(votes.gold >= 0, votes.gold, before))
        history = None if earlier.history is None else carried_history(earlier, votes)
        thin = votes.n_votes < _WARM_FROM and isinstance(getattr(self, "init", "votes"), str)
        return self._run(votes, history, None if thin else earlier, progress)

    #: Whether there is nothing to learn from votes whose annotators nobody knows.
    needs_annotators: ClassVar[bool] = True

    def _run(self, votes: Annotations, history: Floats | None, earlier: Result | None, progress: Progress | None) -> Self:
        if votes.anonymous and self.needs_annotators:
            raise SettingError(
                f"{self.name} learns about annotators, and nobody knows who gave these votes; use consensus or majority"
            )
        problem = self.problem_of(Whole.of(votes), votes, history, progress)
        if earlier is not None:
            problem = replace(problem, warm=carried_posterior(earlier, votes))
        done = self.solve(problem)
        self.result_ = Result.of_fit(votes=votes, posterior=done.posterior, **self.summary_fields(done, history))
        self.result_.warn_if_switched()
        return self

    def problem_of(self, shards: Shards, crowd: Crowd, history: Floats | None, progress: Progress | None) -> Problem:
        """Check what only votes and settings together can tell; return what `solve` takes."""
        if crowd.n_classes == 1:
            warnings.warn(
                f"only one class occurs ({crowd.classes[0]}); if there are others, name them all with classes=... or --classes",
                DataWarning,
                stacklevel=4,
            )
        check_tables(crowd.n_annotators, crowd.n_classes, crowd.n_votes)
        return Problem(
            shards=shards,
            crowd=crowd,
            history=history,
            class_prior=given_class_prior(self.class_prior, crowd),
            anchor=shards.total(summed_shares).sums[0] if self._anchored else None,
            warm=None,
            rng=generator(getattr(self, "random_state", None)),
            progress=progress,
        )

    @property
    def _anchored(self) -> bool:
        return isinstance(self.class_prior, str) and self.class_prior == "anchored"

    def summary_fields(self, done: Fit, history: Floats | None) -> dict[str, Any]:
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

        Annotators never seen in the fit get the population's model. As sure as the setting `confidence` says.
        """
        result, posterior = self._fitted(), self._infer(votes)[0]
        if self.confidence == "model":
            return posterior
        # Known labels play no part in a prediction.
        asked = replace(as_annotations(votes), gold=None)
        who = result.reliability[places(asked.annotators, result, "annotators")]
        exponent = exponent_of(result.method, result.votes.anonymous)
        informed = getattr(result.prior, "informed", None)
        if informed is not None:
            informed = np.append(informed, False)[places(asked.items, result, "items")]
        return calibrated(posterior, asked, result.annotators, result.class_prior, exponent, who, informed=informed)

    def predict(self, votes: Any) -> Array:
        """Labels of the items in `votes` under the fitted model, [N]."""
        result = self._fitted()
        return np.asarray(result.votes.classes[best_class(self._infer(votes)[0], result.class_prior)])

    def fit_predict(self, data: Any, **options: Any) -> Array:
        """Fit and return the labels, [N]; options are those of `fit`."""
        return self.fit(data, **options).labels_

    def fit_predict_proba(self, data: Any, **options: Any) -> Floats:
        """Fit and return the posterior, [N, K]; options are those of `fit`."""
        return self.fit(data, **options).posterior_

    def score(self, votes: Any, y: Any = None) -> float:
        """Without `y`, the mean log-probability of a vote under the fitted model; with it, accuracy.

        The first needs no true labels, so ``GridSearchCV(...).fit(votes)`` works without any.
        Methods that only count votes have no likelihood and need `y`.
        """
        if y is not None:
            result = self._fitted()
            aligned = as_annotations(votes).with_classes(result.votes.classes.tolist())
            truth, chosen = encode_gold(aligned, y), best_class(self._infer(aligned)[0], result.class_prior)
            return float((chosen == truth)[truth >= 0].mean()) if (truth >= 0).any() else float("nan")
        if not self._fitted().trace:
            raise SettingError(f"{self.name} has no likelihood to score votes by; give true labels: score(votes, y)")
        _, evidence, total = self._infer(votes, predict=True)
        return evidence / total if total > 0 else 0.0

    def _infer(self, votes: Any, predict: bool = False) -> tuple[Floats, float, float]:
        """Posterior, log-evidence and the total weight of the votes, as learned from or as predicted."""
        result = self._fitted()
        votes = as_annotations(votes).with_classes(result.votes.classes.tolist())
        who, what = places(votes.annotators, result, "annotators"), places(votes.items, result, "items")
        posterior = np.zeros((votes.n_items, votes.n_classes))
        known = np.empty(0, np.int16)
        annotators = result.annotators.aligned(who, what)
        log_prior = result.prior.log_prob()
        evidence, _ = (predictive(annotators) if predict else annotators).infer(votes, log_prior, known, posterior)
        return posterior, evidence, votes.total_weight

    def keep_outcome(self, outcome: LabelOutcome) -> None:
        """Take over what an engine has fitted: a `Result`, or an outcome whose labels are not in memory."""
        vars(self)["result_"] = outcome

    # -- views of the result -------------------------------------------------------------------

    @property
    def classes_(self) -> Array:
        """The classes, [K]."""
        return np.asarray(self._outcome().votes.classes)


def warn_of_new_classes(added: Array) -> None:
    """Say in an update, of which this is called, that it brings classes which the votes before did not have."""
    if len(added):
        names = ", ".join(map(str, added.tolist()))
        warnings.warn(f"classes that the earlier votes did not have: {names}", DataWarning, stacklevel=3)


def as_annotations(votes: Any) -> Annotations:
    """Accept votes in any usual form: Annotations, a long frame, an items x annotators matrix, or probabilities.

    See `crowdwise.data.vote_arrays` for arrays of probabilities.
    """
    if isinstance(votes, Annotations):
        return votes
    if not isinstance(votes, str | PathLike):
        from crowdwise.data.vote_arrays import array_votes

        found = array_votes(votes, several=True)
        if found is not None:
            return found
    if isinstance(votes, dict) and not all(hasattr(column, "__len__") and not _is_one(column) for column in votes.values()):
        name, value = next((name, value) for name, value in votes.items() if not hasattr(value, "__len__") or _is_one(value))
        raise InputError(
            f"a dict is a table with columns item, annotator and label, and this one has {name!r}: {value!r:.40}; make it "
            '{"item": [...], "annotator": [...], "label": [...]}, with a row per vote'
        )
    if isinstance(votes, dict):
        return Annotations.from_frame(votes)
    if hasattr(votes, "columns"):
        return _of_frame(votes)
    if getattr(votes, "ndim", None) == 2 or (isinstance(votes, list) and votes and isinstance(votes[0], list)):
        return Annotations.from_matrix(votes)
    if isinstance(votes, str | PathLike) or hasattr(votes, "shard_folder"):
        what = "a path" if isinstance(votes, str | PathLike) else "votes in shards"
        raise InputError(f"got {what}: read votes into memory (crowdwise.read), or fit(..., engine=crowdwise.scale.Local())")
    raise InputError(
        f"expected Annotations, a frame with item, annotator and label columns, or a matrix; got {type(votes).__name__}"
    )


def _of_frame(frame: Any) -> Annotations:
    """Votes of a long frame; one with a column per annotator is refused with the way to read it."""
    try:
        return Annotations.from_frame(frame)
    except InputError as problem:
        if any(plays_role([str(name) for name in frame.columns], role) for role in ("annotator", "label")):
            raise
        raise InputError(
            f"{problem}. If every column is an annotator: crowdwise.Annotations.from_matrix(frame), items=... being the ids of "
            "its rows"
        ) from problem


def _is_one(value: Any) -> bool:
    """Whether a value has a length and is no column."""
    return isinstance(value, str | bytes | dict)
