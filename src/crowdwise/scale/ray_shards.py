"""Shards in the memory of Ray actors.

Shards are dealt out in *groups*, one per actor, and a group stays together for good. Its actor holds the votes and posteriors,
gets what is broadcast, runs the step in its threads and adds up the tallies: with one actor per core, every core would hold a
copy of the tables and send its own. Actors then add up the sums of eight groups at a time until one is left, which alone comes
to this process. Groups are added in the same order wherever they lie, so a fit that lost actors on its way ends with the same
numbers to the last bit.

An actor that is lost, alone or with its node, is replaced; where no core is free for another one, those that are left take over
its groups. Votes are read again, posteriors come back with the last step that made them, and the call is repeated. Whoever had
answered it answers from memory, because a step that ran twice would find nothing changed.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from crowdwise.engines.shards import ShardLost, Tally
from crowdwise.errors import CrowdwiseError, SettingError
from crowdwise.kernels.types import Floats
from crowdwise.scale.checkpoint import Checkpoints, Resumable
from crowdwise.scale.cluster import Connection, import_ray
from crowdwise.scale.ray_actor import Owner, first_line, is_loss, raise_own
from crowdwise.scale.sources import MemorySource, Source

__all__ = ["RayShards"]

T = TypeVar("T")

_FAN_IN = 8
_ATTEMPTS = 10
# Seconds until an actor must have started: the first ones, while the cluster may still grow, and those that replace others.
_FIRST_PATIENCE, _PATIENCE = 120.0, 30.0


@dataclass(eq=False)
class _Host:
    """An actor, its node (id and address), and the groups it holds."""

    actor: Any
    node: tuple[str, str]
    groups: set[int]


class RayShards(Resumable):
    """Shards in the memory of actors."""

    def __init__(
        self,
        sources: Sequence[Source],
        checkpoints: Checkpoints | None,
        n_actors: int,
        connection: Connection,
        threads: int = 1,
    ) -> None:
        # The connection is held for as long as somebody holds the shards.
        super().__init__(checkpoints)
        self._ray, self._connection, self._threads = import_ray(), connection, threads
        self._in_memory = all(isinstance(source, MemorySource) for source in sources)
        sent = [self._ray.put(source) if isinstance(source, MemorySource) else source for source in sources]
        parts = np.array_split(np.arange(len(sent)), n_actors)
        self._groups = [[sent[index] for index in part] for part in parts]
        self._hosts: list[_Host] = []
        self._wanted, self._missing, self._doubtful, self._closed = n_actors, set(range(n_actors)), False, False
        self._calls = 0
        self._renewed: list[tuple[int, Callable[..., Tally], Any]] = []
        self._gathered: tuple[int, Floats] | None = None
        self.n_lost = 0
        self._attempt(lambda: None)

    @property
    def place(self) -> str:
        """What runs where, in words."""
        nodes, n_actors = {host.node for host in self._hosts}, len(self._hosts)
        lost = f", {self.n_lost} lost on the way" if self.n_lost else ""
        addresses = ", ".join(sorted({address for _, address in nodes}))
        what = f"Ray actor{'s' * (n_actors != 1)}" + (f" of {self._threads} threads" if self._threads > 1 else "")
        return f"{n_actors} {what} on {len(nodes)} node{'s' * (len(nodes) != 1)} ({addresses}){lost}"

    @property
    def posterior(self) -> Floats:
        """Posterior of all items where votes came from memory, [N, K]; elsewhere empty, [0, K]."""
        if self._gathered is None or self._gathered[0] != self._calls:
            parts = self._attempt(
                lambda: self._get([self._home(group).posterior.remote(group, self._in_memory) for group in self._numbers])
            )
            self._gathered = self._calls, np.concatenate(parts)
        return self._gathered[1]

    def total(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """Sum of a step over the shards, group by group."""
        return self._sum(self._put((step, arguments)))

    def renew(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """The same; the step is remembered, to bring back the posteriors of shards that are lost later."""
        message = self._put((step, arguments))
        tally = self._sum(message)
        self._renewed = [(self._calls, step, message)]
        return tally

    def refine(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """The same; remembered beside those before it, of which it replaces an equal one: it leaves nothing of that."""
        message = self._put((step, arguments))
        tally = self._sum(message)
        if self._renewed and self._renewed[-1][1] is step:
            self._renewed.pop()
        self._renewed.append((self._calls, step, message))
        return tally

    def fold(self, step: Callable[..., T], state: T, *arguments: Any) -> T:
        """Pass a state from actor to actor."""
        message, first, lost = self._put((step, arguments)), self._put(state), self.n_lost
        self._calls += 1

        def hand_on() -> T:
            if self.n_lost > lost:
                raise ShardLost
            handed = first
            for group in self._numbers:
                handed = self._home(group).fold.remote(group, message, handed)
            last: T = self._get([handed])[0]
            # What comes from Ray's memory cannot be written to.
            return copy.deepcopy(last)

        return self._attempt(hand_on)

    def close(self) -> None:
        """End the actors."""
        if self._ray.is_initialized():
            for host in self._hosts:
                self._ray.kill(host.actor)
        self._closed, self._hosts, self._groups, self._renewed = True, [], [], []

    # -- calls ---------------------------------------------------------------------------------

    @property
    def _numbers(self) -> range:
        return range(len(self._groups))

    def _home(self, group: int) -> Any:
        return next(host.actor for host in self._hosts if group in host.groups)

    def _put(self, value: Any) -> Any:
        """Hand a value to Ray once, for all actors."""
        if self._closed:
            raise SettingError("these shards were closed with their engine; write labels before that, or fit again")
        return self._ray.put(value)

    def _get(self, refs: list[Any]) -> list[Any]:
        """Results; failures are raised when all have come to an end, so that actors are idle while others are replaced."""
        self._ray.wait(refs, num_returns=len(refs), fetch_local=False)
        results: list[Any] = self._ray.get(refs)
        return results

    def _sum(self, message: Any) -> Tally:
        self._calls += 1
        tally = self._attempt(lambda: self._add_up(self._calls, message))
        return replace(tally, sums=tuple(np.array(total) for total in tally.sums))

    def _add_up(self, call: int, message: Any) -> Tally:
        """Run a step everywhere; tallies stay with the actors, who add them up by eights."""
        level, answered = [], []
        for group in self._numbers:
            actor = self._home(group)
            done, tally = actor.run.options(num_returns=2).remote(call, group, message)
            answered.append(done)
            level.append((actor, tally))
        self._get(answered)
        while len(level) > 1:
            parts = [level[start : start + _FAN_IN] for start in range(0, len(level), _FAN_IN)]
            level = [(part[0][0], part[0][0].add.remote(*(tally for _, tally in part))) for part in parts]
        result: Tally = self._get([level[0][1]])[0]
        return result

    def _attempt(self, work: Callable[[], T]) -> T:
        """Do something with all shards in their places, again where actors were lost meanwhile."""
        lost: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                self._settle()
                return work()
            except self._ray.exceptions.RayError as problem:
                if not is_loss(problem):
                    raise_own(problem)
                self._doubtful, lost = True, problem
        raise CrowdwiseError(
            f"Ray lost actors {_ATTEMPTS} times in a row, the last one so: {first_line(lost)}. Where memory ran out, use more "
            "shards on fewer actors; a fit with a work folder resumes from its last checkpoint"
        ) from lost

    # -- actors --------------------------------------------------------------------------------

    def _settle(self) -> None:
        """See that every group has a living actor, with its votes and posteriors."""
        if self._doubtful:
            self._bury()
        if not self._missing:
            return
        self._start(self._wanted - len(self._hosts))
        refs = []
        for group in sorted(self._missing):
            for host in self._hosts:
                host.groups.discard(group)
            host = min(self._hosts, key=lambda host: len(host.groups))
            host.groups.add(group)
            refs.append(host.actor.own.remote(group, *self._groups[group]))
            # An actor does one call after the other, in this order.
            for call, _, message in self._renewed:
                refs += host.actor.run.options(num_returns=2).remote(call, group, message)[:1]
        self._get(refs)
        self._missing = set()

    def _bury(self) -> None:
        """Find out which actors are gone; their groups are missing."""
        asked = {host.actor.where.remote(): host for host in self._hosts}
        answered = self._ray.wait(list(asked), num_returns=len(asked), timeout=_PATIENCE)[0] if asked else []
        living = []
        for ref in answered:
            try:
                self._ray.get(ref)
            except self._ray.exceptions.RayError:
                continue
            living.append(asked[ref])
        for host in self._hosts:
            if host not in living:
                self._ray.kill(host.actor)
                self._missing |= host.groups
                self.n_lost += 1
        self._hosts = [host for host in self._hosts if host in living]
        self._doubtful = False

    def _start(self, count: int) -> None:
        """Start actors, as many as the cluster has room for; at least one must be there in the end."""
        ray, end = self._ray, time.monotonic() + (_PATIENCE if self._hosts else _FIRST_PATIENCE)
        owner = ray.remote(Owner).options(num_cpus=self._threads, max_restarts=0, scheduling_strategy="SPREAD")
        actors = [owner.remote(self._threads) for _ in range(count)]
        starting = {actor.where.remote(): actor for actor in actors}
        problem: Exception | None = None
        while starting and time.monotonic() < end:
            for ref in ray.wait(list(starting), timeout=0.2)[0]:
                actor = starting.pop(ref)
                try:
                    self._hosts.append(_Host(actor, ray.get(ref), set()))
                except ray.exceptions.RayError as lost:
                    problem = lost
            # A node that is gone takes its cores with it, and nobody needs to wait for them.
            if self._hosts and (len(self._hosts) + 1) * self._threads > ray.cluster_resources().get("CPU", 0):
                break
        for actor in starting.values():
            ray.kill(actor)
        if not self._hosts:
            raise problem or CrowdwiseError(
                f"Ray started no actor within {_FIRST_PATIENCE:.0f} s: no node of the cluster has {self._threads} free "
                f"core{'s' * (self._threads > 1)}; try again later, ask for more actors, which are smaller, "
                "or leave the address out to use this machine"
            )
        self._wanted = len(self._hosts)
