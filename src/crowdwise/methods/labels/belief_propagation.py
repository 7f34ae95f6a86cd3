"""Belief propagation of Liu, Peng and Ihler: annotators summed out, items and annotators exchange messages.

Model      z_n ~ d;  R_a ~ any prior over confusion matrices;  vote of a on n ~ R_a[z_n]
Factors    p(z | votes) proportional to prod_n d[z_n] prod_a g_a(z of its items),
           g_a = integral of p(R) prod_{votes of a} R[z_n, y] dR
Messages   item -> annotator: class prior times the other annotators' messages
           annotator -> item: E_{p(R)}[ R[k, y] prod over a's other items of <R[:, y], their messages> ]
Posterior  q_nk proportional to d_k times all messages to n: exact where the graph is a tree

Families of annotators: "one-coin" (one accuracy), "two-coin" (an accuracy per true class; for more
than two classes errors are uniform over the others), "confusion" (a Dirichlet row per true class).

Notes
-----
Priors and the integral over them: see `crowdwise.parts.priors.abilities`. Where the paper uses divide and
conquer with fast Fourier transforms and Kim et al. 400 draws, one-coin annotators are integrated
exactly by Gauss quadrature; draws are shared by all annotators and rounds, so that rounds are
deterministic and a stopping rule means something. The default prior Beta(2, 1) is that of both
papers' experiments; the class prior is uniform and fixed, as in the paper ("learn" re-estimates it
every round). Messages start from vote shares, not flat: in the papers' settings both end at the same
point, but from a flat start a few known labels alone would tell what annotators are like. All votes of
an annotator on an item travel on one edge, so a weight of w equals w repeated votes, and graphs with
repeated votes can still be trees. `trace_` is Bethe's approximation of log p(votes), which may fall from
round to round: its fixed points, not its rise, are what belief propagation promises. On graphs with many
short loops rounds may swing; `damping` of 0.3 to 0.5 calms them. Cost per round: O(E S) for one-coin,
O(E K S) otherwise, S nodes (4 for four votes per annotator, 64 at most; 256 draws).
Draws cannot follow an annotator with many votes into a corner of K * K dimensions: for more than two
classes "confusion" suits annotators with few votes, and a warning says where the draws are too coarse.

References
----------
Liu, Peng and Ihler (2012), Variational inference for crowdsourcing, NIPS. Kim, Cho, Kim and Ok
(2022), Robust deep learning from crowds with belief propagation, AISTATS.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Fit
from crowdwise.errors import DataWarning, SettingError
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import announce, setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.messages import BeliefMessages
from crowdwise.parts.priors.abilities import FAMILIES, INTEGRALS, ability_prior, node_rules

__all__ = ["BeliefPropagation"]

# Rounds that most problems need, for the announcement of cost.
_USUAL_ROUNDS = 30
# A posterior on fewer draws than these has no shape of its own.
_FEW_NODES = 5


@dataclass(eq=False, repr=False, kw_only=True)
class BeliefPropagation(IterativeAggregator):
    """Sum-product messages between items and annotators, under any prior of annotators.

    Examples
    --------
    >>> votes = {"item": [1, 1, 1, 2, 2], "annotator": ["x", "y", "z", "x", "y"], "label": ["a", "a", "b", "b", "b"]}
    >>> model = BeliefPropagation(confidence="model").fit(votes)
    >>> model.labels_.tolist(), model.posterior_[:, 0].round(2).tolist()
    (['a', 'b'], [0.73, 0.19])
    """

    class_prior: Any = setting("uniform", 'Class shares: "uniform", "learn" (re-estimated every round), or K.', free=True)
    family: str = setting("one-coin", "Annotators: one accuracy, one per true class, or full confusion rows.", choices=FAMILIES)
    annotator_prior: Any = setting(
        "beta:2,1",
        'Prior of annotators: "beta:R,W", "dirichlet:R,W", "spammer-hammer:SHARE[,ACCURACY]", or draws [S], [S, K], [S, K, K].',
        free=True,
    )
    annotator_weights: Any = setting(None, "Weights of the draws given as `annotator_prior`; equal by default.", free=True)
    integral: str = setting(
        "auto", "How the prior is integrated: exactly where that is cheap, else by draws.", choices=INTEGRALS
    )
    samples: int | None = setting(
        None, "Draws; by default 256 of a Sobol set (or the next power of two), 400 random ones.", free=True
    )
    damping: float = setting(0.0, "Share of the last round's messages kept in the next; below 1.", low=0)
    max_iter: int = setting(100, "Most rounds of one run.", low=1, whole=True)

    name: ClassVar[str] = "belief-propagation"

    def _fit(self, problem: Problem) -> Fit:
        done = self.alternate(problem, problem.marginals(), self._annotators(problem.votes, problem.history))
        self._warn_if_coarse(problem.votes, done.annotators)
        return done

    def _warn_if_coarse(self, votes: Annotations, annotators: BeliefMessages) -> None:
        """Draws of the prior may be too few to tell what an annotator with many votes is like."""
        if len(annotators.rule_ptr) > 2 or annotators.node.ndim < 3 or not isinstance(self.annotator_prior, str):
            return
        coarse = annotators.effective_nodes()[votes.annotator] < _FEW_NODES
        if len(annotators.log_weight) > _FEW_NODES and coarse.mean() > 0.5:
            warnings.warn(
                f"{coarse.mean():.0%} of the votes come from annotators whose posterior rests on fewer than {_FEW_NODES} of "
                f"{len(annotators.log_weight)} draws, which is too coarse; use family='one-coin', more samples or bayes-gc",
                DataWarning,
                stacklevel=4,
            )

    def _annotators(self, votes: Annotations, history: Floats | None, rounds: int | None = None) -> BeliefMessages:
        """The model before the first round; `rounds` are those to foresee, by default what fits usually need."""
        if self.damping >= 1:
            raise SettingError(f"{type(self).__name__}: damping must be below 1; got {self.damping!r}")
        samples: Any = self.samples
        if samples is not None and not (isinstance(samples, Integral) and int(samples) >= 1):
            raise SettingError(f"{type(self).__name__}: samples must be a whole number of at least 1; got {self.samples!r}")
        degree = votes.weight_per_annotator
        if history is not None:
            degree = degree + history.sum(axis=(1, 2))
        prior = ability_prior(self.annotator_prior, self.annotator_weights, votes.n_classes)
        # A generator of its own: draws must not depend on how many random starts were drawn before.
        rng = np.random.default_rng(self.random_state)
        rules, rule_a = node_rules(prior, self.family, votes.n_classes, degree, self.integral, self.samples, rng)
        size_a = np.array([len(rule.node) for rule in rules])[rule_a]
        states = votes.n_classes if rules[0].node.ndim == 3 else 2
        terms = float((votes.votes_per_annotator * size_a).sum())
        announce(
            self.name,
            operations=terms * (2 * states + 30) * (rounds or min(self.max_iter, _USUAL_ROUNDS) * self.restarts),
            memory=8.0 * (3 * votes.n_votes * states + 3 * float(size_a.sum())),
            advice="use family='one-coin', fewer samples, or mean-field",
        )
        return BeliefMessages.start(votes, rules, rule_a, history, self.damping)
