"""Annotators in groups that share their errors: a confusion matrix per group, and one per member below it.

A group j sees a label of its own, c_nj ~ Xi_j[z_n, :], and its members answer from that one,
y_na ~ pi_a[c_nj, :]. The rest answer from the true class: they are one more group, whose Xi is fixed
at the identity, so that all are handled alike. Given the parameters, inference is exact (a tree):

    lambda_pc = prod over votes of the pair p = (item n, group j) of pi_a[c, y]
    mu_pk     = sum_c Xi_j[k, c] lambda_pc                log q_nk = log d_k + sum_p log mu_pk + const
    q(z = k, c_p = c) = q_nk Xi_j[k, c] lambda_pc / mu_pk

Symbols
-------
pi_alc : [A, L, C]      P(observed l | what the group saw, c); sums to one over l
xi_jkc : [J + 1, K, C]  P(group sees c | true k); the last is the identity of those without a group
group_a : [A]           group of every annotator; J for none
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable, within
from crowdwise.kernels.numerics import (
    COMPILED_FROM,
    NO_WEIGHT,
    confusion_counts,
    in_ranges,
    log_floored,
    segment_sum,
    softmax_into,
)
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import (
    WithoutPosterior,
    counts_of,
    normalised,
    table_log_lik,
    taken,
    taken_unless_shared,
)

__all__ = ["GroupConfusion"]

_Sorted = tuple[Integers, Integers, Integers, Integers, Floats]
# Votes sorted by the groups of a fit, kept as long as the votes live: every round needs them.
_LAYOUTS: WeakKeyDictionary[Annotations, tuple[Integers, _Sorted]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class _Layout:
    """Votes by (item, group): pair p holds the votes order[ptr[p]:ptr[p + 1]] of an item by members of a group."""

    order: Integers
    ptr: Integers
    item: Integers
    group: Integers


@storable
@dataclass(frozen=True, eq=False)
class GroupConfusion(WithoutPosterior):
    """Confusion matrices of groups and of their members, as points (MAP steps under Dirichlet priors)."""

    prior_alk: Floats
    prior_kc: Floats
    pi_alc: Floats
    xi_jkc: Floats
    pooled_lk: Floats
    group_a: Integers

    @classmethod
    def start(cls, prior_alk: Floats, prior_kc: Floats, group_a: Integers) -> GroupConfusion:
        """Before any data: members uniform, groups at the mean of their prior; `group_a` has -1 for those without one."""
        n_annotators, n_classes = len(group_a), prior_alk.shape[1]
        n_groups = int(group_a.max(initial=-1)) + 1
        flat = np.full((n_classes, n_classes), 1 / n_classes)
        xi = (prior_kc + 1) / (prior_kc + 1).sum(axis=1, keepdims=True)
        xi_jkc = np.concatenate([np.repeat(xi[None], n_groups, axis=0), np.eye(n_classes)[None]])
        group_a = np.where(group_a < 0, n_groups, group_a)
        return cls(prior_alk, prior_kc, np.repeat(flat[None], n_annotators, axis=0), xi_jkc, flat, group_a)

    @property
    def n_groups(self) -> int:
        """Groups, not counting those who have none."""
        return len(self.xi_jkc) - 1

    def fits(self, votes: Annotations) -> bool:
        """Whether indices read from a file stay within their arrays."""
        return within(self.group_a, -1, len(self.xi_jkc))

    def update(self, votes: Annotations, posterior: Floats) -> GroupConfusion:
        """M-step from the joint posterior of labels and of what the groups saw, under the current values."""
        if votes.n_votes >= COMPILED_FROM:
            counts, counts_jkc, pooled = self._counts_in_ranges(votes, posterior)
        else:
            counts, counts_jkc = self._counts(votes, posterior)
            pooled = counts_of(votes, posterior).sum(axis=0)
        n_classes = votes.n_classes
        counts_alc = counts.reshape(votes.n_annotators, n_classes, n_classes)
        pooled = normalised(pooled + 1 / n_classes)
        xi = normalised((counts_jkc[:-1] + self.prior_kc).transpose(0, 2, 1)).transpose(0, 2, 1)
        xi_jkc = np.concatenate([xi, self.xi_jkc[-1:]])
        return replace(self, pi_alc=normalised(counts_alc + self.prior_alk), xi_jkc=xi_jkc, pooled_lk=pooled)

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step for the labels."""
        if votes.n_votes >= COMPILED_FROM:
            from crowdwise.kernels.group_loops import score_groups

            scores = np.array(np.broadcast_to(log_prior, posterior.shape))
            arrays = (*self._sorted_votes(votes), log_floored(self.pi_alc).reshape(-1, votes.n_classes), self.xi_jkc, scores)
            in_ranges(arrays[0], lambda start, stop: score_groups(start, stop, *arrays))
            return softmax_into(scores, known, posterior)
        layout = self._layout(votes)
        log_mu = self._log_mu(self._log_lambda(votes, layout), layout.group)
        n_items, n_classes = posterior.shape
        cell = layout.item[:, None] * n_classes + np.arange(n_classes)
        scores = segment_sum(cell.ravel(), log_mu.ravel(), n_items * n_classes).reshape(n_items, n_classes)
        return softmax_into(scores + log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of each vote, [len(index), K]; the votes of a group on an item sum to the group's exact evidence.

        A vote gets what it would say alone, and an even share of the group's correction for counting
        the same error more than once.
        """
        index = np.asarray(index)
        # Masks become positions, so that votes of one pair can be told by their place in `index`.
        index = np.flatnonzero(index) if index.dtype == bool else index
        log_pi = log_floored(self.pi_alc)
        group, item = self.group_a[votes.annotator[index]], votes.item[index].astype(np.int64)
        rows = table_log_lik(votes, index, log_pi)
        alone = self._log_mu(rows, group)
        key, pair = np.unique(item * len(self.xi_jkc) + group, return_inverse=True)
        n_classes = votes.n_classes
        weight = votes.weights[index]
        cell = (pair[:, None] * n_classes + np.arange(n_classes)).ravel()
        size = len(key) * n_classes
        joint = self._log_mu(segment_sum(cell, rows.ravel(), size).reshape(-1, n_classes), key % len(self.xi_jkc))
        correction = joint - segment_sum(cell, alone.ravel(), size).reshape(-1, n_classes)
        total = segment_sum(pair, weight, len(key))[pair]
        share = np.where(total > 0, weight / np.where(total > 0, total, 1.0), 0.0)
        return np.asarray(alone + share[:, None] * correction[pair])

    def penalty(self) -> float:
        """Minus the log-density of the Dirichlet rows of members and groups, up to their constants."""
        members = (self.prior_alk * log_floored(self.pi_alc)).sum()
        return float(-members - (self.prior_kc * log_floored(self.xi_jkc[:-1])).sum())

    def aligned(self, index: Integers, item_index: Integers) -> GroupConfusion:
        """Reorder; an annotator never seen has the pooled matrix and no group."""
        return replace(
            self,
            prior_alk=taken_unless_shared(self.prior_alk, index),
            pi_alc=taken(self.pi_alc, index, self.pooled_lk),
            group_a=taken(self.group_a, index, self.n_groups),
        )

    def confusion(self) -> Floats:
        """P(observed | true class), through the group, [A, K, L]."""
        return np.asarray(np.einsum("akc,alc->akl", self.xi_jkc[self.group_a], self.pi_alc))

    def _counts(self, votes: Annotations, posterior: Floats) -> tuple[Floats, Floats]:
        """Expected counts of members [A L, C] and of groups [J + 1, K, C]."""
        layout = self._layout(votes)
        log_lambda = self._log_lambda(votes, layout)
        log_lambda -= log_lambda.max(axis=1, keepdims=True, initial=-np.inf)
        lambda_pc, q_pk = np.exp(log_lambda), posterior[layout.item]
        seen_pc = np.zeros_like(lambda_pc)
        counts_jkc = np.zeros_like(self.xi_jkc)
        for j, rows in enumerate(self._rows_of_groups(layout.group)):
            xi_kc, lambda_rc = self.xi_jkc[j], lambda_pc[rows]
            mu = lambda_rc @ xi_kc.T
            share_rk = q_pk[rows] / np.where(mu > 0, mu, 1.0)
            seen_pc[rows] = lambda_rc * (share_rk @ xi_kc)
            counts_jkc[j] = xi_kc * (share_rk.T @ lambda_rc)
        weight = NO_WEIGHT if votes.weight is None else votes.weight[layout.order]
        n_rows = votes.n_annotators * votes.n_classes
        return confusion_counts(layout.ptr, votes.row[layout.order], weight, seen_pc, n_rows), counts_jkc

    def _counts_in_ranges(self, votes: Annotations, posterior: Floats) -> tuple[Floats, Floats, Floats]:
        """The same in compiled loops, and the counts of all annotators together, [L, K]."""
        from crowdwise.kernels.group_loops import count_groups

        n_classes = votes.n_classes
        arrays = (*self._sorted_votes(votes), log_floored(self.pi_alc).reshape(-1, n_classes), self.xi_jkc, posterior)

        def count(start: int, stop: int) -> tuple[Floats, Floats, Floats]:
            shapes = (votes.n_annotators * n_classes, n_classes), self.xi_jkc.shape, (n_classes, n_classes)
            sums = np.zeros(shapes[0]), np.zeros(shapes[1]), np.zeros(shapes[2])
            count_groups(start, stop, *arrays, *sums)
            return sums

        members, groups, pooled = (np.asarray(sum(part)) for part in zip(*in_ranges(arrays[0], count), strict=True))
        return members, groups, pooled

    def _sorted_votes(self, votes: Annotations) -> _Sorted:
        """Where items begin among pairs, where pairs begin among votes, groups of pairs, and votes sorted by pair."""
        kept = _LAYOUTS.get(votes)
        if kept is None or kept[0] is not self.group_a:
            layout = self._layout(votes)
            item_ptr = np.searchsorted(layout.item, np.arange(votes.n_items + 1))
            weight = NO_WEIGHT if votes.weight is None else votes.weight[layout.order]
            kept = self.group_a, (item_ptr, layout.ptr, layout.group, votes.row[layout.order], weight)
            _LAYOUTS[votes] = kept
        return kept[1]

    def _layout(self, votes: Annotations) -> _Layout:
        key = votes.item.astype(np.int64) * len(self.xi_jkc) + self.group_a[votes.annotator]
        order = np.argsort(key, kind="stable")
        found, start = np.unique(key[order], return_index=True)
        ptr = np.append(start, len(key))
        return _Layout(order, ptr, found // len(self.xi_jkc), found % len(self.xi_jkc))

    def _rows_of_groups(self, group_p: Integers) -> list[Integers]:
        """Positions of the pairs of every group, so that a group's sums are matrix products."""
        order = np.argsort(group_p, kind="stable")
        return np.split(order, np.searchsorted(group_p[order], np.arange(1, len(self.xi_jkc))))

    def _log_lambda(self, votes: Annotations, layout: _Layout) -> Floats:
        """Log-probability of the votes of every pair given what its group saw, [P, C]."""
        if len(layout.item) == 0:
            return np.empty((0, votes.n_classes))
        rows = table_log_lik(votes, layout.order, log_floored(self.pi_alc))
        return np.add.reduceat(rows, layout.ptr[:-1], axis=0)

    def _log_mu(self, log_lambda_pc: Floats, group_p: Integers) -> Floats:
        """log sum_c Xi_j[k, c] lambda_pc, [P, K]; exactly log lambda for those without a group."""
        top = log_lambda_pc.max(axis=1, keepdims=True, initial=-np.inf)
        scaled = np.exp(log_lambda_pc - top)
        log_mu = np.empty_like(log_lambda_pc)
        for xi_kc, rows in zip(self.xi_jkc, self._rows_of_groups(group_p), strict=True):
            log_mu[rows] = log_floored(scaled[rows] @ xi_kc.T)
        log_mu += top
        alone = group_p == self.n_groups
        log_mu[alone] = log_lambda_pc[alone]
        return log_mu
