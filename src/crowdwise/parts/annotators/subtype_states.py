"""Annotators who answer by the state of an item, while `ebcc` is fitted: Dirichlet rows per annotator and state.

A state is a subtype of a class, or several equal ones (`crowdwise.parts.priors.subtypes`). Subtypes that have lost their mass
are equal, so they become one state: that changes nothing but the number of columns. Many votes run in compiled loops
(`crowdwise.kernels.state_loops`), few in numpy.

Symbols
-------
xi_ns : [N, S]           posterior of the states
counts_als : [A, L, S]   expected counts of a state's subtypes together
table_als : [A, L, S]    exp E log v of one subtype
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import in_ranges
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import counts_of, infer_by_table, weight_of
from crowdwise.parts.priors.subtypes import Subtypes

__all__ = ["Counted", "SubtypeStates", "count_states", "merge_columns", "mergeable"]

# A subtype with less mass than this, over all items, has none.
_DEAD = 1e-12


@dataclass(frozen=True, eq=False)
class Counted:
    """What the parts are fitted to: counts [A, L, S], and mass [2, S] of the states on items with votes and without."""

    counts_als: Floats
    mass: Floats
    evidence: float = 0.0
    change: float = 0.0


@dataclass(frozen=True, eq=False)
class SubtypeStates:
    """Dirichlet rows per annotator and state, with their prior per class."""

    prior_alk: Floats
    class_s: Integers
    times_s: Floats
    counts_als: Floats
    table_als: Floats
    kl: float

    @classmethod
    def start(cls, prior_alk: Floats) -> SubtypeStates:
        """Before any data."""
        none = np.empty(0)
        return cls(prior_alk, np.empty(0, np.int64), none, none, none, 0.0)

    @property
    def beta_als(self) -> Floats:
        """Dirichlet parameters of one subtype of each state."""
        return np.asarray(self.prior_alk[:, :, self.class_s] + self.counts_als / self.times_s)

    def conditioned(self, counts_als: Floats, class_s: Integers, times_s: Floats, compiled: bool) -> SubtypeStates:
        """Condition the rows of these states on their counts."""
        after = replace(self, counts_als=counts_als, class_s=class_s, times_s=times_s)
        if compiled:
            from crowdwise.kernels.state_loops import tables_of_counts

            table = np.empty(counts_als.shape)
            return replace(after, table_als=table, kl=tables_of_counts(counts_als, self.prior_alk, class_s, times_s, table))
        from scipy.special import digamma, gammaln

        beta, prior = after.beta_als, self.prior_alk[:, :, class_s]
        total = beta.sum(axis=1)
        expected = digamma(beta) - digamma(total)[:, None, :]
        kl_as = gammaln(total) - gammaln(prior.sum(axis=1)) - (gammaln(beta) - gammaln(prior)).sum(axis=1)
        kl_as += ((beta - prior) * expected).sum(axis=1)
        return replace(after, table_als=np.exp(expected), kl=float((kl_as * times_s).sum()))

    def infer_and_count(self, votes: Annotations, prior: Subtypes, xi_ns: Floats, compiled: bool) -> Counted:
        """Overwrite the posterior of the states; count it."""
        if not compiled:
            none_known = np.empty(0, np.int16)
            evidence, change = infer_by_table(votes, self.table_als, prior.log_prob(), none_known, xi_ns)
            return replace(count_states(votes, prior, xi_ns, self.table_als), evidence=evidence, change=change)
        from crowdwise.kernels.state_loops import infer_and_count

        table = self.table_als.reshape(-1, len(self.class_s))
        rows = (np.exp(row) for row in prior.log_rows())
        fixed: tuple[Any, ...] = (
            votes.item_ptr,
            votes.row,
            weight_of(votes),
            table,
            *rows,
            self.class_s,
            prior.silent,
            prior.known,
            xi_ns,
        )

        def infer(start: int, stop: int) -> tuple[Floats, Floats, float, float]:
            counts, mass = np.zeros(table.shape), np.zeros((2, table.shape[1]))
            arguments: tuple[Any, ...] = (*fixed, counts, mass)
            evidence, change = infer_and_count(start, stop, *arguments)
            return counts, mass, evidence, change

        (counts, mass, evidence, change), *others = in_ranges(votes.item_ptr, infer)
        for more_counts, more_mass, more_evidence, more_change in others:
            counts += more_counts
            mass += more_mass
            evidence, change = evidence + more_evidence, change + more_change
        return Counted(counts.reshape(self.counts_als.shape), mass, evidence, change)


def count_states(votes: Annotations, prior: Subtypes, xi_ns: Floats, table_als: Floats | None = None) -> Counted:
    """Counts under a posterior of the states."""
    mass = np.stack([xi_ns[~prior.silent].sum(axis=0), xi_ns[prior.silent].sum(axis=0)])
    return Counted(counts_of(votes, xi_ns, table_als), mass)


def mergeable(prior: Subtypes, mass_s: Floats) -> list[Integers] | None:
    """Groups of states to take together, sorted by class; None where that is too few to be worth copying."""
    dead = mass_s <= _DEAD * prior.times_s
    idle = np.bincount(prior.class_s[dead], minlength=1)
    if 8 * np.maximum(idle - 1, 0).sum() < len(dead):
        return None
    groups = []
    for k in range(int(prior.class_s.max()) + 1):
        own = prior.class_s == k
        groups += [np.array([s]) for s in np.flatnonzero(own & ~dead)]
        if (own & dead).any():
            groups.append(np.flatnonzero(own & dead))
    return groups


def merge_columns(values: Floats, groups: list[Integers]) -> Floats:
    """Sum the columns of each group, [..., len(groups)]."""
    merged = np.ascontiguousarray(values[..., [group[0] for group in groups]])
    for place, group in enumerate(groups):
        for s in group[1:]:
            merged[..., place] += values[..., s]
    return merged
