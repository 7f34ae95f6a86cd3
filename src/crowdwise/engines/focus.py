"""Rounds over the items that still move: what engine 1 does with large fits.

After a few rounds most items hardly move, and a round over all of them is mostly wasted. So large fits go in turns:

    a round over all items          (where items stood aside before it, they catch up)
    a round over all items, which finds those that moved by more than `least`
    rounds over the items that moved; the others stand aside with the posteriors they have

until the items that move have settled, or for a number of rounds that doubles from turn to turn. Nothing is given up. A fit
ends after a round over all items that follows another one, and only such a round is asked whether it may end. And the bound
stays a bound that never falls: with posteriors q_n that are not the best ones for the items n that stand aside (incremental EM
of Neal and Hinton, 1998),

    sum over the others of their log-normalisers
      + sum over n of (E_q[log prior + sum of the votes' evidence] + entropy of q_n) - penalties

where the expectation is a sum of counts times logarithms of the table, and the entropies do not change while items stand aside.

`least` is a hundredth of the mean change, so that all who stand aside moved together by about a hundredth of what moved in all
at most; and not less than `tol`, below which nothing need be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.engines.shards import (
    Parts,
    Round,
    Scope,
    Shard,
    Shards,
    Tally,
    counts_of_shard,
    infer_and_count,
    refitted,
    remaining,
    round_of,
)
from crowdwise.kernels.types import Floats

__all__ = ["Focus", "infer_and_compare", "infer_moving", "set_aside"]

# Share of the mean change that an item must move by to stay in view. On two simulated crowds a tenth and more moved labels.
_SHARE = 0.01
# Rounds without those who stand aside: at first, and at most.
_FIRST, _MOST = 6, 64


@dataclass(frozen=True, eq=False)
class _Aside:
    """Items that stand aside: their counts and their entropies."""

    sums: tuple[Floats, ...]
    entropy: float
    rounds: int = 0


class Focus:
    """The step of the loop for large fits. It knows the rounds before it; `whole` says that its last round was a plain one."""

    def __init__(self, shards: Shards, *, tol: float, max_iter: int, before: Sequence[Round]) -> None:
        self.shards, self.tol, self.max_iter = shards, tol, max_iter
        self.rounds, self.whole = list(before), bool(before)
        self.aside: _Aside | None = None

    def __call__(self, parts: Parts) -> tuple[Parts, Round]:
        """One round."""
        prior, annotators = refitted(self.shards, parts)
        scope: Scope = "all"
        if self.aside is not None and not self._over():
            tally, scope = self._look_again(prior, annotators, self.aside, parts.tally), "some"
        elif self.whole:
            tally = self._choose(prior, annotators)
        else:
            scope = "all" if self.aside is None else "catch-up"
            self.aside, self.whole = None, True
            tally = self.shards.renew(infer_and_count, prior, annotators, False)
        parts = replace(parts, prior=prior, annotators=annotators, tally=tally)
        done = round_of(parts, scope)
        self.rounds.append(done)
        return parts, done

    def _over(self) -> bool:
        """Whether those who stand aside must catch up: the others settled, or were alone for long, or it is the end."""
        turns = sum(done.scope == "catch-up" for done in self.rounds)
        assert self.aside is not None
        alone = self.aside.rounds >= min(_FIRST * 2**turns, _MOST)
        return alone or len(self.rounds) + 1 >= self.max_iter or (self.aside.rounds > 0 and remaining(self.rounds) <= self.tol)

    def _choose(self, prior: Any, annotators: Any) -> Tally:
        """A round over all items; those that hardly moved stand aside after it, unless most of them moved."""
        self.whole = False
        least = max(self.tol, _SHARE * self.rounds[-1].change)
        tally = self.shards.refine(infer_and_compare, prior, annotators, least)
        *sums, n_moving = tally.sums
        if 0 < 2 * n_moving[0] <= tally.n_items:
            stand = self.shards.refine(set_aside, prior, annotators)
            own = tally.evidence - stand.evidence - _expected(prior, annotators, stand.sums)
            self.aside = _Aside(stand.sums, own)
        return replace(tally, sums=tuple(sums))

    def _look_again(self, prior: Any, annotators: Any, aside: _Aside, before: Tally) -> Tally:
        """A round over the items that move."""
        tally = self.shards.refine(infer_moving, prior, annotators)
        self.aside = replace(aside, rounds=aside.rounds + 1)
        evidence = tally.evidence + aside.entropy + _expected(prior, annotators, aside.sums)
        sums = tuple(own + more for own, more in zip(aside.sums, tally.sums, strict=True))
        return replace(before, sums=sums, evidence=evidence, change=tally.change)


def infer_and_compare(shard: Shard, prior: Any, annotators: Any, least: float) -> Tally:
    """Like `infer_and_count`; remembers the items whose best class changed its probability by more than `least`.

    The last of the sums is their number. Votes that are distributions all move: their counts say nothing of the bound.
    """
    before = shard.posterior.max(axis=1, initial=0.0)
    tally = infer_and_count(shard, prior, annotators, False)
    moved = np.abs(shard.posterior.max(axis=1, initial=0.0) - before) > least
    shard.remember_moving(np.flatnonzero(moved | shard.votes.soft))
    return replace(tally, sums=(*tally.sums, np.array([float(len(shard.moving))])))


def set_aside(shard: Shard, prior: Any, annotators: Any) -> Tally:
    """Counts of the items that do not move, and the evidence of those that do."""
    part = shard.part()
    shard.posterior[shard.moving] = 0.0
    try:
        sums = counts_of_shard(shard, prior, annotators, shard.posterior)
    finally:
        shard.posterior[shard.moving] = part.posterior
    return Tally(sums, infer_and_count(part, prior, annotators, False).evidence)


def infer_moving(shard: Shard, prior: Any, annotators: Any) -> Tally:
    """Posteriors and counts of the items that move."""
    part = shard.part()
    tally = infer_and_count(part, prior, annotators, False)
    shard.posterior[shard.moving] = part.posterior
    return tally


def _expected(prior: Any, annotators: Any, sums: tuple[Floats, ...]) -> float:
    """Expected log-probability of classes and votes with these counts."""
    mass, *statistics = sums
    return float(mass @ prior.log_prob()[0]) + float(annotators.expected(tuple(statistics)))
