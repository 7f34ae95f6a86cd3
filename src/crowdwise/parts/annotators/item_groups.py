"""A confusion matrix per annotator and group of items, shrunk towards the annotator's own.

    pi[a, s, k] ~ Dir(parent_a[:, k])      parent_a = strength * pooled matrix of a + base

Only pairs of an annotator and a group with votes have parameters of their own; all others have the parent.

Symbols
-------
beta_plk : [P, L, K]     Dirichlet parameters of the pairs, in order of annotator, then group
parent_alk : [A, L, K]   Dirichlet parameters before the votes of a group
base_lk : [L, K]         Dirichlet parameters of a pooled matrix before any vote
group_n : [N]            group of every item; -1 for an item of unknown group, which gets the parent
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable, within
from crowdwise.kernels.numerics import dirichlet_kl, expected_log
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import counts_of, infer_by_table, table_log_lik, taken

__all__ = ["ItemGroupConfusion"]

# Votes by pair, kept as long as the votes live: every round needs them.
_BY_PAIR: WeakKeyDictionary[Annotations, tuple[tuple[Integers, Integers, Integers], Annotations]] = WeakKeyDictionary()


@storable
@dataclass(frozen=True, eq=False)
class ItemGroupConfusion:
    """Dirichlet rows per annotator and group of items."""

    shapes: ClassVar[dict[str, str]] = {"pair_a": "p", "pair_s": "p"}
    parent_alk: Floats
    beta_plk: Floats
    base_lk: Floats
    pair_a: Integers
    pair_s: Integers
    group_n: Integers
    n_groups: int

    @classmethod
    def start(
        cls, votes: Annotations, group_n: Integers, n_groups: int, parent_alk: Floats, base_lk: Floats
    ) -> ItemGroupConfusion:
        """Before any data: every pair that occurs in the votes has the annotator's parent."""
        found = np.unique(votes.annotator.astype(np.int64) * n_groups + group_n[votes.item])
        pair_a, pair_s = np.divmod(found, max(n_groups, 1))
        return cls(parent_alk, parent_alk[pair_a], base_lk, pair_a, pair_s, group_n, n_groups)

    def fits(self, votes: Annotations) -> bool:
        """Whether indices read from a file stay within their arrays."""
        return (
            within(self.pair_a, 0, len(self.parent_alk))
            and within(self.pair_s, 0, self.n_groups)
            and within(self.group_n, -1, self.n_groups)
        )

    def update(self, votes: Annotations, posterior: Floats) -> ItemGroupConfusion:
        """Condition the rows of every pair on its expected counts."""
        counts = counts_of(self._by_pair(votes), posterior)[: len(self.pair_a)]
        return replace(self, beta_plk=counts + self.parent_alk[self.pair_a])

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step with E[log pi]."""
        return infer_by_table(self._by_pair(votes), np.exp(self._log_table()), log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """E[log pi] of each vote, [len(index), K]."""
        return table_log_lik(self._by_pair(votes), index, self._log_table())

    def penalty(self) -> float:
        """KL of every pair's rows from the parent."""
        return dirichlet_kl(self.beta_plk, self.parent_alk[self.pair_a], 1)

    def aligned(self, index: Integers, item_index: Integers) -> ItemGroupConfusion:
        """Reorder; an annotator never seen has the mean parent, an item never seen no group."""
        n_old = len(self.parent_alk)
        size = np.bincount(self.pair_a, minlength=n_old + 1)
        start = np.cumsum(size) - size
        # Where the pairs of every new annotator lie among the old ones; -1 picks the last, who has none.
        owned = size[index]
        pair = np.repeat(start[index] - (np.cumsum(owned) - owned), owned) + np.arange(owned.sum())
        return replace(
            self,
            parent_alk=taken(self.parent_alk, index, self.parent_alk.mean(axis=0)),
            beta_plk=self.beta_plk[pair],
            pair_a=np.repeat(np.arange(len(index)), owned),
            pair_s=self.pair_s[pair],
            group_n=taken(self.group_n, item_index, -1),
        )

    def confusion(self) -> Floats:
        """Matrices over all groups together, posterior mean, [A, K, L]."""
        pooled = self.concentration()
        return np.asarray(pooled / pooled.sum(axis=2, keepdims=True))

    def concentration(self) -> Floats:
        """Dirichlet parameters over all groups together, [A, K, L]: the counts of the groups, added."""
        pooled = np.repeat(self.base_lk[None], len(self.parent_alk), axis=0)
        np.add.at(pooled, self.pair_a, self.beta_plk - self.parent_alk[self.pair_a])
        return pooled.transpose(0, 2, 1)

    def by_group(self, annotators: slice | Integers = slice(None)) -> Floats:
        """Dirichlet parameters of these annotators in every group, [a, G, K, L]; the parent where there are no votes."""
        chosen = np.arange(len(self.parent_alk))[annotators]
        place = np.full(len(self.parent_alk), -1)
        place[chosen] = np.arange(len(chosen))
        full = np.repeat(self.parent_alk[chosen][:, None], self.n_groups, axis=1)
        mine = np.flatnonzero(place[self.pair_a] >= 0)
        full[place[self.pair_a[mine]], self.pair_s[mine]] = self.beta_plk[mine]
        return full.transpose(0, 1, 3, 2)

    def _log_table(self) -> Floats:
        """E[log pi] of pairs, and below them of parents, [P + A, L, K]."""
        return expected_log(np.concatenate([self.beta_plk, self.parent_alk]), 1)

    def _by_pair(self, votes: Annotations) -> Annotations:
        """The votes with pairs in the place of annotators; a pair never seen becomes its annotator's parent."""
        kept = _BY_PAIR.get(votes)
        if kept is None or any(mine is not theirs for mine, theirs in zip(kept[0], self._pairing, strict=True)):
            kept = self._pairing, self._paired(votes)
            _BY_PAIR[votes] = kept
        return kept[1]

    @property
    def _pairing(self) -> tuple[Integers, Integers, Integers]:
        """What pairs of annotator and group hang on; a fit hands it on from round to round."""
        return self.pair_a, self.pair_s, self.group_n

    def _paired(self, votes: Annotations) -> Annotations:
        own = self.pair_a * self.n_groups + self.pair_s
        group = self.group_n[votes.item]
        wanted = votes.annotator.astype(np.int64) * self.n_groups + group
        place = np.searchsorted(own, wanted)
        known = (group >= 0) & (np.append(own, -1)[np.minimum(place, len(own))] == wanted)
        who = np.where(known, place, len(own) + votes.annotator).astype(np.int32)
        # Votes are sorted by item, and within an item all have one group: their order holds.
        return replace(votes, annotator=who, annotators=np.arange(len(own) + votes.n_annotators))
