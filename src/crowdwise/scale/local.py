"""Shards on this machine: steps run in threads, shard by shard, in memory or out of core."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

from crowdwise.engines.shards import Shard, Tally
from crowdwise.errors import SettingError
from crowdwise.kernels.numerics import n_threads, one_thread
from crowdwise.kernels.types import Floats
from crowdwise.scale.checkpoint import Checkpoints, Resumable
from crowdwise.scale.engine import Engine
from crowdwise.scale.sources import Source

__all__ = ["Local", "LocalShards", "in_order"]

T = TypeVar("T")


class Local(Engine):
    """Run on this machine, in threads.

    Votes in files are encoded into shards in a work folder, and a fit reads these one after another: memory holds a few shards
    at a time, whatever the number of votes. Votes that are in memory are cut into slices.

    Parameters
    ----------
    shards : int, optional
        Parts to cut votes into; by default one per four million votes, and at least one per thread.
    threads : int, optional
        Shards worked on at the same time; by default every core (or CROWDWISE_THREADS).
    work_dir : path, optional
        Folder of the encoded shards and of what an interrupted fit resumes from. Kept; by default a temporary folder that is
        removed when the engine is closed.

    Examples
    --------
    >>> from crowdwise import DawidSkene
    >>> from crowdwise.data.simulate import simulate
    >>> votes = simulate(n_items=200, n_annotators=5, n_classes=3).votes
    >>> with Local(shards=4, threads=2) as engine:
    ...     model = DawidSkene().fit(votes, engine=engine)
    >>> bool((model.labels_ == DawidSkene().fit(votes).labels_).all())
    True
    """

    def __init__(self, *, shards: int | None = None, threads: int | None = None, work_dir: Any = None) -> None:
        super().__init__(shards=shards, work_dir=work_dir, checkpoint_every=1)
        if threads is not None and threads < 1:
            raise SettingError(f"threads must be a whole number >= 1; got {threads!r}")
        self.threads = n_threads() if threads is None else threads

    @property
    def n_workers(self) -> int:
        """Threads."""
        return self.threads

    @property
    def place(self) -> str:
        """What runs where, in words."""
        return f"{self.threads} thread{'s' * (self.threads > 1)} on this machine"

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """Call the function with each tuple of arguments; results come in order."""
        return in_order((partial(function, *given) for given in arguments), self.threads)

    def open(self, sources: Sequence[Source], checkpoints: Checkpoints | None) -> LocalShards:
        """Shards that are opened when a step needs them."""
        return LocalShards(sources, checkpoints, self.threads)


class LocalShards(Resumable):
    """Shards on this machine. Those in memory stay open, those in files are mapped for as long as a step takes."""

    def __init__(self, sources: Sequence[Source], checkpoints: Checkpoints | None, threads: int) -> None:
        super().__init__(checkpoints)
        self._sources, self._threads, self._closed = sources, threads, False
        self._open: list[Shard | None] = [source.open() if source.in_memory else None for source in sources]

    @property
    def posterior(self) -> Floats:
        """Posterior of all items where they are in memory, [N, K]; elsewhere empty."""
        return np.concatenate([self._shard(i).posterior[: None if shard else 0] for i, shard in enumerate(self._open)])

    def total(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        """Sum of a step over the shards, in their order."""
        if self._closed:
            raise SettingError("these shards were closed with their engine; write labels before that, or fit again")
        parts = in_order((partial(self._run, step, i, arguments) for i in range(len(self._sources))), self._threads)
        first = next(parts)
        return sum(parts, start=first)

    renew = refine = total

    def fold(self, step: Callable[..., T], state: T, *arguments: Any) -> T:
        """Pass a state from shard to shard."""
        for index in range(len(self._sources)):
            shard = self._shard(index)
            state = step(shard, state, *arguments)
        return state

    def close(self) -> None:
        """Let go of the posteriors."""
        self._open, self._closed = [None] * len(self._sources), True

    def _shard(self, index: int) -> Shard:
        return self._open[index] or self._sources[index].open(posterior_in_memory=False)

    def _run(self, step: Callable[..., Tally], index: int, arguments: tuple[Any, ...]) -> Tally:
        return step(self._shard(index), *arguments)


def in_order(tasks: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """Results of tasks in their order, computed in threads; few are ahead of the one that is taken next, to save memory.

    A task that fails ends the rest. Kernels of tasks that run side by side use no further threads.
    """
    waiting = deque(tasks)
    if threads == 1 or len(waiting) < 2:
        while waiting:
            yield waiting.popleft()()
        return

    def alone(task: Callable[[], T]) -> T:
        with one_thread():
            return task()

    running: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="crowdwise-shard") as pool:
        try:
            while waiting or running:
                while waiting and len(running) <= threads:
                    running.append(pool.submit(alone, waiting.popleft()))
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
