"""Streaming Bayesian Dawid-Skene: the model of `bayes-gc`, its counts kept exact while votes arrive.

Model      d ~ Dir(alpha0);  pi_ak ~ Dir(beta0_k);  z_n ~ d;  vote of a on n ~ pi[a, z_n]
State      alpha = alpha0 + sum_n q_n;  beta_akl = beta0_kl + sum of q_nk over a's votes l
New votes  for every item n that got one:
           log q'_nk = E log d_k + sum_e E log pi[a_e, k, y_e] + const,
           then take q_n out of alpha and of beta at all votes on n, and put q'_n in
Forgetting beta_a <- beta0 + (1 - forget) (beta_a - beta0) with every vote of a

Notes
-----
Incremental variational Bayes with memory (Neal and Hinton 1998; Hughes and Sudderth 2013): each visit climbs the bound of
`bayes-gc`, and a state in which no visit changes anything is a fixed point of `bayes-gc`. Forgetting is by the annotator's
own votes, so that rare annotators do not forget faster; half of what was known is gone after log 2 / forget votes. The
class shares forget nothing. Cost of an update: O(K) for every vote on the items touched and revisited, times the sweeps.

References
----------
Kim and Ghahramani (2012): Bayesian classifier combination (the model). Neal and Hinton (1998): A view of the EM algorithm
that justifies incremental, sparse, and other variants. Hughes and Sudderth (2013): Memoized online variational inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdwise.aggregate.settings import setting
from crowdwise.annotators.confusion import DirichletConfusion
from crowdwise.errors import SettingError
from crowdwise.online.base import OnlineAggregator
from crowdwise.online.records import Memory, Rules
from crowdwise.priors.marginals import DirichletMarginals, Marginals

if TYPE_CHECKING:
    from crowdwise.engines.alternate import LabelPrior
    from crowdwise.online.state import State

__all__ = ["StreamingDawidSkene"]

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False, kw_only=True)
class StreamingDawidSkene(OnlineAggregator):
    """Bayesian Dawid-Skene that folds votes in as they arrive.

    Examples
    --------
    >>> model = StreamingDawidSkene()
    >>> model = model.update({"item": [1, 1, 2], "annotator": ["x", "y", "x"], "label": ["cat", "cat", "dog"]})
    >>> model.update({"item": [2, 3], "annotator": ["y", "y"], "label": ["dog", "cat"]}).labels_.tolist()
    ['cat', 'dog', 'cat']
    """

    sweeps: int = setting(20, "Most visits to every item that an update touches.", low=1, whole=True)
    forget: float = setting(0.0, "Share of what is known of annotators that they lose with every vote of theirs.", low=0)
    alpha0: float = setting(1.1, "Dirichlet parameter of every class share.", above=0)
    diagonal: float = setting(5.0, "Dirichlet parameter of a right answer.", above=0)
    off_diagonal: float | None = setting(
        None, "Dirichlet parameter of each wrong answer; by default 2 / (K - 1).", above=0, optional=True
    )
    own_labels: bool = setting(False, "Let the prior rows follow each annotator's own use of the labels.")

    name: ClassVar[str] = "streaming-ds"
    lasting: ClassVar[tuple[str, ...]] = ("forget",)

    def _rules(self, n_classes: int, history: Floats, history_total: Floats, fixed: Floats) -> Rules:
        wrong = 2 / max(n_classes - 1, 1) if self.off_diagonal is None else float(self.off_diagonal)
        prior = np.where(np.eye(n_classes, dtype=bool), float(self.diagonal), wrong)
        class_prior = np.full(n_classes, float(self.alpha0))
        # Of labels used evenly the right one then has the same share of a row as without `own_labels`.
        tilt = float(self.diagonal) / wrong - 1 if n_classes > 1 else 0.0
        return Rules(True, 0, self.own_labels, tilt, prior, prior.sum(axis=0), history, history_total, class_prior, fixed)

    def _memory(self, size: int) -> Memory:
        none = np.empty(0)
        if self.forget >= 1:
            raise SettingError(f"StreamingDawidSkene: forget must be below 1; got {self.forget!r}")
        if self.forget == 0:
            return Memory(none, none, none, none)
        return Memory(np.ones(size + 1), np.arange(size + 1) * np.log1p(-self.forget), none, none)

    def _parts(self, state: State, rules: Rules, who: NDArray[Any]) -> tuple[LabelPrior, Any]:
        prior_alk = rules.prior[None]
        if rules.own_use:
            use = state.arrays.used[who][:, :, None] + 1 / len(rules.prior)
            tilted = use * (1 + rules.tilt * np.eye(len(rules.prior)))
            prior_alk = rules.prior_total * tilted / tilted.sum(axis=1, keepdims=True)
        if len(rules.history):
            prior_alk = prior_alk + rules.history[who]
        annotators = DirichletConfusion(prior_alk, prior_alk + np.maximum(state.arrays.counts[who], 0))
        marginals: LabelPrior = Marginals(np.exp(rules.fixed), learn=False)
        if not len(rules.fixed):
            marginals = DirichletMarginals(rules.class_prior, rules.class_prior + np.maximum(state.arrays.shares, 0))
        return marginals, annotators
