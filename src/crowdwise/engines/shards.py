"""Votes cut into shards of whole items, and what is done with them wherever they lie.

A *step* is a function of a module, called with a `Shard` and what is broadcast to all. It returns a `Tally`: counts and bound
terms that add up over shards. Whether shards lie in this process, in files that threads map one after another, or in the memory
of other machines is the business of a `Shards`; a step computes the same everywhere.

Steps given to `renew` overwrite the posterior of their shard, and what they leave there depends on their arguments and the
votes alone. A shard that was lost is therefore read again and renewed by the last such step, and nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.types import Floats, Integers

__all__ = ["Kept", "Shard", "ShardLost", "Shards", "Tally", "Whole"]

State = TypeVar("State")


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
    """

    votes: Annotations
    known: Integers
    posterior: Floats
    index: int = 0
    folder: str | None = None
    alone: bool = False


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
    """

    sums: tuple[Floats, ...] = ()
    evidence: float = 0.0
    change: float = 0.0
    n_items: int = 0

    @property
    def mean_change(self) -> float:
        """Mean over items of the share of their probability that moved."""
        return self.change / max(self.n_items, 1)

    def __add__(self, other: Tally) -> Tally:
        sums = tuple(own + more for own, more in zip(self.sums, other.sums, strict=True))
        return Tally(sums, self.evidence + other.evidence, self.change + other.change, self.n_items + other.n_items)


@dataclass(frozen=True, eq=False)
class Kept:
    """A fit on its way.

    Attributes
    ----------
    prior, annotators
        The parts under which posteriors were found last.
    rows : [iterations, 4]
        Terms of the bound so far, and the mean change per item.
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
    """All votes in one shard, in memory: how every method runs unless it is given an engine."""

    def __init__(self, votes: Annotations, known: Integers) -> None:
        self.shard = Shard(votes, known, np.empty((0, votes.n_classes)), alone=True)

    @classmethod
    def of(cls, votes: Annotations) -> Whole:
        """Votes with the gold labels that they carry."""
        return cls(votes, np.empty(0, np.int16) if votes.gold is None else votes.gold)

    keeps = False

    @property
    def votes(self) -> Annotations:
        """All votes."""
        return self.shard.votes

    @property
    def posterior(self) -> Floats:
        """Posterior of all items, [N, K]."""
        return self.shard.posterior

    def total(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """Call the step."""
        return step(self.shard, *arguments)

    def renew(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """Call the step; the first one finds zeros."""
        votes = self.shard.votes
        if len(self.shard.posterior) != votes.n_items:
            self.shard.posterior = np.zeros((votes.n_items, votes.n_classes))
        return step(self.shard, *arguments)

    def fold(self, step: Callable[..., State], state: State, *arguments: Any) -> State:
        """Call the step."""
        return step(self.shard, state, *arguments)

    def keep(self, name: str, kept: Kept, last: bool = False) -> None:
        """Nothing outlives this process."""

    def kept(self, name: str) -> Kept | None:
        """Nothing was kept."""
        return None
