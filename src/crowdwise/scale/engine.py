"""What every engine does: bring votes into shards, run a method on them, and make its result.

Engines differ in where a shard's step runs (`open`) and where files are encoded (`map`), and in nothing else.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from crowdwise.data.annotations import Annotations
from crowdwise.data.edges import Edges
from crowdwise.engines.shards import Shards
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import as_annotations
from crowdwise.estimator.history import encode_history
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import METHODS, select
from crowdwise.io.leftovers import HeldFolder
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import SHARDED_STARTS
from crowdwise.scale.checkpoint import Checkpoints
from crowdwise.scale.components import has_edges
from crowdwise.scale.lock import Lock
from crowdwise.scale.outcome import ShardedResult, account
from crowdwise.scale.sharded_crowd import ShardedCrowd, answers
from crowdwise.scale.sources import Source, cut, folders_of
from crowdwise.scale.store import Store, full_disk_named

if TYPE_CHECKING:
    from typing_extensions import Self

    from crowdwise.engines.loop import Progress
    from crowdwise.estimator.aggregator import Aggregator

__all__ = ["Engine", "OpenShards"]

T = TypeVar("T")
# A shard of so many votes takes some 100 MB with a posterior of fifteen classes.
VOTES_PER_SHARD = 4_000_000


class OpenShards(Shards, Protocol):
    """Shards that must be closed."""

    def close(self) -> None:
        """Free what they hold."""
        ...


class Engine(ABC):
    """Base of the engines; one supplies `n_workers`, `place`, `map` and `open`."""

    def __init__(self, *, shards: int | None, work_dir: str | PathLike[str] | None, checkpoint_every: int) -> None:
        if shards is not None and (isinstance(shards, bool) or shards != int(shards) or shards < 1):
            raise SettingError(f"shards must be a whole number >= 1; got {shards!r}")
        self.n_shards, self.checkpoint_every = shards, checkpoint_every
        self._given = None if work_dir is None else Path(fspath(work_dir))
        self._temporary: HeldFolder | None = None
        self._n_encoded = 0
        self._shards: OpenShards | None = None
        self._lock: Lock | None = None
        #: First iteration of the last fit here, which may resume an earlier one; None where there was nothing left to do.
        self.first_round: int | None = None

    # -- what differs --------------------------------------------------------------------------

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Steps that run at the same time."""

    @property
    @abstractmethod
    def place(self) -> str:
        """What runs where, in words."""

    @abstractmethod
    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """Call a function of a module with each tuple of arguments; results come in order."""

    @abstractmethod
    def open(self, sources: Sequence[Source], checkpoints: Checkpoints | None) -> OpenShards:
        """The shards, ready for steps."""

    # -- what they share -----------------------------------------------------------------------

    @property
    def work_dir(self) -> Path:
        """Folder of encoded votes: the one given, or a temporary one."""
        if self._given is not None:
            return self._given
        if self._temporary is None:
            self._temporary = HeldFolder("crowdwise-")
            # Also when the engine is never closed.
            weakref.finalize(self, self._temporary.remove)
        return self._temporary.path / f"votes-{self._n_encoded}"

    def encode(self, paths: Any, **options: Any) -> Store:
        """Encode votes in files into shards in the work folder; see `crowdwise.scale.encode` for the options."""
        from crowdwise.scale.encoding import encode

        # A folder that nobody named holds the votes of one call, and another one those of the next.
        self._n_encoded += self._given is None
        with full_disk_named(self.work_dir):
            return encode(paths, self.work_dir, n_shards=self.n_shards, map=self.map, hold=self._hold, **options)

    def fit(
        self,
        estimator: Aggregator,
        data: Any,
        *,
        gold: Any = None,
        history: Any = None,
        progress: Progress | None = None,
    ) -> None:
        """Fit an estimator here; its `fit(data, engine=...)` comes to this.

        Parameters
        ----------
        data : Annotations, frame, matrix, Store or paths
            Paths and patterns of files ("votes/*.parquet") are encoded first, with columns found by their usual names.
        """
        check_method(estimator)
        votes = self._votes_of(data, gold, getattr(estimator, "edges", None))
        counts = None if history is None else encode_history(votes, history)
        shards, n_shards = self._opened(estimator, votes, counts)
        crowd = ShardedCrowd.of(votes, shards.total(answers), n_shards)
        self.first_round = None

        def counted(number: int, bound: float, change: float) -> None:
            self.first_round = self.first_round or number
            if progress is not None:
                progress(number, bound, change)

        done = estimator.solve(estimator.problem_of(shards, crowd, counts, counted))
        fields = estimator.summary_fields(done, counts)
        outcome: Result | ShardedResult
        if isinstance(votes, Store):
            counts_alk, agree, company = shards.total(account, done.annotators, done.prior.probability).sums
            outcome = ShardedResult(votes=crowd, shards=shards, counts=counts_alk, agree=agree, company=company, **fields)
        else:
            outcome = Result.of_fit(votes=votes, posterior=shards.posterior, **fields)
        estimator.keep_outcome(outcome)
        outcome.warn_if_switched()

    def _votes_of(self, data: Any, gold: Any, edges: Any) -> Annotations | Store:
        """Votes in memory, or encoded ones, with their gold labels; where there are edges, cut along them."""
        if isinstance(data, str | PathLike) or (isinstance(data, list) and data and isinstance(data[0], str | PathLike)):
            return self.encode(data, gold=gold, edges=None if edges is None else Edges.of(edges))
        if edges is not None and not (isinstance(data, Store) and has_edges(data)):
            raise SettingError(
                "items that depend on each other must lie in one shard: give files to fit, or encode(..., edges=...); "
                "votes in memory are fitted without an engine"
            )
        if not isinstance(data, Store):
            votes = as_annotations(data)
            return votes if gold is None else votes.with_gold(gold)
        if gold is not None:
            raise SettingError("known labels lie in the shards beside the votes: give them to encode(..., gold=...)")
        return data

    def _opened(self, estimator: Aggregator, votes: Annotations | Store, history: Floats | None) -> tuple[OpenShards, int]:
        """Open the shards of these votes instead of the earlier ones, and count them."""
        self._close_shards()
        checkpoints = None
        if isinstance(votes, Store):
            self._hold(votes.folder)
            sources = folders_of(votes)
            # When to stop is no part of what a fit is, so a fit with another limit resumes this one.
            settings = {name: value for name, value in estimator.get_params().items() if name not in ("max_iter", "tol")}
            known = None if history is None else sha256(history.tobytes()).hexdigest()
            run = {"method": estimator.name, "settings": settings, "history": known}
            # Nothing could be resumed from a folder that goes with this engine.
            if self._temporary is None or not votes.folder.is_relative_to(self._temporary.path):
                checkpoints = Checkpoints(votes.folder, run, self.checkpoint_every)
        else:
            sources = cut(votes, self.n_shards or max(-(-votes.n_votes // VOTES_PER_SHARD), self.n_workers))
        self._shards = self.open(sources, checkpoints)
        return self._shards, len(sources)

    def _hold(self, folder: Path) -> None:
        """Keep other runs out of a work folder, until this engine is closed or takes another one."""
        if self._lock is None or self._lock.folder != folder:
            self._let_go()
            self._lock = Lock(folder)

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _close_shards(self) -> None:
        if self._shards is not None:
            self._shards.close()
            self._shards = None

    def close(self) -> None:
        """Free the shards and delete a temporary work folder."""
        self._close_shards()
        self._let_go()
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_method(estimator: Aggregator) -> None:
    """Refuse a method, or a start of one, that needs all votes in one place, before any of them is read.

    Methods that need edges run, for shards are cut along these.
    """
    name, able = estimator.name, list(select(shards=True))
    if name not in able and not METHODS[name].edges:
        raise SettingError(f"{name} needs all votes in memory, so no engine can run it; engines run {', '.join(able)}")
    init, restarts = getattr(estimator, "init", "votes"), getattr(estimator, "restarts", 1)
    if restarts > 1 or not isinstance(init, str) or init not in SHARDED_STARTS:
        raise SettingError(
            f"votes in shards start from {', '.join(SHARDED_STARTS)}, in one run; "
            f"init={init!r:.40} with restarts={restarts} needs all votes in memory"
        )
