"""Tags that follow each other and depend on features of their tokens: a conditional random field as the prior of the tags.

    p(z | x) = exp(sum_t weight[:, z_t] . x_t + sum_t table[z_t-1, z_t]) / Z(x),     z over allowed sequences

Under annotators, p(z | x, votes) is proportional to p(z | x) times the evidence of the votes, and the log-evidence of the votes
is log Z with their evidence less log Z without. The M-step raises sum_z q(z) log p(z | x) - decay / 2 |weights|^2 by a few
steps of L-BFGS: a concave problem whose gradient is expected features under q less those under the model. So the bound
never falls.

References
----------
Lafferty, McCallum and Pereira (2001), Conditional random fields, ICML; Rodrigues, Pereira and Ribeiro (2014), Sequence labeling
with multiple annotators, Machine Learning 95, where one annotator of each sequence is the one to trust.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.kernels.chains import Messages, Steps, forward_backward
from crowdwise.kernels.types import Flags, Floats
from crowdwise.methods.tags.transitions import counted

__all__ = ["FeatureChain", "loss"]

# Steps of L-BFGS in a round: each raises the bound, and the posterior that they are for moves anyway.
_STEPS = 5


@dataclass(frozen=True, eq=False)
class FeatureChain:
    """A conditional random field; implements `TransitionModel`.

    Attributes
    ----------
    allowed : [K + 1, K]
        What may follow what; the last row is the first tag of a sequence.
    features : sparse [N, F]
    decay : float
        Precision of the Gaussian prior of all weights.
    weight_fk : [F, K]
    table_jk : [K + 1, K]
        Logarithmic weights of transitions; 0 where forbidden.
    free : Messages
        Sums over all sequences without any vote.
    """

    allowed: Flags
    features: Any
    steps: Steps
    decay: float
    weight_fk: Floats
    table_jk: Floats
    free: Messages

    @classmethod
    def start(cls, allowed: Flags, features: Any, steps: Steps, decay: float) -> FeatureChain:
        """All weights 0: every allowed sequence is equally likely."""
        weight, table = np.zeros((features.shape[1], allowed.shape[1])), np.zeros(allowed.shape)
        return cls(allowed, features, steps, decay, weight, table, _free(allowed, features, steps, weight, table))

    def weights(self) -> tuple[Floats, Floats]:
        """Weights of the first tag, [K], and of transitions, [K, K]; the normaliser is part of `penalty`."""
        return _exponential(self.allowed, self.table_jk)

    def tilt(self, evidence: Floats) -> Floats:
        """Evidence times the weights of the tags by the features of their tokens, [N, K]."""
        return np.asarray(evidence * _emission(self.features, self.weight_fk))

    def penalty(self) -> float:
        """Log of the normaliser, and minus the log-density of the weights up to its constant."""
        squares = float((self.weight_fk**2).sum() + (self.table_jk**2).sum())
        return self.free.log_evidence + self.decay / 2 * squares

    def probability(self) -> Floats:
        """How tags follow each other under the model, [K + 1, K]."""
        counts = counted(self.free)
        total = counts.sum(axis=1, keepdims=True)
        return np.asarray(counts / np.where(total > 0, total, 1.0))

    def update(self, counts: Floats, posterior: Floats) -> FeatureChain:
        """Raise the expected log-probability of tags with these posteriors, [N, K], and transitions, [K + 1, K]."""
        from scipy.optimize import minimize

        before = np.concatenate([self.weight_fk.ravel(), self.table_jk.ravel()])
        given = (self, counts, posterior)
        found = minimize(loss, before, given, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS, "maxcor": _STEPS})
        weight, table = _parted(self, found.x)
        return replace(
            self, weight_fk=weight, table_jk=table, free=_free(self.allowed, self.features, self.steps, weight, table)
        )


def loss(parameters: Floats, chain: FeatureChain, counts: Floats, posterior: Floats) -> tuple[float, Floats]:
    """Minus the expected log-probability of tags, and of the weights; and its gradient."""
    weight, table = _parted(chain, parameters)
    free = _free(chain.allowed, chain.features, chain.steps, weight, table)
    scores = _scores(chain.features, weight)
    table = np.where(chain.allowed, table, 0.0)
    value = free.log_evidence - float((posterior * scores).sum()) - float((counts * table).sum())
    value += chain.decay / 2 * float(parameters @ parameters)
    by_weight = chain.features.T @ (free.posterior - posterior)
    by_table = np.where(chain.allowed, counted(free) - counts, 0.0)
    return value, np.concatenate([by_weight.ravel(), by_table.ravel()]) + chain.decay * parameters


def _parted(chain: FeatureChain, parameters: Floats) -> tuple[Floats, Floats]:
    size = chain.weight_fk.size
    return parameters[:size].reshape(chain.weight_fk.shape), parameters[size:].reshape(chain.table_jk.shape)


def _scores(features: Any, weight: Floats) -> Floats:
    """Logarithmic weights of every tag of every token, [N, K], the largest at 0: a constant per token cancels in p(z | x)."""
    scores: Floats = np.asarray(features @ weight)
    return np.asarray(scores - scores.max(axis=1, keepdims=True))


def _emission(features: Any, weight: Floats) -> Floats:
    return np.asarray(np.exp(_scores(features, weight)))


def _exponential(allowed: Flags, table: Floats) -> tuple[Floats, Floats]:
    weights = np.where(allowed, np.exp(table), 0.0)
    return weights[-1], weights[:-1]


def _free(allowed: Flags, features: Any, steps: Steps, weight: Floats, table: Floats) -> Messages:
    return forward_backward(*_exponential(allowed, table), _emission(features, weight), steps)
