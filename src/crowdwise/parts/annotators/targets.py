"""Ordered classes as K - 1 yes-no questions, "above class j?", each answered with a sensitivity and a specificity.

Every question has a posterior of its own, p_nj = P(class of n above j | votes). Posteriors of different questions may
contradict each other (p_n2 > p_n1); then the nearest curve from above and the one from below that fall with j are averaged,
which treats both ends of the order alike, and P(class k) = p_n(k-1) - p_nk.

Symbols
-------
pi_ajot : [A, J, 2, 2]   P(answer o | truth t) of question j, J = K - 1
pooled_jot : [J, 2, 2]   the same of an annotator never seen
prior_ajot : [A, J, 2, 2]   pseudo-votes
share_k : [K]   class shares; answers to questions cannot be told apart from them in explanations
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import log_floored, overwrite
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import WithoutPosterior, counts_of, infer_by_table, normalised, table_log_lik, taken
from crowdwise.parts.annotators.states import shared_log_lik

__all__ = ["BinaryTargets", "above_each", "falling", "of_classes", "question"]


def falling(above: Floats) -> Floats:
    """The mean of the closest falling curves below and above, along the last axis; a falling curve stays as it is."""
    low = np.minimum.accumulate(above, axis=-1)
    high = np.maximum.accumulate(above[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray((low + high) / 2)


def of_classes(above: Floats) -> Floats:
    """P(class) from P(above class j): [..., K] from [..., K - 1]."""
    ends = np.ones((*above.shape[:-1], 1))
    padded = np.concatenate([ends, falling(above), 0 * ends], axis=-1)
    return np.asarray(padded[..., :-1] - padded[..., 1:])


def above_each(prob: Floats) -> Floats:
    """P(above class j) from P(class): [..., K - 1] from [..., K]."""
    return np.asarray(np.cumsum(prob[..., ::-1], axis=-1)[..., ::-1][..., 1:])


def question(votes: Annotations, j: int) -> Annotations:
    """The votes as answers to "above class j?"."""
    gold = votes.gold
    known = None if gold is None else np.where(gold >= 0, gold > j, -1).astype(gold.dtype)
    return replace(votes, label=(votes.label > j).astype(votes.label.dtype), classes=np.array([0, 1]), gold=known)


@storable
@dataclass(frozen=True, eq=False)
class BinaryTargets(WithoutPosterior):
    """Two-coin answers to every question "above class j?"."""

    prior_ajot: Floats
    pi_ajot: Floats
    pooled_jot: Floats
    share_k: Floats

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.pi_ajot.shape[1]) + 1

    def update(self, votes: Annotations, posterior: Floats) -> BinaryTargets:
        """M-step of every question under the posterior of its answer."""
        above = above_each(posterior)
        counts = np.zeros(self.pi_ajot.shape)
        for j in range(self.n_classes - 1):
            counts[:, j] = counts_of(question(votes, j), np.column_stack([1 - above[:, j], above[:, j]]))
        pooled = counts.sum(axis=0) + 0.5
        counts += self.prior_ajot
        return replace(self, pi_ajot=normalised(counts), pooled_jot=pooled / pooled.sum(axis=1, keepdims=True))

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """Answer every question, then take differences."""
        share = above_each(np.exp(log_prior))
        above, evidence = np.zeros((votes.n_items, self.n_classes - 1)), 0.0
        for j in range(self.n_classes - 1):
            answer = np.zeros((votes.n_items, 2))
            log_share = log_floored(np.column_stack([1 - share[:, j], share[:, j]]))
            asked, none = question(votes, j), np.empty(0, np.int16)
            evidence += infer_by_table(asked, self.pi_ajot[:, j], log_share, none, answer)[0]
            above[:, j] = answer[:, 1]
        q_nk = of_classes(above)
        return evidence, overwrite(posterior, q_nk, known)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of each vote for every class, [len(index), K].

        By the confusion matrices; what the questions together say beyond that is divided among the votes of an item.
        """
        log_table = log_floored(self.confusion().transpose(0, 2, 1))
        about, position = np.unique(votes.item[index], return_inverse=True)
        some, log_share = votes[about], log_floored(self.share_k)
        separate, answer = np.zeros((2, len(about), self.n_classes))
        np.add.at(separate, some.item, table_log_lik(some, np.arange(some.n_votes), log_table))
        self.infer(some, log_share[None], np.empty(0, np.int16), answer)
        together = log_floored(answer) - log_share - separate
        return shared_log_lik(votes, index, table_log_lik(votes, index, log_table), together[position])

    def penalty(self) -> float:
        """Minus the log-density of the pseudo-votes, up to its constant."""
        return float(-(self.prior_ajot * log_floored(self.pi_ajot)).sum())

    def aligned(self, index: Integers, item_index: Integers) -> BinaryTargets:
        """Reorder; an annotator never seen gets the pooled answers."""
        prior, pi = taken(self.prior_ajot, index, 0.0), taken(self.pi_ajot, index, self.pooled_jot)
        return replace(self, prior_ajot=prior, pi_ajot=pi)

    def confusion(self) -> Floats:
        """P(label | class) by the answers to the questions, made to fall with j, [A, K, L]."""
        classes = np.arange(self.n_classes)
        # P(answer yes to j | class k): the truth of question j is yes for classes above it.
        yes = np.where(classes[:, None] > classes[:-1], self.pi_ajot[:, None, :, 1, 1], self.pi_ajot[:, None, :, 1, 0])
        return of_classes(yes)
