"""Annotators summed out: messages between items and annotators under any prior of confusion matrices.

With R_a summed out, annotator a is a factor g_a over the labels of all its items, and sum-product
sends along each pair p = (n, a), with L_sp(k) the likelihood of the pair's votes at node s of the prior:

    incoming_p(k)  proportional to  prior_k prod_{b != a} message_(n, b)(k)
    post_a(s)      proportional to  omega_s prod_{p of a} f_sp,     f_sp = sum_k incoming_p(k) L_sp(k)
    message_p(k)   = sum_s cavity_p(s) L_sp(k),                     cavity_p(s) proportional to post_a(s) / f_sp

A message is what the annotator's votes on *other* items say of its vote here: E[L(k) | other votes].
So an item never seen takes the full posterior of its annotators, an item seen in the fit the one
without it, and a fit's own votes get back the fit's posterior. The sum of the items'
log-normalisers and `- penalty()` is Bethe's approximation of log p(votes): exact on trees, no bound
elsewhere.

Symbols
-------
incoming_pj, log_message_pj : [P, J]   by pair and state; see `crowdwise.kernels.pairs`
node : [sum S] accuracies, or [sum S, L, K] tables, of all rules of integration; `rule_ptr` cuts them
rule : [A + 1]                         rule of each annotator; the last entry is for one never seen
log_post : [sum over annotators of S]  weights of the nodes, cut by `row_ptr`; the last row is the prior
who, what : annotator and item of the fit behind those of these votes, -1 for new ones
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import pointers, storable, within
from crowdwise.kernels.nodes import NodeLikelihood, log_products, send_in_ranges, without
from crowdwise.kernels.numerics import log_floored, segment_sum, softmax_into
from crowdwise.kernels.pairs import Pairs, find_pairs, log_dot, pairs_of, row_softmax, scores_of, state_mass, state_rows
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.atoms import matched_concentration
from crowdwise.parts.annotators.model import taken, weight_of
from crowdwise.parts.priors.abilities import NodeRule, expand_accuracy

__all__ = ["BeliefMessages"]


# Numbers held at once per array over pairs and nodes: about 8 MB each.
_BLOCK = 1 << 20
# Pairs times nodes from which compiled loops pay for being loaded.
_COMPILED_FROM = 1 << 18
# Where weights and products of factors can do without logs: pairs of an annotator, and the smallest log-weight.
_FEW_PAIRS, _LEAST_LOG = 8, -100.0
_PAIRS: WeakKeyDictionary[Annotations, dict[bool, Pairs]] = WeakKeyDictionary()


@storable
@dataclass(frozen=True, eq=False)
class BeliefMessages:
    """Messages of one fit, with the votes they belong to."""

    shapes: ClassVar[dict[str, str]] = {
        "item": "e",
        "annotator": "e",
        "label": "e",
        "who": "a",
        "what": "n",
        "log_prior": "s",
        "log_post": "s",
        "log_weight": "m",
    }
    n_classes: int
    damping: float
    node: Floats
    log_weight: Floats
    rule_ptr: Integers
    rule: Integers
    row_ptr: Integers
    log_prior: Floats
    log_post: Floats
    item: Integers
    annotator: Integers
    label: Integers
    weight: Floats
    incoming_pj: Floats
    log_message_pj: Floats
    correction: float
    who: Integers
    what: Integers

    def fits(self, votes: Annotations) -> bool:
        """Whether pointers and indices read from a file stay within their arrays."""
        return (
            self.node.ndim in (1, 3)
            and pointers(self.rule_ptr, len(self.rule_ptr) - 1, len(self.node))
            and len(self.log_weight) == len(self.node)
            and within(self.rule, 0, len(self.rule_ptr) - 1)
            and bool(np.array_equal(self.row_ptr, np.append(0, np.cumsum(np.diff(self.rule_ptr)[self.rule]))))
            and len(self.log_post) == self.row_ptr[-1]
            and within(self.annotator, 0, len(self.rule) - 1)
            and within(self.who, -1, len(self.rule) - 1)
            and within(self.label, 0, self.n_classes)
            and bool((self.item >= 0).all())
            and len(self.weight) in (0, len(self.item))
            and self.incoming_pj.shape == self.log_message_pj.shape
        )

    @classmethod
    def start(
        cls, votes: Annotations, rules: list[NodeRule], rule_a: Integers, history_alk: Floats | None, damping: float
    ) -> BeliefMessages:
        """Before the first round: flat messages, and node weights conditioned on earlier answers."""
        node = np.concatenate([rule.node for rule in rules])
        log_weight = np.concatenate([rule.log_weight for rule in rules])
        rule_ptr = np.cumsum([0, *(len(rule.node) for rule in rules)])
        rule = np.append(rule_a, len(rules) - 1)
        row_ptr = np.append(0, np.cumsum(np.diff(rule_ptr)[rule]))
        part = cls(
            n_classes=votes.n_classes,
            damping=damping,
            node=node,
            log_weight=log_weight,
            rule_ptr=rule_ptr,
            rule=rule,
            row_ptr=row_ptr,
            log_prior=np.empty(row_ptr[-1]),
            log_post=np.empty(0),
            item=votes.item,
            annotator=votes.annotator,
            label=votes.label,
            weight=weight_of(votes),
            incoming_pj=np.empty((0, 0)),
            log_message_pj=np.empty((0, 0)),
            correction=0.0,
            who=np.arange(votes.n_annotators),
            what=np.arange(votes.n_items),
        )
        for r in range(len(rules)):
            likelihood, who = part._likelihood(r), np.flatnonzero(rule == r)
            rows = np.tile(likelihood.log_weight, (len(who), 1))
            if history_alk is not None:
                seen = who < votes.n_annotators
                rows[seen] += likelihood.of_counts(history_alk[who[seen]])
                rows -= row_softmax(rows.copy())[1][:, None]
            part.log_prior[part._cells(who, r)] = rows
        return replace(part, log_post=part.log_prior)

    def update(self, votes: Annotations, posterior: Floats) -> BeliefMessages:
        """One round: what each item says without this annotator, then what each annotator says without this item."""
        pairs = _pairs_of_votes(votes, self._by_class)
        log_incoming = log_floored(state_mass(pairs, posterior))
        if len(self.log_message_pj):
            log_incoming -= self.log_message_pj
        incoming, _ = row_softmax(log_incoming)
        if self.damping and len(self.incoming_pj):
            incoming = (1 - self.damping) * incoming + self.damping * self.incoming_pj
        sent = self._round_compiled(pairs, incoming) or self._round(pairs, incoming)
        log_post, log_total, log_message = sent
        now = replace(self, incoming_pj=incoming, log_post=log_post)
        log_pair = log_dot(incoming, log_message)
        # Bethe: log-normalisers of annotators minus those of pairs; `infer` adds those of items.
        correction = float(log_total.sum() - log_pair.sum())
        return replace(now, log_message_pj=log_message, correction=correction)

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """Beliefs of the items, from the class prior and all messages."""
        pairs, log_message = self._messages(votes)
        scores = scores_of(pairs, log_message, votes.n_items, votes.n_classes)
        scores += log_prior
        return softmax_into(scores, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Log message of each vote, [len(index), K].

        Where a pair has several votes, each has what it would say alone and, by weight, a part of what
        they say together beyond that.
        """
        pairs, log_message = self._messages(votes)
        pair = pairs.of_vote[index]
        rows = state_rows(pairs, pair, log_message, votes.n_classes)
        size = np.bincount(pairs.of_vote, minlength=len(pairs.item))
        shared = np.flatnonzero(size[pair] > 1)
        if len(shared) == 0:
            return rows
        weight = votes.weights
        mates = np.flatnonzero(np.isin(pairs.of_vote, pair[shared]))
        alone = np.zeros((votes.n_votes, votes.n_classes))
        alone[mates] = weight[mates, None] * log_floored(self.confusion()[votes.annotator[mates], :, votes.label[mates]])
        together = np.stack([segment_sum(pairs.of_vote, alone[:, k], len(pairs.item)) for k in range(votes.n_classes)], axis=1)
        total = segment_sum(pairs.of_vote, weight, len(pairs.item))[pair[shared]]
        share = weight[index[shared]] / np.where(total > 0, total, 1.0)
        rows[shared] = alone[index[shared]] + share[:, None] * (rows[shared] - together[pair[shared]])
        return rows

    def penalty(self) -> float:
        """What turns the items' log-normalisers into Bethe's approximation of log p(votes)."""
        return -self.correction

    def aligned(self, index: Integers, item_index: Integers) -> BeliefMessages:
        """Reorder; an annotator never seen has the prior, an item never seen takes full posteriors."""
        return replace(self, who=taken(self.who, index, -1), what=taken(self.what, item_index, -1))

    def confusion(self) -> Floats:
        """Posterior mean, [A, K, L]."""
        return self._moment(1).transpose(0, 2, 1)

    def concentration(self) -> Floats:
        """Dirichlet rows with the posterior's mean and its variance of the right answer, [A, K, L]."""
        square = np.einsum("akk->ak", self._moment(2))
        return matched_concentration(self.confusion(), square)

    def effective_nodes(self) -> Floats:
        """How many nodes each annotator's posterior rests on, [A]: 1 / sum of squared weights."""
        count = np.empty(len(self.rule))
        for r in range(len(self.rule_ptr) - 1):
            who = np.flatnonzero(self.rule == r)
            count[who] = 1 / np.exp(2 * self.log_post[self._cells(who, r)]).sum(axis=1)
        return count[self.who]

    # -- parts ---------------------------------------------------------------------------------

    @property
    def _by_class(self) -> bool:
        return self.node.ndim == 3

    def _likelihood(self, rule: int) -> NodeLikelihood:
        nodes = slice(self.rule_ptr[rule], self.rule_ptr[rule + 1])
        return NodeLikelihood(self.node[nodes], self.log_weight[nodes], self.n_classes)

    def _cells(self, who: Integers, rule: int) -> Integers:
        """Positions of these annotators' rows (all of one rule) in `log_post`, [len(who), S]."""
        return self.row_ptr[who][:, None] + np.arange(self.rule_ptr[rule + 1] - self.rule_ptr[rule])

    def _blocks(self, annotator: Integers) -> Iterator[tuple[int, NodeLikelihood, Integers]]:
        """Cut pairs, given by their annotators, into (rule, its likelihood, positions): one rule, sorted by annotator."""
        order = np.lexsort((annotator, self.rule[annotator]))
        ends = np.searchsorted(self.rule[annotator][order], np.arange(len(self.rule_ptr)))
        for r in range(len(self.rule_ptr) - 1):
            likelihood = self._likelihood(r)
            step = max(_BLOCK // len(likelihood.log_weight), 1)
            for start in range(ends[r], ends[r + 1], step):
                yield r, likelihood, order[start : min(start + step, ends[r + 1])]

    def _round(self, pairs: Pairs, incoming: Floats) -> tuple[Floats, Floats, Floats]:
        """Node weights of the annotators, the logs of what they were divided by, and log messages of the pairs."""
        log_post = self.log_prior.copy()
        for r, likelihood, part in self._blocks(pairs.annotator):
            first = np.flatnonzero(np.diff(pairs.annotator[part], prepend=-1))
            factor, shift = likelihood.factor(pairs, part, incoming[part])
            log_post[self._cells(pairs.annotator[part[first]], r)] += log_products(factor, shift, first)
        log_total = np.zeros(len(self.rule))
        for r in range(len(self.rule_ptr) - 1):
            who = np.flatnonzero(self.rule == r)
            cells = self._cells(who, r)
            log_total[who] = row_softmax(log_post[cells])[1]
            log_post[cells] -= log_total[who, None]
        now = replace(self, incoming_pj=incoming, log_post=log_post)
        return log_post, log_total, now._send(pairs, pairs, np.arange(len(pairs.item)), pairs.annotator)

    def _round_compiled(self, pairs: Pairs, incoming: Floats) -> tuple[Floats, Floats, Floats] | None:
        """The same in compiled loops; None where that does not pay, or where patterns or factors are unusual."""
        size_a = np.diff(self.row_ptr)
        if len(pairs.counts) > pairs.common or size_a[pairs.annotator].sum() < _COMPILED_FROM:
            return None
        log_post, log_total = self.log_prior.copy(), np.zeros(len(self.rule))
        message, log_scale = np.empty_like(incoming), np.empty(len(pairs.item))
        several = len(self.rule_ptr) > 2
        rule_p = self.rule[pairs.annotator[pairs.by_annotator]] if several else self.rule
        for r in range(len(self.rule_ptr) - 1):
            part = pairs.by_annotator[rule_p == r] if several else pairs.by_annotator
            if len(part) == 0:
                continue
            start = np.flatnonzero(np.diff(pairs.annotator[part], prepend=-1))
            who = pairs.annotator[part[start]]
            likelihood_cjs, shift_c = self._likelihood(r).of_common(pairs)
            bounds, total = np.append(start, len(part)), np.empty(len(who))
            # In place where the rows of these annotators lie side by side.
            whole = len(self.rule_ptr) == 2 and len(who) == who[-1] + 1
            rows = log_post.reshape(len(self.rule), -1)[: len(who)] if whole else log_post[self._cells(who, r)]
            in_logs = (np.diff(bounds) > _FEW_PAIRS) | (rows.min(axis=1) < _LEAST_LOG)
            plain = ~in_logs[:, None] if in_logs.any() else True
            np.exp(rows, out=rows, where=plain)
            # Sorted copies: pairs all over memory would cost more than what is done with them.
            own, pattern = incoming[part], pairs.pattern[part]
            sent = np.empty_like(own)
            if not send_in_ranges(bounds, pattern, own, likelihood_cjs, in_logs, rows, total, sent):
                return None
            message[part] = sent
            np.log(rows, out=rows, where=plain)
            if not whole:
                log_post[self._cells(who, r)] = rows
            shift = shift_c[pattern]
            log_scale[part] = shift
            log_total[who] = total + np.add.reduceat(shift, start)
        return log_post, log_total, log_floored(message) + log_scale[:, None]

    def _send(self, pairs: Pairs, own: Pairs, at: Integers, annotator: Integers) -> Floats:
        """Log messages of `pairs`, [P, J], by annotators of the fit; `at` is each one's place among the fit's `own`, or -1."""
        log_message = np.empty((len(pairs.item), pairs.n_states))
        for r, likelihood, part in self._blocks(annotator):
            first = np.flatnonzero(np.diff(annotator[part], prepend=-1))
            length = np.diff(np.append(first, len(part)))
            log_post = self.log_post[self._cells(annotator[part[first]], r)]
            factor = np.ones((len(part), log_post.shape[1]))
            known = np.flatnonzero(at[part] >= 0)
            if len(known):
                seen = at[part[known]]
                factor[known] = likelihood.factor(own, seen, self.incoming_pj[seen])[0]
            log_message[part] = likelihood.log_message(pairs, part, without(log_post, length, factor))
        return log_message

    def _messages(self, votes: Annotations) -> tuple[Pairs, Floats]:
        """Pairs of any votes with their log messages: those of the fit where the votes are its own."""
        pairs = _pairs_of_votes(votes, self._by_class)
        if self._is_own(votes):
            return pairs, self.log_message_pj
        own = pairs_of(self.item, self.annotator, self.label, self.weight, self.n_classes, self._by_class)
        annotator = self.who[pairs.annotator]
        at = find_pairs(self.what[pairs.item], annotator, own.item, own.annotator)
        # -1 is the row of those never seen, the last one.
        return pairs, self._send(pairs, own, at, annotator % len(self.rule))

    def _is_own(self, votes: Annotations) -> bool:
        return (
            np.array_equal(self.item, self.what[votes.item])
            and np.array_equal(self.annotator, self.who[votes.annotator])
            and np.array_equal(self.label, votes.label)
            and np.array_equal(self.weight, weight_of(votes))
        )

    def _moment(self, power: int) -> Floats:
        """Posterior mean of R ** power, [A, L, K], in the order of `who`."""
        mean = np.empty((len(self.rule), self.n_classes, self.n_classes))
        for r in range(len(self.rule_ptr) - 1):
            node = self._likelihood(r).node
            table = node if node.ndim == 3 else expand_accuracy(node[:, None], self.n_classes)
            who = np.flatnonzero(self.rule == r)
            mean[who] = np.tensordot(np.exp(self.log_post[self._cells(who, r)]), table**power, axes=1)
        return mean[self.who]


def _pairs_of_votes(votes: Annotations, by_class: bool) -> Pairs:
    """The pairs of these votes, kept as long as the votes live: every round needs them."""
    kept = _PAIRS.setdefault(votes, {})
    if by_class not in kept:
        kept[by_class] = pairs_of(votes.item, votes.annotator, votes.label, weight_of(votes), votes.n_classes, by_class)
    return kept[by_class]
