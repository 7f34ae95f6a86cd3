"""Engines that train a classifier in several processes, through the same `fit`.

    CCEM().fit(X, votes, engine=Torchrun(workers=2))

An engine checks features and votes here, writes them once, and starts the workers, which all run the ordinary `fit` as one
group of `torch.distributed`. The caller's estimator takes over what the first of them has saved. `RayTrain` does the
same on a cluster.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.errors import SettingError
from crowdwise.io.leftovers import held_folder
from crowdwise.scale.training_files import write_estimator, write_task
from crowdwise.scale.training_outcome import Listener, raise_problem, take_over
from crowdwise.scale.training_worker import start_group

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.engines.loop import Progress
    from crowdwise.methods.classify.base import CrowdClassifier

__all__ = ["Torchrun", "check_trainable", "check_workers", "joined", "launched", "prepared", "worker_environment"]

# The path is this process's, set before any import: a module in the user's folder must not stand in for one of Python's.
_PATH = "import sys; sys.path[:] = {path!r}; "
_AGENT = _PATH + "from torch.distributed.run import main; main()"
_WORKER = _PATH + "from crowdwise.scale.training_worker import main; main(*sys.argv[1:])"
_THREADS = ("CROWDWISE_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_PAUSE, _PATIENCE = 0.05, 10.0


@dataclass(frozen=True)
class Torchrun:
    """Worker processes on this machine, started by torchrun.

    Parameters
    ----------
    workers : int
        Processes; each takes its share of every batch.
    """

    workers: int = 2

    def train(
        self,
        estimator: CrowdClassifier,
        X: Any,
        y: Any,
        *,
        items: Any = None,
        gold: Any = None,
        progress: Progress | None = None,
    ) -> None:
        """Fit `estimator`; see `CrowdClassifier.fit` for the arguments."""
        check_workers(self.workers)
        features, votes = prepared(estimator, X, y, items, gold)
        with held_folder() as folder:
            digest = write_estimator(estimator, folder)
            write_task(features, votes, folder)
            listener = Listener(folder, progress)
            process = self._start(folder, digest)
            try:
                while process.poll() is None:
                    listener.poll()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_PAUSE)
            finally:
                _stop(process)
            listener.poll()
            if process.returncode:
                raise_problem(folder, _said(folder))
            take_over(estimator, folder, votes)

    def _start(self, folder: Path, digest: str) -> subprocess.Popen[bytes]:
        worker = [sys.executable, "-c", _WORKER.format(path=sys.path), str(folder), digest]
        agent = [
            *(sys.executable, "-c", _AGENT.format(path=sys.path)),
            *("--nnodes", "1", "--nproc-per-node", str(self.workers), "--local-addr", "127.0.0.1"),
            # Through a file in the folder, so that no port is opened.
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", str(folder / "agent"), "--rdzv-conf", "store_type=file"),
            *("--no-python", *worker),
        ]
        with (folder / "stderr").open("wb") as said:
            return subprocess.Popen(
                agent,
                # Its other end stays open as long as this process lives, which is how the workers know.
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=os.environ | worker_environment(self.workers) | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
                # Ctrl-C comes to us alone.
                start_new_session=True,
            )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the workers, which wait for the end of their input, and the process that started them."""
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _said(folder: Path) -> str:
    """Why the workers ended without a word of their own."""
    text = (folder / "stderr").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"exitcode\s*:\s*-(\d+)", text)
    if found:
        with suppress(ValueError):
            name = signal.Signals(int(found[1])).name
            return f"a worker was ended by {name}" + ("; perhaps it was out of memory" if name == "SIGKILL" else "")
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return "the workers could not be started" + (f": {last[:300]}" if last else "")


# -- shared by engines -------------------------------------------------------------------------


def check_workers(workers: Any) -> None:
    """Refuse a number of workers that is none."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise SettingError(f"workers must be a whole number >= 1; got {workers!r}")


def check_trainable(estimator: CrowdClassifier) -> None:
    """Refuse methods that several processes could not share."""
    from crowdwise.methods.classify.trained import TrainedClassifier

    if not isinstance(estimator, TrainedClassifier):
        raise SettingError(
            f"{estimator.name} is not trained batch by batch, so that several processes cannot share it; train it in one"
        )


def prepared(estimator: CrowdClassifier, X: Any, y: Any, items: Any, gold: Any) -> tuple[Any, Annotations]:
    """Features and votes, checked here as `fit` checks them: mistakes are found before a worker is started."""
    import torch.distributed as dist

    from crowdwise.estimator.estimator import check_settings, check_tables
    from crowdwise.methods.classify.align import aligned_votes
    from crowdwise.methods.classify.features import checked_features

    check_trainable(estimator)
    if dist.is_available() and dist.is_initialized():
        raise SettingError("this process trains with others already; leave engine= out")
    check_settings(estimator)
    features = checked_features(estimator, X, fitting=True, images=estimator.takes_images)
    votes = aligned_votes(features, y, items, gold)
    check_tables(votes.n_annotators, votes.n_classes, votes.n_votes)
    return features, votes


def worker_environment(workers: int) -> dict[str, str]:
    """Threads of each of `workers` processes on this machine, which speak to each other over the loopback interface."""
    from crowdwise.kernels.numerics import n_threads

    given = os.environ.get("OMP_NUM_THREADS", "")
    most = int(given) if given.isdigit() and int(given) else n_threads()
    each = str(max(1, min(most, n_threads() // workers)))
    environment = dict.fromkeys(_THREADS, each)
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")] if hasattr(socket, "if_nameindex") else []
    if loopback and "GLOO_SOCKET_IFNAME" not in os.environ:
        environment["GLOO_SOCKET_IFNAME"] = loopback[0]
    return environment


# -- in a process that torchrun started --------------------------------------------------------


def launched() -> int:
    """Processes that torchrun started together with this one; 1 where it did not."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1


@contextmanager
def joined() -> Iterator[int]:
    """Train with the other processes that torchrun started, if it did; gives this one's rank."""
    if launched() == 1:
        yield 0
        return
    import torch.distributed as dist

    start_group()
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()
