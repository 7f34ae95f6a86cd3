"""Dawid-Skene: a confusion matrix per annotator, fitted by EM; and the shell of all methods that iterate like it.

Model      p(votes, z) = prod_n d[z_n] prod_{votes e on n} pi[a_e, z_n, y_e]
E-step     log q_nk = log d_k + sum_e log pi[a_e, k, y_e] + const
M-step     d_k = sum_n q_nk / N;  pi_akl proportional to C_akl + smoothing,
           C_akl = sum of q_nk over the votes l of annotator a

Symbols
-------
pi_akl : [A, K, L]   P(observed l | true k); the paper's pi^(k)_jl
q_nk : [N, K]        posterior of the true class; the paper's T_ij

Notes
-----
Starts from vote shares. Smoothing adds ``smoothing`` pseudo-votes per class to every row (see
`row_smoothing`); 0 gives the paper's maximum likelihood, the default one pseudo-vote per row in all.
Hard assignment is the fast variant of Sinha, Rao and Balasubramanian (2018). Cost per iteration: O(E K).

References
----------
Dawid and Skene (1979), Applied Statistics 28(1), 20-28.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines.loop import ABOUT_TOL, Fit, LabelPrior, alternate, alternate_over, best_of, count, warn_unless_converged
from crowdwise.engines.shards import Shard, Tally
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.estimator import random_state_setting, setting
from crowdwise.estimator.history import right_and_wrong_in_all
from crowdwise.estimator.registry import make_aggregator
from crowdwise.kernels.numerics import clamp, harden, overall_shares, vote_shares
from crowdwise.kernels.types import Floats
from crowdwise.methods.catalogue import CATALOGUE
from crowdwise.parts.annotators.accuracy import OneAccuracy
from crowdwise.parts.annotators.model import AnnotatorModel, Confusion, row_smoothing, weight_of

__all__ = ["ABOUT_SMOOTHING", "MOMENT_STARTS", "SHARDED_STARTS", "STARTS", "DawidSkene", "IterativeAggregator"]
__all__ += ["one_coin_parts", "smoothed_confusion", "start_from_votes", "start_of_shards", "start_posteriors"]

ABOUT_SMOOTHING = "Pseudo-votes per class added to every confusion row; by default 1 / K. 0 is maximum likelihood."
# Moment methods whose estimate, without its EM steps, may start another method.
MOMENT_STARTS = tuple(method.name for method in CATALOGUE if method.family == "moments")
# Starts that can be found shard by shard and do not depend on how votes are cut.
SHARDED_STARTS = ("votes", "hard-votes", "one-coin")
STARTS = (*SHARDED_STARTS, "random", "moments", *MOMENT_STARTS)
# When the fit that is only a start stops.
_ROUNDS, _TOL = 1000, 1e-6


def start_posteriors(problem: Problem, init: Any, restarts: int, shares: Floats | None = None) -> list[Floats]:
    """Posteriors to start from: `init` first, then random ones; a warm start is the only one.

    `shares` stand for the vote shares where votes do not count alike, [N, K].
    """
    if problem.warm is not None:
        return [problem.warm]
    votes = problem.votes
    shares = problem.shares if shares is None else shares
    if isinstance(init, str) and init == "moments":
        from crowdwise.methods.labels.moment_start import moment_starts

        starts = moment_starts(problem)
        return [*starts, *(_random_start(problem, shares) for _ in range(restarts - len(starts)))]
    if isinstance(init, str):
        first = _named_start(problem, init, shares)
    else:
        try:
            first = np.asarray(init, float)
        except (TypeError, ValueError):
            first = np.empty(0)
        if first.shape != shares.shape or not np.allclose(first.sum(axis=1), 1) or (first < 0).any():
            raise SettingError(f"init must be a posterior of shape {(votes.n_items, votes.n_classes)} whose rows sum to one")
    return [first, *(_random_start(problem, shares) for _ in range(restarts - 1))]


def start_of_shards(problem: Problem, prior: Any, annotators: Any, init: str, hard: bool) -> Tally:
    """Posteriors to start from in every shard, one of `SHARDED_STARTS`; return their counts."""
    if init == "one-coin":
        _one_coin(problem)
        return problem.shards.total(count, prior, annotators, hard)
    overall = overall_shares(problem.crowd.answers.sum(axis=0))
    return problem.shards.renew(start_from_votes, prior, annotators, overall, init == "hard-votes", hard)


def start_from_votes(shard: Shard, prior: Any, annotators: Any, overall: Floats, hard_start: bool, hard: bool) -> Tally:
    """Vote shares as posteriors (`hard_start`: all on the largest), and their counts."""
    votes = shard.votes
    shares = vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes, overall)
    shard.posterior[:] = harden(shares) if hard_start else shares
    clamp(shard.posterior, shard.known)
    return count(shard, prior, annotators, hard)


def one_coin_parts(problem: Problem, right: float = 2.0, wrong: float = 1.0) -> OneAccuracy:
    """One accuracy per annotator with these pseudo-answers, before any vote."""
    n_annotators, n_classes = problem.crowd.n_annotators, problem.crowd.n_classes
    was_right, was_wrong = right_and_wrong_in_all(problem.history, n_annotators, n_classes)
    return OneAccuracy.start(was_right + right, was_wrong + wrong, n_classes)


def _one_coin(problem: Problem) -> Fit:
    """A one-coin fit with given or even class shares; its posteriors stay in the shards where there are several.

    With learned class shares, symmetric annotators and shares feed each other; see `one_coin`.
    """
    n_classes = problem.crowd.n_classes
    given = np.full(n_classes, 1 / n_classes) if problem.class_prior is None else problem.class_prior
    own = replace(problem, class_prior=given)
    prior, annotators = own.marginals(), one_coin_parts(own)
    if problem.in_memory:
        return alternate(own.votes, prior, annotators, start=own.shares, known=own.known, max_iter=_ROUNDS, tol=_TOL)
    kept = own.shards.kept(type(annotators).__name__)
    start = None if kept is not None else start_of_shards(own, prior, annotators, "votes", False)
    return alternate_over(own.shards, prior, annotators, start=start, max_iter=_ROUNDS, tol=_TOL)


def _named_start(problem: Problem, init: str, shares: Floats) -> Floats:
    if init == "random":
        return _random_start(problem, shares)
    if init == "hard-votes":
        return harden(shares)
    if init == "one-coin":
        return _one_coin(problem).posterior
    if init in MOMENT_STARTS:
        return make_aggregator(init, polish=0).solve(replace(problem, progress=None)).posterior
    return shares


def _random_start(problem: Problem, shares: Floats) -> Floats:
    """Half noise, half vote shares: the votes keep the classes' names attached to them."""
    noise = problem.rng.dirichlet(np.ones(shares.shape[1]), size=len(shares))
    return 0.5 * shares + 0.5 * noise


@dataclass(eq=False, repr=False, kw_only=True)
class IterativeAggregator(Aggregator):
    """Base of the methods that iterate from a start."""

    max_iter: int = setting(1000, "Most iterations of one run.", low=1, whole=True)
    tol: float = setting(1e-6, ABOUT_TOL, above=0)
    init: Any = setting(
        "votes",
        'Start: vote shares ("votes"), majority labels ("hard-votes"), "random", "one-coin", "moments" (the best of several), '
        "a moment method by its name, or a posterior [N, K].",
        choices=STARTS,
        free=True,
    )
    restarts: int = setting(
        1, "Runs: the first from `init`, the others from random starts; the best bound is kept.", low=1, high=1000, whole=True
    )
    random_state: int | None = random_state_setting("Seed of the random starts.")
    warm_start: bool = setting(False, "Continue from the previous fit when `fit` is called again.")

    def alternate(
        self,
        problem: Problem,
        prior: LabelPrior,
        annotators: AnnotatorModel,
        hard: bool = False,
        *,
        shares: Floats | None = None,
    ) -> Fit:
        """Run engine 1 from every start and keep the best; over shards, resume where an earlier run was interrupted.

        `shares` stand for the vote shares in a start in memory.
        """
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "hard": hard, "progress": problem.progress}
        if problem.in_memory:
            return best_of(
                lambda start: alternate(problem.votes, prior, annotators, start=start, known=problem.known, **options),
                start_posteriors(problem, self.init, self.restarts, shares),
            )
        start = None
        if problem.shards.kept(type(annotators).__name__) is None:
            start = start_of_shards(problem, prior, annotators, self.init, hard)
        return warn_unless_converged(alternate_over(problem.shards, prior, annotators, start=start, **options))


@dataclass(eq=False, repr=False, kw_only=True)
class DawidSkene(IterativeAggregator):
    """Dawid-Skene (1979): a confusion matrix per annotator, fitted by EM.

    Examples
    --------
    >>> from crowdwise.data.datasets import dawid_skene_1979
    >>> model = DawidSkene(smoothing=0, tol=1e-8).fit(dawid_skene_1979())
    >>> model.prior_.round(3).tolist()
    [0.4, 0.422, 0.112, 0.067]
    """

    smoothing: float | None = setting(None, ABOUT_SMOOTHING, low=0, optional=True)
    hard: bool = setting(False, "Assign items to their best class between iterations (fast Dawid-Skene).")

    name: ClassVar[str] = "dawid-skene"

    def _fit(self, problem: Problem) -> Fit:
        return self.alternate(problem, problem.marginals(), smoothed_confusion(problem, self.smoothing), hard=self.hard)


def smoothed_confusion(problem: Problem, smoothing: float | None) -> Confusion:
    """Confusion matrices before any vote, with so many pseudo-votes per class in every row (None: 1 / K), and their history."""
    crowd = problem.crowd
    pseudo = row_smoothing(crowd, 1 / crowd.n_classes if smoothing is None else smoothing)
    if problem.history is not None:
        pseudo = pseudo + problem.history
    return Confusion.start(pseudo, crowd.n_annotators)
