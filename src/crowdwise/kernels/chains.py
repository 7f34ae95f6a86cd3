"""Markov chains over the tokens of many sequences: forward and backward sums, and the best path.

Sequences are sorted by length once; at step t the tokens are those of the sequences longer than t, which
come first in that order. So every step is one matrix product, nothing is padded, and the loop has as many steps
as the longest sequence has tokens.

Symbols
-------
initial_k : [K]            weight of a sequence's first state
transition_jk : [K, K]     weight of state k after state j
emission_nk : [N, K]       weight of token n's evidence in state k; any scale per token
alpha_nk, beta_nk : [N, K] forward and backward sums, scaled per token

Weights need not sum to one (variational Bayes uses exp E log p), and zeros forbid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Floats, Integers

__all__ = ["Messages", "Steps", "best_path", "forward_backward"]


# Evidence against a state is cut off here. As any state may be followed by one that is always allowed, sums then stay
# above what doubles can hold, whatever the votes and whatever is forbidden.
_FLOOR = 1e-120


@dataclass(frozen=True, eq=False)
class Steps:
    """The tokens of all sequences, step by step.

    Attributes
    ----------
    start : [S']
        First token of every sequence that has tokens, longest first.
    length : [S']
        Their lengths.
    following : [N - S']
        Every token that has one before it.
    """

    start: Integers
    length: Integers
    following: Integers

    @classmethod
    def of(cls, sequence_ptr: Integers) -> Steps:
        """The steps of sequences whose tokens are ``sequence_ptr[s]:sequence_ptr[s + 1]``."""
        length = np.diff(sequence_ptr)
        order = np.argsort(-length, kind="stable")
        order = order[length[order] > 0]
        first = np.zeros(int(sequence_ptr[-1]), bool)
        first[sequence_ptr[:-1][length > 0]] = True
        return cls(sequence_ptr[:-1][order], length[order], np.flatnonzero(~first))

    def forwards(self) -> Iterator[Integers]:
        """Tokens at step 1, 2, ... of the sequences that are long enough; the first step is `start`."""
        active = self._active()
        for step in range(1, len(active)):
            yield self.start[: active[step]] + step

    def backwards(self) -> Iterator[Integers]:
        """The same steps from the last to step 1."""
        active = self._active()
        for step in range(len(active) - 1, 0, -1):
            yield self.start[: active[step]] + step

    def _active(self) -> Integers:
        """Number of sequences longer than t, for every t up to the longest length."""
        longest = int(self.length[0]) if len(self.length) else 0
        return np.searchsorted(-self.length, -np.arange(longest), side="left")


@dataclass(frozen=True, eq=False)
class Messages:
    """What forward and backward sums say together.

    Attributes
    ----------
    posterior : [N, K]
        Probability of every state of every token.
    first_k : [K]
        Expected number of sequences that begin in each state.
    pairs_jk : [K, K]
        Expected number of times that state k follows state j.
    log_evidence : float
        Log of the summed weights of all paths, over all sequences.
    alpha, beta, scale
        Forward sums normalised per token, backward sums such that ``alpha * beta`` sums to one per token, and the
        normalisers of the forward sums, [N].
    emission : [N, K]
        The evidence as it was used.
    """

    posterior: Floats
    first_k: Floats
    pairs_jk: Floats
    log_evidence: float
    alpha: Floats
    beta: Floats
    scale: Floats
    emission: Floats


def forward_backward(initial_k: Floats, transition_jk: Floats, emission_nk: Floats, steps: Steps) -> Messages:
    """Sum over all paths of every sequence; O(N K^2)."""
    top = emission_nk.max(axis=1, initial=0.0)
    emission = np.maximum(emission_nk / top[:, None], _FLOOR)
    alpha, beta, scale = np.empty_like(emission), np.ones_like(emission), np.empty(len(emission))

    def keep(tokens: Integers, sums: Floats) -> None:
        total = sums.sum(axis=1)
        alpha[tokens] = sums / total[:, None]
        scale[tokens] = total

    keep(steps.start, initial_k * emission[steps.start])
    for tokens in steps.forwards():
        keep(tokens, (alpha[tokens - 1] @ transition_jk) * emission[tokens])
    for tokens in steps.backwards():
        sums = (emission[tokens] * beta[tokens]) @ transition_jk.T
        beta[tokens - 1] = sums / sums.max(axis=1, keepdims=True)
    posterior = alpha * beta
    total = posterior.sum(axis=1, keepdims=True)
    posterior /= total
    after = emission[steps.following] * beta[steps.following]
    before = alpha[steps.following - 1]
    joint = ((before @ transition_jk) * after).sum(axis=1, keepdims=True)
    pairs = transition_jk * ((before / joint).T @ after)
    evidence = float(np.log(scale).sum() + np.log(top).sum())
    return Messages(posterior, posterior[steps.start].sum(axis=0), pairs, evidence, alpha, beta / total, scale, emission)


def best_path(initial_k: Floats, transition_jk: Floats, emission_nk: Floats, steps: Steps) -> Integers:
    """The states of the heaviest path of every sequence, [N]; among equals the lowest index (Viterbi)."""
    log_initial, log_transition = _log(initial_k), _log(transition_jk)
    top = emission_nk.max(axis=1, initial=0.0, keepdims=True)
    score = log_floored(np.maximum(emission_nk / top, _FLOOR))
    origin = np.zeros(score.shape, np.int32)
    score[steps.start] += log_initial
    for tokens in steps.forwards():
        via = score[tokens - 1][:, :, None] + log_transition
        best = via.argmax(axis=1)
        origin[tokens] = best
        score[tokens] += np.take_along_axis(via, best[:, None, :], axis=1)[:, 0]
    path = np.zeros(len(score), np.int64)
    last = steps.start + steps.length - 1
    path[last] = score[last].argmax(axis=1)
    for tokens in steps.backwards():
        path[tokens - 1] = origin[tokens, path[tokens]]
    return path


def _log(weights: Floats) -> Floats:
    """Logarithm; zeros forbid, so they become minus infinity."""
    return np.where(weights > 0, log_floored(weights), -np.inf)
