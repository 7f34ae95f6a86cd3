"""Compiled loops of models with more latent states than classes (`ebcc`). Imported only where there are enough votes for it.

A state stands for `times` equal subtypes of its class. Where an item surely is not in a state, the state gets no count of its
votes, so most counts are exactly zero or tiny. Digammas are taken of the others only; for tiny ones, Taylor's first terms are
exact.

Symbols
-------
counts_als : [A, L, S]   expected counts, summed over the subtypes of a state
table_als : [A, L, S]    exp E log v of one subtype
prior_alk : [1 or A, L, K]   Dirichlet parameters before any vote
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = ["infer_and_count", "psi_and_log_gamma", "tables_of_counts"]

# Sums over states may be taken in any order, which is what lets them run in vector registers.
compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})

# Less than this of an item counts as none of it.
_NOTHING = 1e-14
# Counts below this share of the prior are followed by Taylor's first terms, exact to rounding.
_TINY = 1e-5
# As in `loops`: below this sum a product may have lost digits; log(0) is that of the floor.
_SAFE_SUM, _FLOOR = 1e-250, 1e-300
_ASYMPTOTIC = 8.0
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@compiled
def psi_and_log_gamma(x: float) -> tuple[float, float]:
    """Digamma and log-gamma of x > 0, by recurrence up to 8 and the first terms of Stirling's series there."""
    product, slope = 1.0, 0.0
    while x < _ASYMPTOTIC:
        # (f x)' = f' x + f: the sum of reciprocals is slope / product, with one division.
        slope = slope * x + product
        product *= x
        x += 1.0
    log_x, r = math.log(x), 1.0 / x
    s = r * r
    psi = log_x - r * (
        0.5 + r * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760 - s / 12))))))
    )
    tail = r * (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * (691 / 360360 - s / 156))))))
    log_gamma = (x - 0.5) * log_x - x + _HALF_LOG_2PI + tail
    return psi - slope / product, log_gamma - math.log(product)


@compiled
def _second_derivatives(x: float) -> tuple[float, float]:
    """Trigamma and tetragamma of x > 0."""
    one, two = 0.0, 0.0
    while x < _ASYMPTOTIC:
        one += 1.0 / (x * x)
        two -= 2.0 / (x * x * x)
        x += 1.0
    r = 1.0 / x
    s = r * r
    one += r * (1.0 + r * (0.5 + r * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * 5 / 66))))))
    two -= s * (1.0 + r * (1.0 + r * (0.5 - s * (1 / 6 - s * (1 / 6 - s * (0.3 - s * 5 / 6))))))
    return one, two


@compiled
def _prior_terms(prior: Floats, class_s: Integers, terms: Floats, totals: Floats) -> None:
    """By state: prior, psi, its exponential, psi', psi'' and log-gamma of each label, [6, L, S]; of their sums, [3, S]."""
    for s in range(len(class_s)):
        total = 0.0
        for j in range(len(prior)):
            x = prior[j, class_s[s]]
            total += x
            psi, log_gamma = psi_and_log_gamma(x)
            one, two = _second_derivatives(x)
            terms[0, j, s], terms[1, j, s], terms[2, j, s] = x, psi, math.exp(psi)
            terms[3, j, s], terms[4, j, s], terms[5, j, s] = one, two, log_gamma
        psi, log_gamma = psi_and_log_gamma(total)
        totals[0, s], totals[1, s], totals[2, s] = total, psi, log_gamma


@compiled
def tables_of_counts(counts_als: Floats, prior_alk: Floats, class_s: Integers, times_s: Floats, table_als: Floats) -> float:
    """Write exp E log v of every state; return the KL of all subtypes' rows from their priors."""
    n_annotators, n_labels, n_states = counts_als.shape
    terms, totals = np.empty((6, n_labels, n_states)), np.empty((3, n_states))
    total, psi_total, scale, divergence = np.empty(n_states), np.empty(n_states), np.empty(n_states), np.empty(n_states)
    kl = 0.0
    for a in range(n_annotators):
        if a == 0 or len(prior_alk) > 1:
            _prior_terms(prior_alk[a], class_s, terms, totals)
        counts, table = counts_als[a], table_als[a]
        total[:] = 0.0
        for j in range(n_labels):
            for s in range(n_states):
                total[s] += counts[j, s]
        for s in range(n_states):
            psi_total[s], divergence[s] = totals[1, s], 0.0
            if total[s] > 0:
                psi_total[s], log_gamma = psi_and_log_gamma(totals[0, s] + total[s] / times_s[s])
                divergence[s] = log_gamma - totals[2, s]
            scale[s] = math.exp(-psi_total[s])
        for j in range(n_labels):
            for s in range(n_states):
                table[j, s] = terms[2, j, s] * scale[s]
            for s in range(n_states):
                if counts[j, s] == 0:
                    continue
                own = counts[j, s] / times_s[s]
                if own < _TINY * terms[0, j, s]:
                    more = own * (terms[3, j, s] + 0.5 * own * terms[4, j, s])
                    table[j, s] *= 1.0 + more * (1.0 + 0.5 * more)
                    psi, gain = terms[1, j, s] + more, own * (terms[1, j, s] + 0.5 * own * terms[3, j, s])
                else:
                    psi, log_gamma = psi_and_log_gamma(terms[0, j, s] + own)
                    table[j, s], gain = math.exp(psi - psi_total[s]), log_gamma - terms[5, j, s]
                divergence[s] += own * (psi - psi_total[s]) - gain
        for s in range(n_states):
            kl += times_s[s] * divergence[s]
    return kl


@compiled
def _scores_in_logs(first: int, last: int, row: Integers, weight: Floats, table: Floats, prior: Floats, score: Floats) -> float:
    """Products of an item's votes by sums of (weighted) logs, divided by the largest; return the log of that."""
    top = -np.inf
    for s in range(len(score)):
        score[s] = math.log(max(prior[s], _FLOOR))
    for e in range(first, last):
        w = weight[e] if len(weight) else 1.0
        for s in range(len(score)):
            score[s] += w * math.log(max(table[row[e], s], _FLOOR))
    for s in range(len(score)):
        if prior[s] > 0:
            top = max(top, score[s])
    for s in range(len(score)):
        score[s] = math.exp(score[s] - top) if prior[s] > 0 else 0.0
    return top


@compiled
def infer_and_count(
    start: int,
    stop: int,
    item_ptr: Integers,
    row: Integers,
    weight: Floats,
    table: Floats,
    prior_s: Floats,
    even_s: Floats,
    class_s: Integers,
    silent: Flags,
    known: Integers,
    xi_ns: Floats,
    counts: Floats,
    mass: Floats,
) -> tuple[float, float]:
    """Posterior of the states of each item, and its counts: [A L, S] by vote, `mass` [2, S] of items with votes and without.

    `prior_s` holds for items with votes, `even_s` for `silent` ones. Returns log-evidence and change, as in `loops`.
    """
    n_states = len(prior_s)
    score, own, active = np.empty(n_states), np.empty(n_states), np.empty(n_states, np.int64)
    evidence, change = 0.0, 0.0
    for n in range(start, stop):
        base, place = (even_s, 1) if silent[n] else (prior_s, 0)
        given = known[n] if len(known) else -1
        for s in range(n_states):
            own[s] = base[s] if given < 0 or class_s[s] == given else 0.0
            score[s] = own[s]
        first, last = item_ptr[n], item_ptr[n + 1]
        shift, total = 0.0, 0.0
        if len(weight) == 0:
            for e in range(first, last):
                r = row[e]
                for s in range(n_states):
                    score[s] *= table[r, s]
            for s in range(n_states):
                total += score[s]
        if total <= _SAFE_SUM:
            shift = _scores_in_logs(first, last, row, weight, table, own, score)
            total = 0.0
            for s in range(n_states):
                total += score[s]
        evidence += shift + math.log(total)
        inverse, moved, n_active = 1.0 / total, 0.0, 0
        for s in range(n_states):
            score[s] *= inverse
            moved += abs(score[s] - xi_ns[n, s])
            xi_ns[n, s] = score[s]
            mass[place, s] += score[s]
        for s in range(n_states):
            if score[s] > _NOTHING:
                active[n_active] = s
                n_active += 1
        change += 0.5 * moved
        for e in range(first, last):
            r = row[e]
            w = weight[e] if len(weight) else 1.0
            for i in range(n_active):
                counts[r, active[i]] += w * score[active[i]]
    return evidence, change
