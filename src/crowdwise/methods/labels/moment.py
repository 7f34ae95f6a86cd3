"""The shell of the moment methods: estimate annotators from co-occurrences, one posterior step, a few EM steps.

1. `_estimate` (the method's own) gives confusion tables or accuracies and class shares.
2. The estimate of an annotator counts as the votes it gave; pseudo-counts and history are added.
3. One posterior step. Annotators of whom the moments say nothing (too few meetings) are silent in it
   and get one M-step from its posterior; then the step is repeated with them.
4. `polish` rounds of EM, which restore the efficiency that moments give away. `trace_` is theirs, and
   empty for ``polish=0``; `converged_` says whether the moment solver met its stopping rule.

Gold labels fix their items in steps 3 and 4 and the naming of classes; the moments themselves do not
use them. A given `class_prior` replaces the estimated shares from step 3 on. Learned shares come from
items with votes (or gold). Where the meetings are too few for any estimate, vote shares and one M-step
replace steps 1 to 3, with a warning. `update` estimates again from all votes: moments of the
union are no continuation of the earlier fit, so results equal those of a full fit.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.engines.loop import Fit, alternate
from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.engines.permutation import name_classes
from crowdwise.errors import DataWarning
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.estimator import announce, setting
from crowdwise.estimator.history import right_and_wrong
from crowdwise.kernels.cooccurrence import distributions
from crowdwise.kernels.numerics import clamp
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.parts.annotators.accuracy import OneAccuracy
from crowdwise.parts.annotators.model import Confusion, row_smoothing, sum_by_annotator
from crowdwise.parts.priors.anchored import Anchored
from crowdwise.parts.priors.marginals import Marginals

__all__ = ["AccuracyMoments", "ConfusionMoments", "MomentAggregator"]


# Meetings per annotator below which a K x K table cannot be told from noise: a few per entry.
_MEETINGS_PER_ENTRY = 5.0


@dataclass(frozen=True, eq=False)
class _VotedMarginals:
    """Class shares learned from the items that have votes or gold; the others would only slow EM down."""

    shares: Marginals | Anchored
    voted: Integers

    @property
    def probability(self) -> Floats:
        return self.shares.probability

    def log_prob(self) -> Floats:
        return self.shares.log_prob()

    def update(self, posterior: Floats) -> _VotedMarginals:
        return replace(self, shares=self.shares.update(posterior[self.voted]))

    def penalty(self) -> float:
        return self.shares.penalty()


@dataclass(eq=False, repr=False, kw_only=True)
class MomentAggregator(Aggregator):
    """Base of the moment methods; a method supplies `name` and `_estimate`."""

    polish: int = setting(10, "EM steps after the moment estimate; 0 keeps the estimate itself.", low=0, whole=True)

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate | None:
        raise NotImplementedError

    def _empty(self, problem: Problem) -> Any:
        """The annotator model before any vote: pseudo-counts and history only."""
        raise NotImplementedError

    def _filled(self, problem: Problem, estimate: Estimate) -> Any:
        """The annotator model of an estimate; annotators it does not speak for are silent."""
        raise NotImplementedError

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        found = self._moment_estimate(problem) if votes.n_classes > 1 and votes.n_votes else None
        if found is None and votes.n_classes > 1 and votes.n_votes:
            warnings.warn(
                f"too few items were labelled by several annotators for {self.name}: started from vote shares instead",
                DataWarning,
                stacklevel=4,
            )
        prior = _VotedMarginals(problem.marginals(), _voted_items(problem))
        if found is not None and isinstance(prior.shares, Marginals) and prior.shares.learn:
            prior = replace(prior, shares=replace(prior.shares, probability=found.shares))
        posterior = problem.shares
        clamp(posterior, problem.known)
        model = self._empty(problem)
        if found is None:
            model, prior = model.update(votes, posterior), prior.update(posterior)
        else:
            silent = self._filled(problem, found)
            # Where only annotators without an estimate voted, their votes have to stand for the labels.
            alone = ~np.isin(np.arange(votes.n_items), votes.item[found.seen[votes.annotator]])
            by_votes = posterior[alone]
            silent.infer(votes, prior.log_prob(), problem.known, posterior)
            posterior[alone] = by_votes
            model = _with_unseen(silent, model.update(votes, posterior), found.seen)
        model.infer(votes, prior.log_prob(), problem.known, posterior)
        n_iter, converged = (found.n_iter, found.converged) if found is not None else (1, True)
        if self.polish == 0:
            return Fit(posterior, prior.shares, model, {}, n_iter, converged)
        done = alternate(
            votes,
            prior,
            model,
            start=posterior,
            known=problem.known,
            max_iter=self.polish,
            tol=1e-13,
            progress=problem.progress,
        )
        return replace(done, prior=done.prior.shares, converged=converged)

    def _moment_estimate(self, problem: Problem) -> Estimate | None:
        """Collect the moments and estimate; None where they are too thin."""
        votes = problem.votes
        events = float((votes.votes_per_item.astype(float) ** 2).sum())
        cells = min(events / 2, (votes.n_annotators * votes.n_classes) ** 2 / 2)
        announce(
            self.name,
            operations=self._rounds() * cells * votes.n_classes * 6 + 30 * events,
            memory=cells * 60,
            advice="use dawid-skene, which never looks at pairs of annotators",
        )
        moments = Cooccurrence.of(votes)
        met = moments.met_a >= self._least_meetings(votes.n_classes)
        if met.sum() < 3:
            return None
        found = self._estimate(problem, moments)
        if found is None:
            return None
        found = replace(found, seen=found.seen & met)
        return found if found.seen.any() else None

    def _rounds(self) -> int:
        """Passes over the cells that the solver is likely to need, for the announcement of its cost."""
        return 50

    def _least_meetings(self, n_classes: int) -> float:
        return _MEETINGS_PER_ENTRY * n_classes**2


@dataclass(eq=False, repr=False, kw_only=True)
class ConfusionMoments(MomentAggregator):
    """Moment methods that estimate a confusion matrix per annotator."""

    smoothing: float | None = setting(
        None, "Pseudo-votes per class added to every confusion row; by default 1 / K.", low=0, optional=True
    )

    def _empty(self, problem: Problem) -> Confusion:
        votes = problem.votes
        pseudo = row_smoothing(votes, 1 / votes.n_classes if self.smoothing is None else self.smoothing)
        if problem.history is not None:
            pseudo = pseudo + problem.history
        return Confusion.start(pseudo, votes.n_annotators)

    def _filled(self, problem: Problem, estimate: Estimate) -> Confusion:
        empty = self._empty(problem)
        total = sum_by_annotator(problem.votes, np.ones(problem.votes.n_votes)) * estimate.seen
        shares = estimate.shares if problem.class_prior is None else problem.class_prior
        counts = estimate.annotators * (total[:, None] * np.maximum(shares, 1e-12))[:, None, :]
        pooled = distributions(counts.sum(axis=0) + 1 / problem.votes.n_classes, 0)
        return replace(empty, pi_alk=distributions(counts + empty.prior_alk, 1), pooled_lk=pooled)

    def _evidence(self, problem: Problem, estimate: Estimate) -> float:
        """Log-probability of the votes under an estimate: the judge between estimates from different moments."""
        posterior = np.zeros((problem.votes.n_items, problem.votes.n_classes))
        prior = Marginals(estimate.shares if problem.class_prior is None else problem.class_prior)
        return float(self._filled(problem, estimate).infer(problem.votes, prior.log_prob(), problem.known, posterior)[0])

    def _named(self, problem: Problem, moments: Cooccurrence, estimate: Estimate) -> Estimate:
        """Decide which class is which (see `crowdwise.engines.permutation`)."""
        table, shares = name_classes(
            estimate.annotators,
            estimate.shares,
            problem.votes,
            problem.known,
            problem.shares,
            moments.component,
            estimate.seen,
        )
        return replace(estimate, annotators=table, shares=shares)


@dataclass(eq=False, repr=False, kw_only=True)
class AccuracyMoments(MomentAggregator):
    """Moment methods that estimate one accuracy per annotator, wrong answers uniform."""

    class_prior: Any = setting("uniform", 'Class shares: "uniform", "learn", or K probabilities.', free=True)
    right: float = setting(2.0, "Pseudo-count of right answers per annotator (Beta prior).", low=0)
    wrong: float = setting(1.0, "Pseudo-count of wrong answers per annotator (Beta prior).", low=0)

    def _empty(self, problem: Problem) -> OneAccuracy:
        votes = problem.votes
        right, wrong = (part.sum(axis=1) for part in right_and_wrong(problem.history, votes.n_annotators, votes.n_classes))
        return OneAccuracy.start(right + self.right, wrong + self.wrong, votes.n_classes)

    def _filled(self, problem: Problem, estimate: Estimate) -> OneAccuracy:
        empty = self._empty(problem)
        total = sum_by_annotator(problem.votes, np.ones(problem.votes.n_votes))
        right, answers = total * estimate.annotators + empty.right, total + empty.right + empty.wrong
        accuracy = np.where(estimate.seen & (answers > 0), right / np.where(answers > 0, answers, 1.0), 1 / empty.n_classes)
        population = float((right[estimate.seen].sum() + 1) / (answers[estimate.seen].sum() + 2))
        # The same open interval that the M-step of the model keeps.
        return replace(empty, accuracy=np.clip(accuracy, 1e-6, 1 - 1e-6), population=population)

    def _least_meetings(self, n_classes: int) -> float:
        return _MEETINGS_PER_ENTRY

    def _from_skill(self, moments: Cooccurrence, s: Floats, n_iter: int, converged: bool) -> Estimate:
        """Accuracies (s (K - 1) + 1) / K, and the shares d of mu_a = s_a d + (1 - s_a) / K by least squares."""
        n_classes = moments.n_classes
        total = moments.count_al.sum(axis=1, keepdims=True)
        mu = moments.count_al / np.maximum(total, 1e-300)
        s_a = s[:, None]
        shares = (total * s_a * (mu - (1 - s_a) / n_classes)).sum(axis=0) / max(float((total * s_a**2).sum()), 1e-300)
        return Estimate((s * (n_classes - 1) + 1) / n_classes, distributions(shares, 0), moments.met_a > 0, n_iter, converged)


def _voted_items(problem: Problem) -> Integers:
    votes = problem.votes
    voted = votes.weight_per_item > 0
    return np.flatnonzero(voted | (problem.known >= 0) if len(problem.known) else voted)


def _with_unseen(model: Any, fitted: Any, seen: Flags) -> Any:
    """The parameters of `model` for annotators seen in the moments, of `fitted` (one M-step) for the others."""
    if isinstance(model, OneAccuracy):
        return replace(model, accuracy=np.where(seen, model.accuracy, fitted.accuracy))
    return replace(model, pi_alk=np.where(seen[:, None, None], model.pi_alk, fitted.pi_alk))
