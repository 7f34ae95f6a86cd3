"""Streaming Bayesian Dawid-Skene: the model of `bayes-gc`, its counts kept exact while votes arrive.

Model      d ~ Dir(alpha0);  pi_ak ~ Dir(beta0_ak);  z_n ~ d;  vote of a on n ~ pi[a, z_n]
Prior      beta0_akl = diagonal where l = k, else off_diagonal; plus own_labels u_al / sum_j u_aj,
           u_al = 1 + votes of a for label l
State      alpha = alpha0 + sum_n q_n;  beta_akl = beta0_akl + sum of q_nk over a's votes l
New votes  for every item n that got one:
           log q'_nk = E log d_k + sum_e E log pi[a_e, k, y_e] + const,
           then take q_n out of alpha and of beta at all votes on n, and put q'_n in
Forgetting beta_a <- beta0 + (1 - forget) (beta_a - beta0) with every vote of a

Notes
-----
Why a part of the prior follows the annotator's use of the labels: under even rows alone, the label that an annotator gives to
everything is strong evidence for its class wherever the other rows have few counts (E log pi of a Dirichlet parameter of 1/2
is -4 at a row of 7). Believed, it fills its own row and leaves the others empty, so the mistake confirms itself; `bayes-gc`
has that fault. The part is added and does not replace the even rows: in proportion to the use alone, a label used once
in a hundred votes would have a parameter near 0, E log pi near -30, and decide its item by itself. The prior is a
function of the votes, so for given votes it is fixed, and the bound is that of an ordinary Dirichlet prior.

Incremental variational Bayes with memory (Neal and Hinton 1998; Hughes and Sudderth 2013): each visit climbs the bound of
`bayes-gc` with this prior, and a state in which no visit changes anything is a fixed point of it. Forgetting is by the
annotator's own votes, so that rare annotators do not forget faster; half of what was known is gone after log 2 / forget
votes. The class shares forget nothing. Cost of an update: O(K) for every vote on the items touched, times the sweeps, and
on those revisited.

References
----------
Kim and Ghahramani (2012): Bayesian classifier combination (the model). Neal and Hinton (1998): A view of the EM algorithm
that justifies incremental, sparse, and other variants. Hughes and Sudderth (2013): Memoized online variational inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Array, Floats
from crowdwise.methods.online.base import OnlineAggregator
from crowdwise.methods.online.records import Memory, Rules
from crowdwise.parts.annotators.model import DirichletConfusion
from crowdwise.parts.priors.marginals import DirichletMarginals, Marginals

if TYPE_CHECKING:
    from crowdwise.engines.loop import LabelPrior
    from crowdwise.methods.online.scheme import Scheme
    from crowdwise.methods.online.state import State

__all__ = ["StreamingDawidSkene"]


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
    diagonal: float = setting(15.0, "Dirichlet parameter of a right answer.", above=0)
    off_diagonal: float | None = setting(
        None, "Dirichlet parameter of each wrong answer; by default 2 / (K - 1).", above=0, optional=True
    )
    own_labels: float = setting(
        15.0, "Further Dirichlet parameters of every row, in proportion to the annotator's own use of the labels.", low=0
    )

    name: ClassVar[str] = "streaming-ds"
    lasting: ClassVar[tuple[str, ...]] = ("forget",)

    def rules_for(self, n_classes: int, history: Floats, history_total: Floats, fixed: Floats) -> Rules:
        """How counts become evidence."""
        wrong = 2 / max(n_classes - 1, 1) if self.off_diagonal is None else float(self.off_diagonal)
        prior = np.where(np.eye(n_classes, dtype=bool), float(self.diagonal), wrong)
        class_prior = np.full(n_classes, float(self.alpha0))
        return Rules(True, 0, float(self.own_labels), prior, prior.sum(axis=0), history, history_total, class_prior, fixed)

    def memory_for(self, size: int) -> Memory:
        """Tables of weights for turns up to `size`."""
        none = np.empty(0)
        if self.forget >= 1:
            raise SettingError(f"StreamingDawidSkene: forget must be below 1; got {self.forget!r}")
        if self.forget == 0:
            return Memory(none, none, none, none)
        return Memory(np.ones(size + 1), np.arange(size + 1) * np.log1p(-self.forget), none, none)

    def parts_of(self, state: State, scheme: Scheme, who: Array) -> tuple[LabelPrior, Any]:
        """Label prior and annotator model of a state, annotators in the order of `who`."""
        rules = scheme.rules(state)
        prior_alk = rules.prior[None]
        if rules.own > 0:
            use = state.arrays.used[who][:, :, None] + 1
            prior_alk = prior_alk + rules.own * use / use.sum(axis=1, keepdims=True)
        if len(rules.history):
            prior_alk = prior_alk + rules.history[who]
        annotators = DirichletConfusion(prior_alk, prior_alk + np.maximum(state.arrays.counts[who], 0))
        marginals: LabelPrior = Marginals(np.exp(rules.fixed), learn=False)
        if not len(rules.fixed):
            marginals = DirichletMarginals(rules.class_prior, rules.class_prior + np.maximum(state.arrays.shares, 0))
        return marginals, annotators
