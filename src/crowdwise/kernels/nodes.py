"""Likelihoods of votes at the nodes of a rule of integration, for many pairs at once.

Pairs of one pattern share their likelihoods, so common patterns (one vote for a class) are matrix
products; what is left is computed pair by pair, in blocks.

Symbols
-------
node : [S] accuracies with uniform errors, or [S, L, K] tables of P(observed l | true k)
likelihood_csj : [C, S, J]   of pattern c in state j, divided by its largest entry, whose log is `shift_c`
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.kernels.numerics import FLOOR, in_ranges, log_floored
from crowdwise.kernels.pairs import Pairs
from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = ["NodeLikelihood", "log_products", "send_in_ranges", "without"]


_BLOCK = 1 << 20


# Products of this many factors cannot underflow where each is above the bound beside it.
_AT_ONCE, _SAFE_FACTOR = 8, 1e-30
# Above this, dividing probabilities loses nothing that a division of logs would keep.
_SAFE_DIVISOR = 1e-100


def log_products(factor_ps: Floats, shift_p: Floats, first: Integers) -> Floats:
    """Sums of log-factors (and shifts) over the runs of rows that start at `first`, [len(first), S]."""
    if factor_ps.min(initial=1.0) < _SAFE_FACTOR:
        log_sums = np.add.reduceat(np.log(factor_ps), first, axis=0)
    else:
        # A logarithm costs as much as many products: take one per few rows.
        length = np.diff(np.append(first, len(factor_ps)))
        groups = -(-length // _AT_ONCE)
        run_start = np.cumsum(groups) - groups
        within = np.arange(groups.sum()) - np.repeat(run_start, groups)
        products = np.multiply.reduceat(factor_ps, np.repeat(first, groups) + _AT_ONCE * within, axis=0)
        log_sums = np.add.reduceat(np.log(products, out=products), run_start, axis=0)
    return np.asarray(log_sums + np.add.reduceat(shift_p, first)[:, None])


def without(log_post_us: Floats, length: Integers, factor_ps: Floats) -> Floats:
    """Node weights with one factor taken out, [P, S], up to a constant per row; overwrites `factor_ps`.

    Row u of the weights belongs to the next `length[u]` rows of factors.
    """
    if factor_ps.min(initial=1.0) >= _SAFE_DIVISOR:
        return np.asarray(np.divide(np.repeat(np.exp(log_post_us), length, axis=0), factor_ps, out=factor_ps))
    log_cavity = np.repeat(log_post_us, length, axis=0) - np.log(factor_ps)
    return np.asarray(np.exp(log_cavity - log_cavity.max(axis=1, keepdims=True)))


def send_in_ranges(
    bounds: Integers,
    pattern: Integers,
    incoming: Floats,
    likelihood: Floats,
    in_logs: Flags,
    weight: Floats,
    total: Floats,
    sent: Floats,
) -> bool:
    """`loops.send_messages` for ranges of annotators, in threads if it pays."""
    from crowdwise.kernels.loops import send_messages

    def send(start: int, stop: int) -> bool:
        own = in_logs[start:stop], weight[start:stop], total[start:stop]
        return bool(send_messages(bounds[start : stop + 1], pattern, incoming, likelihood, *own, sent))

    return all(in_ranges(bounds, send))


class NodeLikelihood:
    """Likelihoods at one rule's nodes."""

    def __init__(self, node: Floats, log_weight: Floats, n_classes: int) -> None:
        self.node, self.log_weight, self.n_classes = node, log_weight, n_classes
        if node.ndim == 3:
            self._log_node = log_floored(node)
        elif n_classes == 1:
            # With one class every vote is right, whatever the accuracy.
            self._log_node = np.zeros((len(node), 2))
        else:
            self._log_node = log_floored(np.column_stack([node, (1 - node) / (n_classes - 1)]))
        self._common: tuple[Pairs, Floats, Floats] | None = None

    def of_counts(self, counts_alk: Floats) -> Floats:
        """Log-likelihood of answers to items whose class is known, [A, S]."""
        if self.node.ndim == 3:
            return np.asarray(counts_alk.reshape(len(counts_alk), -1) @ self._log_node.reshape(len(self.node), -1).T)
        right = np.einsum("akk->a", counts_alk)
        return np.asarray(np.column_stack([right, counts_alk.sum(axis=(1, 2)) - right]) @ self._log_node.T)

    def of_common(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """Scaled likelihoods of the common patterns, [C, J, S], and the logs of their scales."""
        likelihood_csj, shift = self._of_patterns(pairs, np.arange(pairs.common))
        return np.ascontiguousarray(likelihood_csj.transpose(0, 2, 1)), shift

    def factor(self, pairs: Pairs, index: Integers, incoming_pj: Floats) -> tuple[Floats, Floats]:
        """sum_j incoming_j L_sj of the pairs at `index`, [len(index), S], and the logs of the scales it was divided by.

        Never below the library's floor, so that a factor of zero can be divided out again.
        """
        factor, shift = np.empty((len(index), len(self.node))), np.empty(len(index))
        pattern = pairs.pattern[index]
        for rows, likelihood_sj, log_top in self._by_common(pairs, pattern):
            factor[rows] = incoming_pj[rows] @ likelihood_sj.T
            shift[rows] = log_top
        for rows, likelihood_psj, log_tops in self._by_pair(pairs, pattern):
            factor[rows] = np.einsum("psj,pj->ps", likelihood_psj, incoming_pj[rows])
            shift[rows] = log_tops
        np.maximum(factor, FLOOR, out=factor)
        return factor, shift

    def log_message(self, pairs: Pairs, index: Integers, cavity_ps: Floats) -> Floats:
        """log of the mean of L_sj under weights of the nodes, of the pairs at `index`, [len(index), J]."""
        message, shift = np.empty((len(index), pairs.n_states)), np.empty(len(index))
        pattern = pairs.pattern[index]
        for rows, likelihood_sj, log_top in self._by_common(pairs, pattern):
            message[rows] = cavity_ps[rows] @ likelihood_sj
            shift[rows] = log_top
        for rows, likelihood_psj, log_tops in self._by_pair(pairs, pattern):
            message[rows] = np.einsum("psj,ps->pj", likelihood_psj, cavity_ps[rows])
            shift[rows] = log_tops
        message /= cavity_ps.sum(axis=1, keepdims=True)
        return log_floored(message) + shift[:, None]

    def _by_common(self, pairs: Pairs, pattern: Integers) -> Any:
        """Yield rows of each common pattern with its likelihood, [S, J]."""
        if self._common is None or self._common[0] is not pairs:
            self._common = (pairs, *self._of_patterns(pairs, np.arange(pairs.common)))
        _, likelihood, shift = self._common
        present = np.bincount(pattern, minlength=pairs.common)[: pairs.common]
        for c in np.flatnonzero(present).tolist():
            # A slice spares copying where all pairs are alike.
            rows = slice(None) if present[c] == len(pattern) else np.flatnonzero(pattern == c)
            yield rows, likelihood[c], shift[c]

    def _by_pair(self, pairs: Pairs, pattern: Integers) -> Any:
        """Yield blocks of rows with rare patterns and their likelihoods, [P, S, J]."""
        rare = np.flatnonzero(pattern >= pairs.common)
        step = max(_BLOCK // (len(self.node) * pairs.n_states), 1)
        for start in range(0, len(rare), step):
            rows = rare[start : start + step]
            yield (rows, *self._of_patterns(pairs, pattern[rows]))

    def _of_patterns(self, pairs: Pairs, code: Integers) -> tuple[Floats, Floats]:
        """Scaled likelihoods [len(code), S, J] of these patterns, and the logs of their scales."""
        count = pairs.counts[code]
        if self.node.ndim == 3:
            log_l = np.tensordot(count, self._log_node, axes=(1, 1))
        else:
            right, wrong = self._log_node.T
            # The last state, any other class, has no right answers.
            hits = np.append(count, np.zeros((len(count), 1)), axis=1)[:, None, :]
            total = count.sum(axis=1)[:, None, None]
            log_l = hits * right[:, None] + (total - hits) * wrong[:, None]
        shift = log_l.max(axis=(1, 2), initial=-np.inf)
        return np.exp(log_l - shift[:, None, None]), shift
