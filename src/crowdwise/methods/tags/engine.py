"""The loop of sequence methods: annotators, transitions, then forward and backward sums over every sequence.

    annotators  = annotators.update(votes, posterior)
    transitions = transitions.update(expected transitions, posterior)
    evidence    = sum over the votes on a token of their log-likelihood
    posterior   = forward-backward(transitions, evidence, tilted by features where transitions have some)
    bound       = log-evidence of all sequences - transitions.penalty() - annotators.penalty()

As in `crowdwise.engines.loop`, point parts give EM and Dirichlet parts variational Bayes; the bound never falls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Progress, Round, loop, warn_unless_converged
from crowdwise.kernels.chains import Messages, Steps, forward_backward
from crowdwise.kernels.types import Floats
from crowdwise.methods.tags.transitions import TransitionModel, counted
from crowdwise.parts.annotators.model import AnnotatorModel

__all__ = ["ChainFit", "evidence_of", "fit_chain"]

_NOTHING_KNOWN = np.empty(0, np.int16)


@dataclass(frozen=True, eq=False)
class ChainFit:
    """What the loop ends with."""

    transitions: TransitionModel
    annotators: AnnotatorModel | None
    messages: Messages
    trace: dict[str, Floats]
    n_iter: int
    converged: bool


@dataclass(frozen=True, eq=False)
class _State:
    """Parts, and what they say of the tokens: posterior, [N, K], and expected transitions, [K + 1, K]."""

    transitions: TransitionModel
    annotators: AnnotatorModel
    posterior: Floats
    counts: Floats
    messages: Messages | None = None


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
    progress: Progress | None,
) -> ChainFit:
    """Run the loop from a posterior `start`, [N, K]."""

    def step(before: _State) -> tuple[_State, Round]:
        people = before.annotators.update(votes, before.posterior)
        chain = before.transitions.update(before.counts, before.posterior)
        evidence, log_scale = evidence_of(votes, people)
        messages = forward_backward(*chain.weights(), chain.tilt(evidence), steps)
        moved = np.abs(messages.posterior - before.posterior).sum(axis=1) / 2
        bound = messages.log_evidence + log_scale - chain.penalty() - people.penalty()
        after = _State(chain, people, messages.posterior, counted(messages), messages)
        return after, Round(float(moved.mean()) if len(moved) else 0.0, {"objective": bound})

    counts = np.vstack([start[steps.following - 1].T @ start[steps.following], start[steps.start].sum(axis=0)])
    first = _State(transitions, annotators, start, counts)
    run = warn_unless_converged(loop(step, first, max_iter=max_iter, tol=tol, progress=progress))
    last = run.state
    assert last.messages is not None
    return ChainFit(last.transitions, last.annotators, last.messages, run.trace, run.n_iter, run.converged)
