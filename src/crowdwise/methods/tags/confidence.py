"""How probable a span is: the exact span, under the chain, from forward and backward sums.

P(span s..e of type X) = P(z_s = B-X, z_s+1 = ... = z_e = I-X, z_e+1 is not I-X), which is

    alpha_s(z_s) * prod_{t = s+1..e} A(z_t-1, z_t) e_t(z_t) / c_t * sum_{k not I-X} A(z_e, k) e_e+1(k) beta_e+1(k) / c_e+1

and never more than the smallest of the tokens' own probabilities. Where sequences need not be valid, the span may also
begin with I-X after a tag of another type; the two ways are added.
"""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.chains import Messages
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.methods.tags.scheme import Spans, Tags

__all__ = ["span_probability"]


def span_probability(
    messages: Messages, transition_jk: Floats, path: Integers, first: Flags, spans: Spans, tags: Tags
) -> Floats:
    """Probability of every span of a path, [M].

    Parameters
    ----------
    messages : Messages
        Sums under the chain.
    transition_jk : [K, K]
        Its transitions.
    path : [N]
        Tags whose spans these are.
    first : [N]
        Marks the first token of every sequence.
    """
    begin, inside = tags.beginning(spans.kind), tags.following(spans.kind)
    long = spans.end > spans.start
    last = np.where(long, inside, -1)
    total = np.zeros(len(spans))
    for tag, weight in (
        (begin, _at(messages.alpha, spans.start, begin)),
        (inside, _loose(messages, transition_jk, first, spans, tags, inside)),
    ):
        total += np.where(
            long,
            weight * _inner(messages, transition_jk, path, first, spans, tag),
            weight * _stops(messages, transition_jk, first, spans, tag, inside),
        )
    total[long] *= _stops(messages, transition_jk, first, spans, last, inside)[long]
    return np.asarray(np.clip(total, 0.0, 1.0))


def _at(table: Floats, token: Integers, tag: Integers) -> Floats:
    """Entries of a table at these tokens and tags; 0 where there is no such tag (-1)."""
    return np.where(tag >= 0, table[token, tag], 0.0)


def _loose(messages: Messages, transition_jk: Floats, first: Flags, spans: Spans, tags: Tags, inside: Integers) -> Floats:
    """Forward sum of I-X at the start of a span: as first token of a sequence, or after a tag of another type."""
    token = spans.start
    before = messages.alpha[token - 1] * (tags.kind != spans.kind[:, None])
    sums = (before * transition_jk.T[inside]).sum(axis=1) * messages.emission[token, inside] / messages.scale[token]
    return np.where(inside >= 0, np.where(first[token], messages.alpha[token, inside], sums), 0.0)


def _inner(messages: Messages, transition_jk: Floats, path: Integers, first: Flags, spans: Spans, tag: Integers) -> Floats:
    """Weight of the tokens after the first one of every span that has such, given the tag of the first."""
    here = np.flatnonzero(~first)
    log_own = np.log(messages.emission[np.arange(len(path)), path]) - np.log(messages.scale)
    log_step = log_own.copy()
    log_step[here] += log_floored(transition_jk[path[here - 1], path[here]])
    run = np.cumsum(log_step)
    second = np.minimum(spans.start + 1, spans.end)
    inner = np.exp(log_own[second] + run[spans.end] - run[second])
    return np.where(tag >= 0, transition_jk[tag, path[second]] * inner, 0.0)


def _stops(messages: Messages, transition_jk: Floats, first: Flags, spans: Spans, tag: Integers, inside: Integers) -> Floats:
    """Backward sum after spans that end with `tag`, without what would make them go on."""
    stops = np.ones(len(spans))
    inner = np.flatnonzero(~np.append(first, True)[spans.end + 1])
    token = spans.end[inner] + 1
    after = transition_jk[tag[inner]] * messages.emission[token] * messages.beta[token]
    has = np.flatnonzero(inside[inner] >= 0)
    after[has, inside[inner][has]] = 0.0
    stops[inner] = after.sum(axis=1) / messages.scale[token]
    return stops
