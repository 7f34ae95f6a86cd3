"""Minimax conditional entropy: annotators and items each have a confusion of their own.

Model      P(vote of a on n is l | z_n = k) proportional to exp(sigma_a[k, l] + tau_n[k, l]);  z_n ~ d
Bound      sum_n logsumexp_k(log d_k + sum_e log p) - 1/2 lambda_a |sigma - s0|^2 - 1/2 lambda_n |tau|^2
E-step     log q_nk = log d_k + sum_e log p[a_e, n, k, y_e] + const
M-step     steps on sigma and tau that never lower the bound; see `crowdwise.parts.annotators.maxent`

Notes
-----
The paper's program (labels that minimise the maximal conditional entropy, confusion counts kept per
annotator and per item) has this likelihood as its dual. The prior of the labels is uniform, as published.
`strength` is lambda_a / K^2; lambda_n = lambda_a (votes per annotator / votes per item), which keeps
both penalties in proportion to their counts. The authors' code uses 1 / 4, or chooses among 1/4, 1/2, 1, 2, 4
by the likelihood of held-out votes in five folds: strength="held-out". Without penalties the K^2 numbers of an
item overfit its few votes.

Departure: the authors pull sigma to s0 = 0. Where the penalty outweighs the votes (K = 8 and 43 votes per annotator
already do) the only optimum is then the uniform labelling, whatever the votes say. Here s0 favours the right answer
by exp(`honesty`) to one, so the limit of a strong penalty is the majority vote; honesty=0 is the published model.

The authors solve the M-step by L-BFGS, annotator by annotator; here damped Newton
steps in closed form move all at once, `steps` per round, after twenty rounds of shorter ones.
Memory O(N K^2); cost per round: O(E K^2).

References
----------
Zhou, Basu, Mao and Platt (2012), Learning from the wisdom of crowds by minimax entropy, NeurIPS.
Zhou, Liu, Platt and Meek (2014), Aggregating ordinal labels from crowds by minimax conditional entropy, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import ABOUT_TOL, Fit
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import announce, setting
from crowdwise.kernels.numerics import log_floored, segment_sum
from crowdwise.kernels.types import Array
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.maxent import MaxEntConfusion

__all__ = ["MinimaxEntropy"]

_STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
_FOLDS = 5


@dataclass(eq=False, repr=False, kw_only=True)
class MinimaxEntropy(IterativeAggregator):
    """Confusions of annotators and of items, from the principle of minimax conditional entropy."""

    class_prior: Any = setting("uniform", 'Class shares: "uniform" (the paper\'s), "learn", or K probabilities.', free=True)
    strength: Any = setting(
        0.25,
        'Penalty of annotators in units of K^2, or "held-out" to choose it by held-out votes.',
        choices=("held-out",),
        free=True,
    )
    item_strength: float = setting(1.0, "Penalty of items, in units of that of annotators per vote.", above=0)
    honesty: float = setting(
        1.0, "Log-odds of a right over each wrong answer before any votes; 0 is the published model.", low=0
    )
    steps: int = setting(1, "Steps on both confusions between two rounds.", low=1, whole=True)
    max_iter: int = setting(500, "Most rounds of one run.", low=1, whole=True)
    tol: float = setting(1e-5, ABOUT_TOL, above=0)

    name: ClassVar[str] = "minimax-entropy"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        cells = float(votes.n_classes) ** 2
        announce(
            "minimax entropy",
            operations=50.0 * (2 * self.steps + 1) * 4.0 * votes.n_votes * cells,
            memory=8.0 * cells * (4.0 * votes.n_items + 6.0 * votes.n_annotators) + 8.0 * 3 * votes.n_votes * votes.n_classes,
            advice="use dawid-skene, or fewer classes",
        )
        if self.strength == "held-out":
            return self._run_with(problem, self._held_out_strength(problem))
        if isinstance(self.strength, bool) or not isinstance(self.strength, int | float) or not 0 < self.strength < np.inf:
            raise SettingError(f"MinimaxEntropy: strength must be a number above 0 or 'held-out'; got {self.strength!r}")
        return self._run_with(problem, float(self.strength))

    def _run_with(self, problem: Problem, strength: float) -> Fit:
        votes = problem.votes
        shape = (votes.n_annotators, votes.n_classes, votes.n_classes)
        annotator_penalty = strength * votes.n_classes**2
        # Votes per annotator over votes per item is items over annotators, counting those with votes.
        voted = [int((segment_sum(who, votes.weight, size) > 0).sum()) for who, size in _sides(votes)]
        item_penalty = self.item_strength * annotator_penalty * max(voted[1], 1) / max(voted[0], 1)
        earlier = np.zeros(shape) if problem.history is None else problem.history
        model = MaxEntConfusion.start(earlier, votes.n_items, self.honesty, annotator_penalty, item_penalty, self.steps)
        return self.alternate(problem, problem.marginals(), model)

    def _held_out_strength(self, problem: Problem) -> float:
        """The strength under which held-out votes are likeliest, over five folds of single votes."""
        votes = problem.votes
        fold = problem.rng.permutation(votes.n_votes) % _FOLDS
        scores = np.zeros(len(_STRENGTHS))
        for i in range(_FOLDS):
            rest = votes.take_votes(fold != i)
            part = problem.with_votes(rest, warm=None, progress=None)
            index = np.flatnonzero(fold == i)
            for s, strength in enumerate(_STRENGTHS):
                done = self._run_with(part, strength)
                log_vote = done.annotators.log_lik(votes, index)
                weight = votes.weights[index]
                per_vote = np.exp(log_vote / np.where(weight > 0, weight, 1.0)[:, None])
                scores[s] += float((weight * log_floored((done.posterior[votes.item[index]] * per_vote).sum(axis=1))).sum())
        return _STRENGTHS[int(scores.argmax())]


def _sides(votes: Annotations) -> list[tuple[Array, int]]:
    return [(votes.annotator, votes.n_annotators), (votes.item, votes.n_items)]
