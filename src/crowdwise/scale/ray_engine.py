"""Run a method on Ray: on the cores of this machine, or on the nodes of a cluster. See `crowdwise.scale.ray_shards` for how."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from crowdwise.errors import SettingError
from crowdwise.scale.checkpoint import Checkpoints
from crowdwise.scale.cluster import Connection, connect, import_ray
from crowdwise.scale.engine import Engine
from crowdwise.scale.ray_actor import call_alone, raise_own
from crowdwise.scale.ray_shards import RayShards
from crowdwise.scale.sources import Source

__all__ = ["Ray", "RayShards"]

T = TypeVar("T")

# Seconds that tasks get to stop when nobody wants their results any more.
_PATIENCE = 30.0


class Ray(Engine):
    """Run on Ray: `pip install 'crowdwise[scale]'`.

    Results are those of a fit in memory, up to rounding, whatever the number of shards or actors and whichever of them are lost
    on the way. On several nodes, the work folder (and files of votes) must lie on a file system that all of them see.

    Parameters
    ----------
    address : str, optional
        "auto" for the cluster this machine belongs to, or host:port. By default one is started on this machine, reachable from
        nowhere else, that ends with the engine.
    shards : int, optional
        Parts to cut votes into; by default one per four million votes, and at least one per core.
    actors : int, optional
        Processes that hold shards; they share out the cores of the cluster, and run a shard per core. By default as few as
        leave no core idle, such as one per node where all nodes are alike.
    work_dir : path, optional
        Folder of the encoded shards and of what an interrupted fit resumes from. Kept; by default a temporary folder that is
        removed when the engine is closed.
    checkpoint_every : int
        Iterations between two checkpoints.

    Examples
    --------
    >>> from crowdwise import DawidSkene
    >>> from crowdwise.scale import Ray
    >>> with Ray(address="auto", shards=64, work_dir="/shared/work") as engine:  # doctest: +SKIP
    ...     DawidSkene().fit("votes/*.parquet", engine=engine).result_.write_labels("labels")
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        shards: int | None = None,
        actors: int | None = None,
        work_dir: Any = None,
        checkpoint_every: int = 5,
    ) -> None:
        super().__init__(shards=shards, work_dir=work_dir, checkpoint_every=checkpoint_every)
        if actors is not None and (isinstance(actors, bool) or actors != int(actors) or actors < 1):
            raise SettingError(f"actors must be a whole number >= 1; got {actors!r}")
        self.address, self.actors = address, actors
        self._connection: Connection | None = None
        self._place = "Ray"

    @property
    def n_workers(self) -> int:
        """Shards that are worked on at a time: those of all threads of all actors."""
        n_actors, threads = self._shape()
        return n_actors * threads

    def _shape(self) -> tuple[int, int]:
        """Number of actors, and of the threads of each: all alike, so that any node can take over for another."""
        self._connect()
        nodes = [int(node["Resources"].get("CPU", 0)) for node in import_ray().nodes() if node["Alive"]]
        nodes = [cores for cores in nodes if cores] or [1]
        if self.actors is None:
            threads = math.gcd(*nodes)
            return sum(nodes) // threads, threads
        if self.actors > sum(nodes):
            raise SettingError(f"actors: {self.actors} need as many cores, and the cluster has {sum(nodes)}; ask for fewer")
        fitting = (n for n in range(max(nodes), 0, -1) if sum(cores // n for cores in nodes) >= self.actors)
        return self.actors, next(fitting)

    @property
    def place(self) -> str:
        """What runs where, in words; after a fit, what ran where."""
        if isinstance(self._shards, RayShards):
            self._place = self._shards.place
        return self._place

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """Call the function in tasks with each tuple of arguments; results come in order."""
        ray, most = import_ray(), 2 * self.n_workers
        # Actors that are still there hold all cores, and tasks that asked for one would wait for ever.
        task = ray.remote(call_alone).options(num_cpus=0 if self._shards else 1, max_retries=3, scheduling_strategy="SPREAD")
        waiting, running = deque(arguments), deque[Any]()
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    running.append(task.remote(function, *waiting.popleft()))
                try:
                    result: T = ray.get(running.popleft())
                except ray.exceptions.RayError as problem:
                    raise_own(problem)
                yield result
        finally:
            # What follows may delete the files that they work on.
            for ref in running:
                ray.cancel(ref)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_PATIENCE)

    def open(self, sources: Sequence[Source], checkpoints: Checkpoints | None) -> RayShards:
        """Shards in the memory of actors."""
        n_actors, threads = self._shape()
        assert self._connection is not None
        return RayShards(sources, checkpoints, min(n_actors, len(sources)), self._connection, threads)

    def close(self) -> None:
        """End the actors, delete a temporary work folder, and end the cluster or leave it."""
        self._place = self.place
        super().close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = connect(self.address, cpus=self.actors)
