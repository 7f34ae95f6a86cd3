"""The loop of sequence methods: annotators, transitions, then forward and backward sums over every sequence.

    annotators  = annotators.update(votes, posterior)
    transitions = transitions.update(expected transitions)
    evidence    = sum over the votes on a token of their log-likelihood
    posterior   = forward-backward(transitions, evidence)
    bound       = log-evidence of all sequences - transitions.penalty() - annotators.penalty()

As in `crowdwise.engines.alternate`, point parts give EM and Dirichlet parts variational Bayes; the bound never falls.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crowdwise.errors import ConvergenceWarning
from crowdwise.kernels.chains import Messages, Steps, forward_backward
from crowdwise.methods.tags.transitions import TransitionModel, counted

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.parts.annotators.protocol import AnnotatorModel

__all__ = ["ChainFit", "evidence_of", "fit_chain"]

Floats = NDArray[np.float64]
_NOTHING_KNOWN = np.empty(0, np.int16)


@dataclass(frozen=True, eq=False)
class ChainFit:
    """What the loop ends with."""

    transitions: TransitionModel
    annotators: AnnotatorModel | None
    messages: Messages
    trace: Floats
    converged: bool


def evidence_of(votes: Annotations, annotators: AnnotatorModel) -> tuple[Floats, float]:
    """What the votes say of every token, [N, K], scaled to sum to one, and the sum of the logs of the scales."""
    flat = np.zeros((1, votes.n_classes))
    share = np.full((votes.n_items, votes.n_classes), 1 / votes.n_classes)
    log_scale, _ = annotators.infer(votes, flat, _NOTHING_KNOWN, share)
    return share, log_scale


def fit_chain(
    votes: Annotations,
    steps: Steps,
    transitions: TransitionModel,
    annotators: AnnotatorModel,
    *,
    start: Floats,
    max_iter: int,
    tol: float,
) -> ChainFit:
    """Run the loop from a posterior `start`, [N, K]."""
    counts = np.vstack([start[steps.following - 1].T @ start[steps.following], start[steps.start].sum(axis=0)])
    posterior, bounds, converged = start, [], False
    for iteration in range(max_iter):
        annotators = annotators.update(votes, posterior)
        transitions = transitions.update(counts)
        evidence, log_scale = evidence_of(votes, annotators)
        messages = forward_backward(*transitions.weights(), evidence, steps)
        change = float(np.abs(messages.posterior - posterior).max(initial=0.0))
        posterior, counts = messages.posterior, counted(messages)
        bounds.append(messages.log_evidence + log_scale - transitions.penalty() - annotators.penalty())
        if iteration and abs(bounds[-1] - bounds[-2]) <= tol * abs(bounds[-1]) and change <= 1000 * tol:
            converged = True
            break
    if not converged:
        warnings.warn(
            f"stopped after {max_iter} iterations before the stopping rule was met; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    return ChainFit(transitions, annotators, messages, np.array(bounds), converged)
