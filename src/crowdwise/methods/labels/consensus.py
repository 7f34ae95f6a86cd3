"""Consensus: the mean of four small models, as sure as experience with real crowds allows.

Members    I    attention and habit; whoever attends is right (MACE with learned hyperparameters)
           B    the same, and whoever attends answers by a matrix that all share
           BD   B, around which every annotator has a matrix of their own (`hierarchical-dawid-skene`)
           M2   two communities of annotators with Dirichlet rows
Each       starts from vote shares, has class shares near those of the votes (`class_prior="anchored"`), is stopped
           early, and then lets items differ in how much they tell (`crowdwise.kernels.tilt`)
Labels     argmax of the mean of the four posteriors
Confidence q_n proportional to mean_n^(1/T_n), T_n = (votes on n)^gamma: see `crowdwise.estimator.judgement`

Symbols
-------
theta_a, xi_a, B, s     attention, habit, shared matrix, strength: `crowdwise.parts.annotators.habits`

Notes
-----
Deterministic: no folds, no random starts. People who label the same item share mistakes, which no model of independent
annotators sees and no held-out vote shows; a mean of models that are wrong in different ways and a temperature that grows with
the number of votes are what held on real sets. A member stops when the mean change of an item is below `tol`, after seven
rounds at least, or after `max_iter` rounds: going on does not improve labels. There is no bound. Cost per round and member:
O(E K + A K^2).

References
----------
Members after Hovy et al. (2013), Kim and Ghahramani (2012), Venanzi et al. (2014); fixed points of Minka (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines.loop import Fit, Round, alternate_over
from crowdwise.engines.shards import Shard, Shards, Tally, Whole
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.tilt import DISCRIMINATIONS, count_discriminations, mixture_weights
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import start_from_votes
from crowdwise.parts.annotators.ensemble import Ensemble, infer_member
from crowdwise.parts.annotators.habits import Habits
from crowdwise.parts.annotators.tiers import Tiers
from crowdwise.parts.priors.marginals import Marginals

__all__ = ["Consensus"]

_LEAST_ROUNDS = 7
# The member with matrices of every annotator.
_SPOKESMAN = 2


@dataclass(eq=False, repr=False, kw_only=True)
class Consensus(Aggregator):
    """The mean of four small models, with a confidence that experience with real crowds supports: the default method.

    Examples
    --------
    >>> from crowdwise.data.datasets import dawid_skene_1979
    >>> model = Consensus().fit(dawid_skene_1979())
    >>> model.task_confusion_.shape, model.attention_.round(1).tolist()
    ((4, 4), [0.9, 0.9, 1.0, 0.9, 1.0])
    """

    class_prior: Any = setting(
        "anchored",
        'Class shares: "anchored" (learned, but near the shares of the votes), "learn" freely, "uniform", or K probabilities.',
        free=True,
    )
    max_iter: int = setting(100, "Most rounds of a member.", low=1, whole=True)
    tol: float = setting(1.5e-4, "Stop a member when the mean change of an item's probabilities is below this.", above=0)

    name: ClassVar[str] = "consensus"
    needs_annotators: ClassVar[bool] = False

    def _fit(self, problem: Problem) -> Fit:
        members, priors, shares, evidence = [], [], [], []
        shards = problem.shards.collapsed() if isinstance(problem.shards, Whole) else problem.shards
        problem = replace(problem, shards=shards)
        for number, start in enumerate(_members(problem)):
            done = self._fit_member(problem, start, f"consensus-{number}")
            members.append(done.annotators)
            priors.append(done.prior.log_prob()[0])
            shares.append(_discriminations(shards, done))
            evidence.append(done.trace["votes"])
        # The reported shares are the mean of the members'; inference adds back what each thinks otherwise.
        prior = Marginals(np.exp(priors).mean(axis=0), learn=False)
        ensemble = Ensemble(tuple(members), np.array(priors), prior.log_prob()[0], np.array(shares), _SPOKESMAN)
        shards.renew(infer_only, prior, ensemble)
        trace = {"votes": np.concatenate(evidence)}
        # Members are stopped early on purpose, so that reaching `max_iter` is no failure.
        return Fit(shards.posterior, prior, ensemble, trace, len(trace["votes"]), True)

    def _fit_member(self, problem: Problem, member: Any, name: str) -> Fit:
        shards, prior = problem.shards, problem.marginals()
        n_classes = problem.crowd.n_classes
        even = np.full(n_classes, 1 / n_classes)
        start = None
        if shards.kept(name) is None:
            # Also where votes were added to an earlier fit: members that stop early end where they do because of their start.
            start = shards.renew(start_from_votes, prior, member, even, False, False)
        done = alternate_over(
            shards,
            prior,
            member,
            start=start,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=problem.progress,
            rule=_rested,
            name=name,
        )
        # The next member overwrites the posteriors of the shards.
        return replace(done, posterior=done.posterior[:0])

    @property
    def attention_(self) -> Floats:
        """Share of an annotator's votes that were given with attention, [A]."""
        return np.asarray(self._outcome().annotators.described.attention)

    @property
    def habit_(self) -> Floats:
        """What an annotator answers without attention, [A, K]."""
        return np.asarray(self._outcome().annotators.described.habit_al)

    @property
    def task_confusion_(self) -> Floats:
        """What this task confuses: P(observed | true) of anybody who attends, [K, K]."""
        return np.asarray(self._outcome().annotators.described.shared_lk.T)

    @property
    def discrimination_(self) -> Floats:
        """How much every item tells, [N]: about 0 where nobody could tell, 1 on the average, up to 3 where it is easy."""
        result = self._fitted()
        return np.asarray(result.annotators.discrimination(result.votes) @ DISCRIMINATIONS)


def infer_only(shard: Shard, prior: Any, annotators: Any) -> Tally:
    """Posteriors under these parts."""
    evidence, change = annotators.infer(shard.votes, prior.log_prob(), shard.known, shard.posterior)
    return Tally((), evidence, change, len(shard.posterior))


def discriminations_of(shard: Shard, prior: Any, annotators: Any, share_f: Floats) -> Tally:
    """Probability of every discrimination under these shares, summed over items, [F]."""
    return Tally((count_discriminations(_evidence(shard, prior, annotators), share_f),))


def _evidence(shard: Shard, prior: Any, annotators: Any) -> Floats:
    even = np.full(len(DISCRIMINATIONS), 1 / len(DISCRIMINATIONS))
    scratch = np.empty((shard.votes.n_items, shard.votes.n_classes))
    return infer_member(annotators, shard.votes, prior.log_prob(), shard.known, even, scratch)[0]


def _discriminations(shards: Shards, done: Fit) -> Floats:
    """Shares of discriminations among the items, [F]."""
    if isinstance(shards, Whole):
        # The evidence of a fit in memory is kept between the rounds.
        evidence = _evidence(shards.shard, done.prior, done.annotators)
        return mixture_weights(lambda share: count_discriminations(evidence, share, shards.votes.times))
    return mixture_weights(lambda share: shards.total(discriminations_of, done.prior, done.annotators, share).sums[0])


def _members(problem: Problem) -> list[Any]:
    """The four, before any posterior."""
    crowd = problem.crowd
    earlier = np.zeros((1, crowd.n_classes, crowd.n_classes)) if problem.history is None else problem.history
    answers = np.asarray(crowd.answers) + earlier.sum(axis=2)
    return [
        Habits.start(answers, earlier, shared=False, own=False),
        Habits.start(answers, earlier, own=False),
        Habits.start(answers, earlier),
        Tiers.start(earlier, crowd.n_annotators),
    ]


def _rested(rounds: Sequence[Round], tol: float) -> bool:
    return len(rounds) >= _LEAST_ROUNDS and rounds[-1].change < tol
