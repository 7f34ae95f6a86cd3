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

While items stand aside, every third round starts from counts extrapolated from the two before it (SQUAREM of Varadhan and
Roland, 2008). It is taken only if the bound does not fall, else the third round is a plain one. For the stopping rule it stands
for as many rounds as its length says, so that a fit which creeps is not taken for one which arrives.
"""

from __future__ import annotations

import math
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
    infer_and_count,
    refitted,
    remaining,
    round_of,
)
from crowdwise.kernels.numerics import highest
from crowdwise.kernels.types import Floats

__all__ = ["Focus", "extrapolated", "infer_and_compare", "infer_moving"]

# Share of the mean change that an item must move by to stay in view. On two simulated crowds a tenth and more moved labels.
_SHARE = 0.01
# Rounds without those who stand aside: at first, and at most.
_FIRST, _MOST = 6, 64
# What is left of a count at least where counts are extrapolated; by judgement, like the numbers of rounds above.
_LEFT = 0.1

Sums = tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class _Aside:
    """Items that stand aside: their counts and entropies; rounds without them, and counts of all items before the last ones."""

    sums: Sums
    entropy: float
    rounds: int = 0
    path: tuple[Sums, ...] = ()


class Focus:
    """The step of the loop for large fits. It knows the rounds before it; `whole` says that its last round was a plain one."""

    def __init__(self, shards: Shards, *, tol: float, max_iter: int, before: Sequence[Round]) -> None:
        self.shards, self.tol, self.max_iter = shards, tol, max_iter
        self.rounds, self.whole = list(before), bool(before)
        self.aside: _Aside | None = None

    def __call__(self, parts: Parts) -> tuple[Parts, Round]:
        """One round."""
        if self.aside is not None and not self._over():
            parts, done = self._look_again(parts, self.aside)
        else:
            prior, annotators = refitted(self.shards, parts)
            scope: Scope = "all"
            if self.whole:
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
            move = self.shards.refine(infer_moving, prior, annotators)
            # What is left of a count that is all of items that move may be a rounding error below zero.
            stand = tuple(np.maximum(every - own, 0.0) for every, own in zip(sums, move.sums, strict=True))
            own = tally.evidence - move.evidence - _expected(prior, annotators, stand)
            self.aside = _Aside(stand, own)
        return replace(tally, sums=tuple(sums))

    def _look_again(self, parts: Parts, aside: _Aside) -> tuple[Parts, Round]:
        """A round over the items that move; every third one from counts extrapolated, if that does not lower the bound."""
        path = (*aside.path, parts.tally.sums)
        self.aside = replace(aside, rounds=aside.rounds + 1, path=path if len(path) < 3 else ())
        if len(path) == 3 and (found := extrapolated(*path)):
            sums, span = found
            there = self._inferred(replace(parts, tally=replace(parts.tally, sums=sums)), aside)
            done = round_of(there, "some", span)
            if done.bound >= self.rounds[-1].bound:
                return there, done
            # Back to where they were, so that the next round says how far they move from there.
            self.shards.refine(infer_moving, parts.prior, parts.annotators)
        parts = self._inferred(parts, aside)
        return parts, round_of(parts, "some")

    def _inferred(self, parts: Parts, aside: _Aside) -> Parts:
        """Parts fitted to these counts, and what they say of the items that move."""
        prior, annotators = refitted(self.shards, parts)
        tally = self.shards.refine(infer_moving, prior, annotators)
        evidence = tally.evidence + aside.entropy + _expected(prior, annotators, aside.sums)
        sums = tuple(own + more for own, more in zip(aside.sums, tally.sums, strict=True))
        return replace(
            parts,
            prior=prior,
            annotators=annotators,
            tally=replace(parts.tally, sums=sums, evidence=evidence, change=tally.change),
        )


def extrapolated(first: Sums, second: Sums, third: Sums) -> tuple[Sums, float] | None:
    """Counts that three rounds lead to, and how many rounds away they are; None where that is no farther than the third.

    If what is still to go shrinks by the same factor in every round, they are the end: the length is 1 / (1 - factor).
    """
    step = [after - before for before, after in zip(first, second, strict=True)]
    bend = [after - before - way for way, before, after in zip(step, second, third, strict=True)]
    size, turn = (math.fsum(float((way * way).sum()) for way in ways) for ways in (step, bend))
    length = math.sqrt(size / turn) if turn > 0 else 1.0
    if length <= 1:
        return None
    # A count that shrinks stays above zero, where it would be stuck.
    sums = tuple(
        np.maximum(start + 2 * length * way + length**2 * curve, _LEFT * end)
        for start, way, curve, end in zip(first, step, bend, third, strict=True)
    )
    return sums, length


def infer_and_compare(shard: Shard, prior: Any, annotators: Any, least: float) -> Tally:
    """Like `infer_and_count`; remembers the items whose best class changed its probability by more than `least`.

    The last of the sums is their number. Votes that are distributions all move: their counts say nothing of the bound.
    """
    before = highest(shard.posterior)
    tally = infer_and_count(shard, prior, annotators, False)
    moved = np.abs(highest(shard.posterior) - before) > least
    shard.remember_moving(np.flatnonzero(moved | shard.votes.soft))
    times = shard.votes.times
    n_moving = len(shard.moving) if times is None else times[shard.moving].sum()
    return replace(tally, sums=(*tally.sums, np.array([float(n_moving)])))


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
