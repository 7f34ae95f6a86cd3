"""Compiled loops over the votes of single items: what one update of an online method costs.

An item's votes are a linked list: ``head[n]`` is its latest vote and ``before[e]`` the one before vote e, -1 at the end.

A vote that was counted has a turn: it was the turn-th vote of its annotator. Its present weight in the annotator's counts
follows from that turn and from how many votes the annotator has given by now,

    weight(t, now) = gain[t] exp(fade[now] - fade[t])        (1 where the tables are empty: nothing is forgotten)

so an item can be visited again at any time and its old posterior taken out of the counts exactly.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.online.records import Arrays, Memory, Rules

__all__ = ["append", "averaged_weights", "digamma", "opinions", "recount", "visit"]

# Divisions by zero follow numpy; sums keep their order, so that a run repeats to the bit.
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


_FLOOR = 1e-300


@compiled
def digamma(x: float) -> float:
    """Digamma of a positive number: recurrence up to ten, then the asymptotic series."""
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760 - y / 12))))))
    return shift + math.log(x) - 0.5 / x - series


@compiled
def _weight(gain: Floats, fade: Floats, turn: int, now: int) -> float:
    if len(gain) == 0:
        return 1.0
    return float(gain[turn] * math.exp(fade[now] - fade[turn]))


@compiled
def append(start: int, stop: int, arrays: Arrays) -> None:
    """Hang the votes start:stop into the lists of their items."""
    for e in range(start, stop):
        n = arrays.item[e]
        arrays.before[e] = arrays.head[n]
        arrays.head[n] = e


@compiled
def _infer(n: int, arrays: Arrays, rules: Rules, held: bool, scores: Floats) -> int:
    """Posterior of item n under the present counts, into `scores`; return how many votes were read."""
    n_classes = len(scores)
    # Running averages are shares of all items, of which pseudo-items are so many in `clock`.
    share = 1.0 if rules.expected_logs else 1.0 / max(arrays.clock[0], 1)
    mass = 0.0
    for k in range(n_classes):
        scores[k] = rules.class_prior[k] * share + (0.0 if held else max(arrays.shares[k], 0.0))
        mass += scores[k]
    for k in range(n_classes):
        if len(rules.fixed):
            scores[k] = rules.fixed[k]
        elif rules.expected_logs:
            scores[k] = digamma(scores[k]) - digamma(mass)
        else:
            scores[k] = math.log(max(scores[k] / mass, _FLOOR))
    n_read = 0
    e = arrays.head[n]
    while e >= 0:
        a, l = arrays.annotator[e], arrays.label[e]
        w = arrays.weight[e] if len(arrays.weight) else 1.0
        share = 1.0 if rules.expected_logs else 1.0 / max(arrays.turns[a], 1)
        # The annotator's labels so far, and one pseudo-vote for each.
        own, use = share, share * n_classes
        if rules.own > 0 and not held:
            own += arrays.used[a, l]
            for j in range(n_classes):
                use += arrays.used[a, j]
        for k in range(n_classes):
            row, total = rules.prior[l, k], rules.prior_total[k]
            if rules.own > 0:
                row += rules.own * own / use
                total += rules.own
            if len(rules.history):
                row += rules.history[a, l, k]
                total += rules.history_total[a, k]
            row *= share
            total *= share
            if not held:
                # Rounding may leave a count a hair below zero when what was added is taken out again.
                row += max(arrays.counts[a, l, k], 0.0)
                total += max(arrays.totals[a, k], 0.0)
            if rules.expected_logs:
                scores[k] += w * (digamma(row) - digamma(total))
            else:
                scores[k] += w * math.log(max(row / total, _FLOOR))
        n_read += 1
        e = arrays.before[e]
    top = scores[0]
    for k in range(1, n_classes):
        top = max(top, scores[k])
    whole = 0.0
    for k in range(n_classes):
        scores[k] = math.exp(scores[k] - top)
        whole += scores[k]
    for k in range(n_classes):
        scores[k] /= whole
    if arrays.known[n] >= 0:
        for k in range(n_classes):
            scores[k] = 1.0 if k == arrays.known[n] else 0.0
    return n_read


@compiled
def _count(n: int, arrays: Arrays, memory: Memory, q: Floats) -> float:
    """Take the old posterior of item n out of all counts and put `q` in; return the share of probability that moved."""
    n_classes = len(q)
    old = arrays.posterior[n]
    change = 0.0
    for k in range(n_classes):
        change += 0.5 * abs(q[k] - old[k])
    if arrays.arrival[n] == 0:
        arrays.clock[0] += 1
        t = arrays.clock[0]
        arrays.arrival[n] = t
        kept, gain = 1.0, 1.0
        if len(memory.item_gain):
            kept, gain = math.exp(memory.item_fade[t] - memory.item_fade[t - 1]), memory.item_gain[t]
        for k in range(n_classes):
            arrays.shares[k] = kept * arrays.shares[k] + gain * q[k]
    else:
        w = _weight(memory.item_gain, memory.item_fade, arrays.arrival[n], arrays.clock[0])
        for k in range(n_classes):
            arrays.shares[k] += w * (q[k] - old[k])
    e = arrays.head[n]
    while e >= 0:
        a, l = arrays.annotator[e], arrays.label[e]
        w = arrays.weight[e] if len(arrays.weight) else 1.0
        if arrays.turn[e] == 0 and w > 0:
            arrays.turns[a] += 1
            t = arrays.turns[a]
            arrays.turn[e] = t
            if len(memory.gain):
                kept = math.exp(memory.fade[t] - memory.fade[t - 1])
                for k in range(n_classes):
                    arrays.used[a, k] *= kept
                    arrays.totals[a, k] *= kept
                    for j in range(n_classes):
                        arrays.counts[a, j, k] *= kept
                w *= memory.gain[t]
            arrays.used[a, l] += w
            for k in range(n_classes):
                arrays.counts[a, l, k] += w * q[k]
                arrays.totals[a, k] += w * q[k]
        elif w > 0:
            w *= _weight(memory.gain, memory.fade, arrays.turn[e], arrays.turns[a])
            for k in range(n_classes):
                arrays.counts[a, l, k] += w * (q[k] - old[k])
                arrays.totals[a, k] += w * (q[k] - old[k])
        e = arrays.before[e]
    for k in range(n_classes):
        old[k] = q[k]
    return change


@compiled
def visit(items: Integers, batch: int, arrays: Arrays, memory: Memory, rules: Rules) -> tuple[int, float]:
    """Visit items in turn: posteriors of `batch` items under the present counts, then these into the counts.

    Returns
    -------
    n_read : int
        Votes read, the measure of the work done.
    change : float
        Sum over items of the share of their probability that moved.
    """
    n_classes = arrays.posterior.shape[1]
    held_back = np.empty((batch, n_classes))
    n_read, change = 0, 0.0
    for start in range(0, len(items), batch):
        stop = min(start + batch, len(items))
        held = arrays.clock[0] < rules.hold
        for i in range(start, stop):
            n_read += _infer(items[i], arrays, rules, held, held_back[i - start])
        for i in range(start, stop):
            change += _count(items[i], arrays, memory, held_back[i - start])
    return n_read, change


@compiled
def recount(n_votes: int, n_items: int, arrays: Arrays, memory: Memory) -> None:
    """Give votes and items their turns in the order of their codes, and add up all counts again from the posteriors."""
    n_classes = arrays.posterior.shape[1]
    arrays.counts[:] = 0.0
    arrays.totals[:] = 0.0
    arrays.used[:] = 0.0
    arrays.shares[:] = 0.0
    arrays.turns[:] = 0
    arrays.clock[0] = 0
    for e in range(n_votes):
        n = arrays.item[e]
        if len(arrays.weight) == 0 or arrays.weight[e] > 0:
            arrays.turns[arrays.annotator[e]] += 1
            arrays.turn[e] = arrays.turns[arrays.annotator[e]]
            arrays.arrival[n] = 1
    for n in range(n_items):
        if arrays.arrival[n] > 0 or arrays.known[n] >= 0:
            arrays.clock[0] += 1
            arrays.arrival[n] = arrays.clock[0]
    for n in range(n_items):
        if arrays.arrival[n] > 0:
            w = _weight(memory.item_gain, memory.item_fade, arrays.arrival[n], arrays.clock[0])
            for k in range(n_classes):
                arrays.shares[k] += w * arrays.posterior[n, k]
    for e in range(n_votes):
        a, l, n = arrays.annotator[e], arrays.label[e], arrays.item[e]
        if arrays.turn[e] == 0:
            continue
        w = arrays.weight[e] if len(arrays.weight) else 1.0
        w *= _weight(memory.gain, memory.fade, arrays.turn[e], arrays.turns[a])
        arrays.used[a, l] += w
        for k in range(n_classes):
            arrays.counts[a, l, k] += w * arrays.posterior[n, k]
            arrays.totals[a, k] += w * arrays.posterior[n, k]


@compiled
def opinions(items: Integers, arrays: Arrays, rules: Rules) -> Floats:
    """Posterior of items under the present counts, [len(items), K]; nothing is counted."""
    answer = np.empty((len(items), arrays.posterior.shape[1]))
    for i in range(len(items)):
        _infer(items[i], arrays, rules, arrays.clock[0] < rules.hold, answer[i])
    return answer


@compiled
def averaged_weights(
    turn: Integers, annotator: Integers, turns: Integers, since: Integers, gain: Floats, fade: Floats
) -> tuple[Floats, Floats]:
    """Weight of every counted vote in the sum of its annotator's counts over the turns after `since`, [E].

    The sum over now = t ... T of weight(t, now) is gain[t] times that of exp(fade[now] - fade[t]), which one pass
    backwards gives: S(t) = 1 + exp(fade[t + 1] - fade[t]) S(t + 1), S(T) = 1.

    Also returns what counts of before weigh in it, [A]: the sum over now = since + 1 ... T of exp(fade[now] - fade[since]).
    """
    weights, faded = np.zeros(len(turn)), np.zeros(len(turns))
    n_annotators = len(turns)
    first = np.zeros(n_annotators + 1, np.int64)
    for a in range(n_annotators):
        first[a + 1] = first[a] + turns[a] - since[a]
    sums = np.empty(first[n_annotators])
    for a in range(n_annotators):
        following = 0.0
        for t in range(turns[a], since[a], -1):
            kept = math.exp(fade[t + 1] - fade[t]) if t < turns[a] else 0.0
            following = 1.0 + kept * following
            sums[first[a] + t - since[a] - 1] = following
        if turns[a] > since[a]:
            faded[a] = math.exp(fade[since[a] + 1] - fade[since[a]]) * following
    for e in range(len(turn)):
        a = annotator[e]
        if turn[e] > since[a]:
            weights[e] = gain[turn[e]] * sums[first[a] + turn[e] - since[a] - 1]
    return weights, faded
