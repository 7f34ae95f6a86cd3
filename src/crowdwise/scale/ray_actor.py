"""What runs in Ray's processes: actors that own shards, tasks that call a function, and what their errors mean here."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import numpy as np

from crowdwise.engines.shards import Shard, Tally
from crowdwise.errors import CrowdwiseError
from crowdwise.kernels.numerics import one_thread
from crowdwise.kernels.types import Floats
from crowdwise.scale.cluster import import_ray
from crowdwise.scale.sources import Source

__all__ = ["Owner", "call_alone", "first_line", "is_loss", "raise_own"]

T = TypeVar("T")


class Owner:
    """What an actor is: it owns groups of shards and runs steps on them, a shard in each of its threads."""

    def __init__(self, threads: int = 1) -> None:
        self._threads, self._pool = threads, ThreadPoolExecutor(threads)
        self._shards: dict[int, list[Shard]] = {}
        self._answers: dict[int, tuple[int, Tally]] = {}

    def where(self) -> tuple[str, str]:
        """Id and address of the node."""
        ray = import_ray()
        return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()

    def own(self, group: int, *sources: Source) -> None:
        """Take a group of shards."""
        self._answers.pop(group, None)
        self._shards[group] = [source.open(posterior_in_memory=True) for source in sources]

    def run(self, call: int, group: int, message: tuple[Callable[..., Tally], tuple[Any, ...]]) -> tuple[bool, Tally]:
        """Sum of a step over a group, remembered for the last call; the first part says in few bytes that it is there."""
        if group not in self._answers or self._answers[group][0] != call:
            parts = self._tallies(group, *message)
            # In the order of the shards, whoever was first: sums are the same to the bit for any number of threads.
            self._answers[group] = call, sum(parts, start=next(parts))
        return True, self._answers[group][1]

    def _tallies(self, group: int, step: Callable[..., Tally], arguments: tuple[Any, ...]) -> Iterator[Tally]:
        """Tallies of the shards in their order; no more of them at a time than there are threads, for they are tables."""

        def alone(shard: Shard) -> Tally:
            with one_thread():
                return step(shard, *arguments)

        shards = self._shards[group]
        for start in range(0, len(shards), self._threads):
            yield from self._pool.map(alone, shards[start : start + self._threads])

    def add(self, *tallies: Tally) -> Tally:
        """Sum of tallies."""
        return sum(tallies[1:], start=tallies[0])

    def fold(self, group: int, message: tuple[Callable[..., T], tuple[Any, ...]], state: T) -> T:
        """Hand a state through a group."""
        step, arguments = message
        state = copy.deepcopy(state)
        with one_thread():
            for shard in self._shards[group]:
                state = step(shard, state, *arguments)
        return state

    def posterior(self, group: int, wanted: bool) -> Floats:
        """Posteriors of a group, [n, K]; none unless they are wanted, [0, K]."""
        return np.concatenate([shard.posterior[: None if wanted else 0] for shard in self._shards[group]])


def call_alone(function: Callable[..., T], *arguments: Any) -> T:
    """What a task runs."""
    with one_thread():
        return function(*arguments)


def _cause(problem: Exception) -> Exception:
    """What a task has raised, or the problem itself where it is of Ray's own making."""
    ray = import_ray()
    cause = getattr(problem, "cause", None) if isinstance(problem, ray.exceptions.RayTaskError) else None
    return cause if isinstance(cause, Exception) else problem


def is_loss(problem: Exception) -> bool:
    """Whether an actor, its node or something it held is gone, as opposed to an error of the step."""
    errors = import_ray().exceptions
    kinds = (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError, errors.WorkerCrashedError)
    return isinstance(_cause(problem), kinds)


def raise_own(problem: Exception) -> NoReturn:
    """Raise what a task has raised: errors of crowdwise plainly, others with what Ray says of where they came from."""
    cause = _cause(problem)
    if isinstance(cause, CrowdwiseError):
        raise cause from None
    if isinstance(cause, import_ray().exceptions.RayError):
        raise CrowdwiseError(f"Ray could not do it: {first_line(cause)}") from problem
    raise cause from problem


def first_line(problem: Exception | None) -> str:
    """The beginning of Ray's long messages."""
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return lines[0][:300].rstrip(".: ")
