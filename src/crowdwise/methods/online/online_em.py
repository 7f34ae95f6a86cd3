"""Online EM for Dawid-Skene: running averages in the place of sums, each annotator at their own pace.

Statistics  s_d(k), s_a(k, l): running averages of q_nk over items, and of q_nk 1[y = l] over the votes of a
New item    q from the present d and R;  s_d <- (1 - lambda_t) s_d + lambda_t q;
            s_a <- (1 - lambda_t) s_a + lambda_t q onehot(y)' for each vote, t counting a's *own* votes
Parameters  d = normalised(s_d + 1 / (K t));  R_a = rows of s_a + prior_a / t_a, normalised
Steps       lambda_1 = 1, then lambda_t = t^-power, or a constant

Notes
-----
Steps by a count of all items would freeze annotators who come rarely. An item that gets further votes is visited again: its
old posterior is taken out of every average at the weight it has by now, which follows from its turn, and the new one is put
in. Every row of `prior_a` has `strength` pseudo-votes, `start` of them right and the others even, and `own_labels` more in
proportion to u_al = 1 / t_a + share of l in a's votes (why: see `streaming`). For the first `hold` items the
parameters stay at the start: the prior with all labels used evenly, and even class shares. With `average` the result's
matrices come from the mean of s_a over the annotator's past (Polyak and Ruppert), with the posteriors of now;
updates continue from the latest s_a. Weights of votes multiply their part in the averages. Cost of an update: O(K) for every
vote on the items touched and revisited, and O(K^2) for every new vote.

References
----------
Cappe and Moulines (2009), On-line expectation-maximization algorithm for latent data models. Traganitis et al. (2020), as
the ICASSP 2025 tutorial gives it, with steps t^-0.6.
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
from crowdwise.parts.annotators.model import Confusion
from crowdwise.parts.priors.marginals import Marginals

if TYPE_CHECKING:
    from crowdwise.engines.loop import LabelPrior
    from crowdwise.methods.online.scheme import Scheme
    from crowdwise.methods.online.state import State

__all__ = ["OnlineEM"]


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineEM(OnlineAggregator):
    """Dawid-Skene by online EM, with steps of each annotator's own.

    Examples
    --------
    >>> model = OnlineEM()
    >>> model = model.update({"item": [1, 1, 2], "annotator": ["x", "y", "x"], "label": ["cat", "cat", "dog"]})
    >>> model.update({"item": [2, 3], "annotator": ["y", "y"], "label": ["dog", "cat"]}).labels_.tolist()
    ['cat', 'dog', 'cat']
    """

    power: float = setting(0.6, "Steps are t ** -power; above 0.5 and at most 1.", above=0.5)
    step: float | None = setting(None, "A constant step below 1, which follows annotators who change.", above=0, optional=True)
    hold: int = setting(20, "Items before which the parameters stay at the start.", low=0, whole=True)
    start: float = setting(0.7, "Share of right answers among the pseudo-votes of `strength`, below 1.", above=0)
    strength: float = setting(4.0, "Pseudo-votes of every row, `start` of them right.", above=0)
    own_labels: float = setting(
        4.0, "Further pseudo-votes of every row, in proportion to the annotator's own use of the labels.", low=0
    )
    average: bool = setting(True, "Report matrices from the mean of the averages over time.")

    name: ClassVar[str] = "online-em"
    lasting: ClassVar[tuple[str, ...]] = ("power", "step")

    def rules_for(self, n_classes: int, history: Floats, history_total: Floats, fixed: Floats) -> Rules:
        """How counts become evidence."""
        wrong = (1 - self.start) / max(n_classes - 1, 1)
        prior = self.strength * np.where(np.eye(n_classes, dtype=bool), float(self.start), wrong)
        class_prior = np.full(n_classes, 1 / n_classes)
        return Rules(
            False, int(self.hold), float(self.own_labels), prior, prior.sum(axis=0), history, history_total, class_prior, fixed
        )

    def memory_for(self, size: int) -> Memory:
        """Tables of weights for turns up to `size`."""
        for name, top in (("power", 1.0), ("start", 1.0), ("step", 1.0)):
            value = getattr(self, name)
            if value is not None and (value > top or (value == top and name != "power")):
                raise SettingError(f"OnlineEM: {name} must be {'at most' if name == 'power' else 'below'} 1; got {value!r}")
        gain = step_sizes(size, self.power, self.step)
        fade = np.concatenate([[0.0, 0.0], np.cumsum(np.log1p(-gain[2:]))])
        return Memory(gain, fade, gain, fade)

    def parts_of(self, state: State, scheme: Scheme, who: Array) -> tuple[LabelPrior, Any]:
        """Label prior and annotator model of a state, annotators in the order of `who`."""
        rules = scheme.rules(state)
        arrays, held = state.arrays, state.arrays.clock[0] < rules.hold
        turns = np.maximum(arrays.turns[who], 1)[:, None, None]
        seen = np.zeros((len(who), *rules.prior.shape))
        if not held:
            seen = np.maximum(self._averages(state, scheme) if self.average else arrays.counts, 0)[who]
        use = seen.sum(axis=2, keepdims=True) + 1 / turns
        prior_alk = (rules.prior + rules.own * use / use.sum(axis=1, keepdims=True)) / turns
        if len(rules.history):
            prior_alk = prior_alk + rules.history[who] / turns
        shares = np.exp(rules.fixed)
        if not len(rules.fixed):
            shares = rules.class_prior / max(int(arrays.clock[0]), 1) + (0 if held else np.maximum(arrays.shares, 0))
        pi_alk = (prior_alk + seen) / (prior_alk + seen).sum(axis=1, keepdims=True)
        pooled = (turns * seen).sum(axis=0) + rules.prior
        annotators = Confusion(np.zeros((1, *rules.prior.shape)), pi_alk, pooled / pooled.sum(axis=0))
        return Marginals(shares / shares.sum(), learn=not len(rules.fixed)), annotators

    def _averages(self, state: State, scheme: Scheme) -> Floats:
        """The mean of every annotator's averages over their past, from all votes and their posteriors, [A, L, K]."""
        from crowdwise.methods.online.loops import averaged_weights

        arrays, annotator, turns = state.arrays, state.used("annotator"), state.used("turns")
        if state.past is not None:
            return np.asarray(state.past / np.maximum(turns, 1)[:, None, None])
        memory = scheme.memory(int(arrays.turns.max(initial=0)))
        weight, _ = averaged_weights(state.used("turn"), annotator, turns, np.zeros_like(turns), memory.gain, memory.fade)
        weight /= np.maximum(turns, 1)[annotator]
        if len(arrays.weight):
            weight *= state.used("weight")
        n_classes = len(state.classes)
        row = annotator.astype(np.int64) * n_classes + state.used("label")
        mean = np.empty((len(arrays.turns) * n_classes, n_classes))
        for k in range(n_classes):
            mass = weight * arrays.posterior[state.used("item"), k]
            mean[:, k] = np.bincount(row, weights=mass, minlength=len(mean))
        return mean.reshape(-1, n_classes, n_classes)


def step_sizes(size: int, power: float, step: float | None) -> Floats:
    """Steps of turns 0 ... size; the first real one, of turn 1, replaces what was there."""
    turn = np.maximum(np.arange(size + 1.0), 1)
    steps = turn**-power if step is None else np.full(size + 1, float(step))
    steps[:2] = [0, 1][: size + 1]
    return steps
