"""Votes cut into shards of whole items, and what is done with them wherever they lie.

A *step* is a function of a module, called with a `Shard` and what is broadcast to all. It returns a `Tally`: counts and bound
terms that add up over shards. Whether shards lie in this process, in files that threads map one after another, or in the memory
of other machines is the business of a `Shards`; a step computes the same everywhere.

Steps given to `renew` overwrite the posterior of their shard, and what they leave there depends on their arguments and the
votes alone; steps given to `refine` continue from what the steps since the last `renew` left. A lost shard is therefore
read again and renewed by these steps, and nobody can tell.

Engine 1 does this in a round: infer posteriors, then count what the next fit of the parts needs (`statistics`, of which the sum
goes to `conditioned`). Parts that no counts describe run in memory alone, where the one shard hands its posterior on as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import clamp, class_mass, harden, highest, log_floored, moved, segment_sum
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import FittedToCounts

__all__ = ["MOVING", "PATTERNS_FROM", "TERMS", "Kept", "Parts", "Round", "Shard", "ShardLost", "Shards", "Tally", "Whole"]
__all__ += ["begin_at", "count", "counted", "counts_of_shard", "infer_and_count", "refitted", "remaining", "round_of"]

State = TypeVar("State")
Scope = Literal["all", "some", "catch-up"]

# What the bound of engine 1 is the sum of.
TERMS = ("votes", "class prior", "annotators")
# File of a shard with the positions of its items that move.
MOVING = "moving.npy"
_SCOPES: tuple[Scope, ...] = ("all", "some", "catch-up")
_NOWHERE: Integers = np.empty(0, np.int64)
# Votes from which patterns are looked for, and the share of them that is left at most: below and above, little is to be saved.
PATTERNS_FROM, _MOST_LEFT = 20_000, 0.5


class ShardLost(Exception):
    """A shard was lost while a state was passed on; it is there again, with another posterior, and the states start over."""


@dataclass(eq=False)
class Shard:
    """Some items with all their votes, and their present posterior.

    Attributes
    ----------
    votes : Annotations
        Annotators and classes are those of all shards. Only sizes of vocabularies count here, not their entries.
    known : [n] or [0]
        Class codes of gold items, -1 elsewhere.
    posterior : [n, K]
        Overwritten by steps.
    index : int
        Its place among the shards.
    folder : str or None
        Where its files are, if it has any (see `crowdwise.scale.store`).
    alone : bool
        It is all there is, in this process: what steps return need not be small.
    moving : [m]
        Positions of the items that a step looks at which leaves the others aside (see `focus`).
    """

    votes: Annotations
    known: Integers
    posterior: Floats
    index: int = 0
    folder: str | None = None
    alone: bool = False
    moving: Integers = field(default_factory=lambda: _NOWHERE)
    _part: Shard | None = None

    def remember_moving(self, positions: Integers) -> None:
        """Set `moving`; where the posterior is in a file, so are they."""
        self.moving, self._part = positions, None
        if self.folder is not None and isinstance(self.posterior, np.memmap):
            np.save(Path(self.folder) / MOVING, positions)

    def part(self) -> Shard:
        """The items that move, with a posterior of their own."""
        if self._part is None:
            known = self.known[self.moving] if len(self.known) else self.known
            self._part = Shard(self.votes.take_items(self.moving), known, self.posterior[self.moving])
        return self._part

    @cached_property
    def n_items(self) -> int:
        """Items that it stands for."""
        times = self.votes.times
        return self.votes.n_items if times is None else int(times.sum())

    @cached_property
    def n_votes(self) -> int:
        """Votes of these items."""
        times = self.votes.times
        return self.votes.n_votes if times is None else int(times @ self.votes.votes_per_item)


@dataclass(frozen=True, eq=False)
class Tally:
    """What steps return; all of it adds up over shards.

    Attributes
    ----------
    sums
        Counts.
    evidence : float
        Sum over items of the log-normaliser.
    change : float
        Sum over items of the share of their probability that moved.
    n_items : int
        Items that were inferred.
    n_votes : int
        Votes that were counted.
    """

    sums: tuple[Floats, ...] = ()
    evidence: float = 0.0
    change: float = 0.0
    n_items: int = 0
    n_votes: int = 0

    @property
    def mean_change(self) -> float:
        """Mean over items of the share of their probability that moved."""
        return self.change / max(self.n_items, 1)

    def __add__(self, other: Tally) -> Tally:
        sums = tuple(own + more for own, more in zip(self.sums, other.sums, strict=True))
        n_items, n_votes = self.n_items + other.n_items, self.n_votes + other.n_votes
        return Tally(sums, self.evidence + other.evidence, self.change + other.change, n_items, n_votes)


@dataclass(frozen=True, eq=False)
class Kept:
    """A fit on its way.

    Attributes
    ----------
    prior, annotators
        The parts under which posteriors were found last.
    rows : [iterations, 6]
        Terms of the bound so far, the mean change per item, which items were looked at, and the span (`Round.row`).
    """

    prior: Any
    annotators: Any
    rows: Floats


class Shards(Protocol):
    """All shards of one set of votes."""

    @property
    def posterior(self) -> Floats:
        """Posterior of all items, [N, K], where it is in memory; elsewhere empty, [0, K]: it stays in the shards."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether `keep` does anything."""
        ...

    def total(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """Sum of a step over the shards, in their order; the step only reads."""
        ...

    def renew(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """The same with a step that overwrites the posteriors."""
        ...

    def refine(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """The same with a step that continues from what the last one left: lost shards are renewed by all since `renew`."""
        ...

    def fold(self, step: Callable[..., State], state: State, *arguments: Any) -> State:
        """Pass a state from shard to shard, in their order; the step may change posteriors. Raises `ShardLost`."""
        ...

    def keep(self, name: str, kept: Kept, last: bool = False) -> None:
        """Remember a fit on its way (the `last` time in any case), where that outlives this process; else do nothing."""
        ...

    def kept(self, name: str) -> Kept | None:
        """What an interrupted run of the same fit has kept under this name."""
        ...


class Whole:
    """All votes in one shard, in memory: how every method runs unless it is given an engine.

    `pattern` says which item of the shard stands for each item, [N], where those with the same votes are looked at once; see
    `collapsed`.
    """

    def __init__(self, votes: Annotations, known: Integers, pattern: Integers | None = None) -> None:
        self.shard = Shard(votes, known, np.empty((0, votes.n_classes)), alone=True)
        self.pattern = pattern

    @classmethod
    def of(cls, votes: Annotations) -> Whole:
        """Votes with the gold labels that they carry."""
        return cls(votes, votes.known_codes)

    keeps = False

    @property
    def votes(self) -> Annotations:
        """All votes."""
        return self.shard.votes

    @property
    def posterior(self) -> Floats:
        """Posterior of all items, [N, K]."""
        return self.shard.posterior if self.pattern is None else self.shard.posterior[self.pattern]

    def collapsed(self) -> Whole:
        """The same votes with each pattern of votes once, where that leaves half of them or less; else itself.

        For models whose counts are sums of the posterior over items (`FittedToConfusion`), all of a fit stays the same.
        """
        if self.votes.n_votes < PATTERNS_FROM:
            return self
        from crowdwise.data.patterns import patterns_of

        shard = self.shard
        found = patterns_of(shard.votes, shard.known, most=_MOST_LEFT)
        if found is None:
            return self
        votes, pattern = found
        known = shard.known
        if len(known):
            known = np.empty(votes.n_items, known.dtype)
            known[pattern] = shard.known
        return Whole(votes, known, pattern)

    def gathered(self, posterior: Floats) -> Floats:
        """The mean posterior of the items that each item of the shard stands for, of a posterior of all items, [N, K]."""
        times = self.votes.times
        if self.pattern is None or times is None:
            return posterior
        sums = [segment_sum(self.pattern, column, len(times)) for column in posterior.T]
        return np.column_stack(sums) / times[:, None]

    def total(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """Call the step."""
        return step(self.shard, *arguments)

    def renew(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """Call the step; the first one finds zeros."""
        votes = self.shard.votes
        if len(self.shard.posterior) != votes.n_items:
            self.shard.posterior = np.zeros((votes.n_items, votes.n_classes))
        return step(self.shard, *arguments)

    refine = total

    def fold(self, step: Callable[..., State], state: State, *arguments: Any) -> State:
        """Call the step."""
        return step(self.shard, state, *arguments)

    def keep(self, name: str, kept: Kept, last: bool = False) -> None:
        """Nothing outlives this process."""

    def kept(self, name: str) -> Kept | None:
        """Nothing was kept."""
        return None


# -- engine 1 on a shard -----------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """What a step reports.

    Attributes
    ----------
    change : float
        Mean over items of the share of their probability that moved (or what comes close to it, where items have none).
    terms : mapping
        What the bound is the sum of, by name; empty where a method has no bound.
    scope : str
        Which items moved by how much: "all" of them by one step, "some" while the others stood aside, or "catch-up" where all
        moved, those who had stood aside by several steps at once.
    span : float
        How many rounds it stands for: more than one where a step was extrapolated from those before it.
    """

    change: float
    terms: Mapping[str, float] = field(default_factory=dict)
    scope: Scope = "all"
    span: float = 1.0

    @classmethod
    def of_row(cls, row: Sequence[float]) -> Round:
        """A round of engine 1 that was kept."""
        # Older files have no span, or neither scope nor span.
        *terms, change, scope, span = (*row, *(0.0, 1.0)[len(row) - len(TERMS) - 1 :])
        return cls(change, dict(zip(TERMS, terms, strict=True)), _SCOPES[int(scope)], span)

    @property
    def row(self) -> list[float]:
        """What is kept of a round of engine 1."""
        return [*self.terms.values(), self.change, _SCOPES.index(self.scope), self.span]

    @property
    def bound(self) -> float:
        """The sum of the terms; not a number where there are none."""
        return math.fsum(self.terms.values()) if self.terms else math.nan


def remaining(rounds: Sequence[Round]) -> float:
    """How far items are still to move in the mean: the sum of all later changes, if these go on halving as fast as they did."""
    last = rounds[-1].change
    if last == 0:
        return 0.0
    passed = 0.0
    for later, done in zip(reversed(rounds), reversed(rounds[:-1]), strict=False):
        passed += later.span
        # A round in which items catch up, or which is extrapolated, says nothing of how fast changes halve.
        if done.change >= 2 * last and done.scope != "catch-up" and done.span == 1:
            break
    else:
        passed += rounds[0].span
    return last / (2 ** (1 / passed) - 1)


@dataclass(frozen=True, eq=False)
class Parts:
    """The state of the loop: the parts, and the counts under the posteriors that they gave."""

    prior: Any
    annotators: Any
    tally: Tally


def begin_at(shard: Shard, prior: Any, annotators: Any, hard: bool, start: Floats) -> Tally:
    """Take over a posterior of the one shard there is; return its counts."""
    shard.posterior = np.array(start)
    clamp(shard.posterior, shard.known)
    return count(shard, prior, annotators, hard)


def count(shard: Shard, prior: Any, annotators: Any, hard: bool) -> Tally:
    """What the parts are fitted to, under the present posterior."""
    assigned = harden(shard.posterior) if hard else shard.posterior
    return Tally(counts_of_shard(shard, prior, annotators, assigned), n_votes=shard.n_votes)


def infer_and_count(shard: Shard, prior: Any, annotators: Any, hard: bool) -> Tally:
    """Posteriors under these parts, then their counts."""
    before = harden(shard.posterior) if hard else None
    evidence, change = annotators.infer(shard.votes, prior.log_prob(), shard.known, shard.posterior)
    assigned = shard.posterior
    if before is not None:
        evidence += float(log_floored(highest(shard.posterior)).sum())
        assigned = harden(shard.posterior)
        change = moved(assigned, before)
    sums = counts_of_shard(shard, prior, annotators, assigned)
    return Tally(sums, evidence, change, shard.n_items, shard.n_votes)


def counts_of_shard(shard: Shard, prior: Any, annotators: Any, assigned: Floats) -> tuple[Floats, ...]:
    """What the parts are fitted to: the shares' counts, then the annotators'; or the posterior of the one shard."""
    if shard.alone and not counted(prior, annotators):
        return (assigned,)
    if shard.votes.times is not None:
        assigned = assigned * shard.votes.times[:, None]
    return (class_mass(shard.votes.item_ptr, assigned), *annotators.statistics(shard.votes, assigned))


def refitted(shards: Shards, parts: Parts) -> tuple[Any, Any]:
    """Both parts, fitted to the counts of the last round, or to the posterior of the one shard."""
    prior, annotators, sums = parts.prior, parts.annotators, parts.tally.sums
    if isinstance(shards, Whole) and not counted(prior, annotators):
        return prior.update(sums[0]), annotators.update(shards.votes, sums[0])
    return prior.conditioned(sums[0]), annotators.conditioned(sums[1:])


def round_of(parts: Parts, scope: Scope = "all", span: float = 1.0) -> Round:
    """What a step of engine 1 reports."""
    terms = (parts.tally.evidence, -parts.prior.penalty(), -parts.annotators.penalty())
    return Round(parts.tally.mean_change, dict(zip(TERMS, terms, strict=True)), scope, span)


def counted(prior: Any, annotators: Any) -> bool:
    """Whether sums over items are all that these parts are fitted to."""
    return isinstance(annotators, FittedToCounts) and hasattr(prior, "conditioned")
