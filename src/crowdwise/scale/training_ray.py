"""Train a classifier by Ray Train: on this machine, or on the nodes of a cluster.

    CCEM().fit(X, votes, engine=RayTrain(workers=4))

Features and votes lie in a folder that all workers see; the estimator travels with Ray, so that its settings may be lambdas.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from crowdwise.errors import MissingExtraError, SettingError
from crowdwise.scale.cluster import connect, import_ray
from crowdwise.scale.training import check_workers, prepared, worker_environment
from crowdwise.scale.training_files import read_data, unfitted, write_task
from crowdwise.scale.training_outcome import Listener, ask_to_stop, raise_problem, take_over, write_problem
from crowdwise.scale.training_worker import fit

if TYPE_CHECKING:
    from os import PathLike

    from crowdwise.engines.loop import Progress
    from crowdwise.methods.classify.base import CrowdClassifier

__all__ = ["RayTrain"]

_PAUSE = 0.1
# Seconds that workers get to finish their epoch after Ctrl-C, where the cluster does not end with them.
_PATIENCE = 30.0


@dataclass(frozen=True)
class RayTrain:
    """Workers of Ray.

    Parameters
    ----------
    workers : int
        Processes; each takes its share of every batch.
    address : str, optional
        A running cluster; by default one is started on this machine for the time of the fit.
    storage : folder, optional
        Where features, votes and the model are exchanged. Needed with `address`: a folder that all nodes see.
    """

    workers: int = 2
    address: str | None = None
    storage: str | PathLike[str] | None = None

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
        if self.address is not None and self.storage is None:
            raise SettingError("storage: name a folder that all nodes of the cluster see")
        if self.storage is not None and not Path(self.storage).is_dir():
            raise SettingError(f"storage: {self.storage} is not a folder; make it, or name another")
        _check_ray()
        features, votes = prepared(estimator, X, y, items, gold)
        storage = None if self.storage is None else Path(self.storage).absolute()
        with TemporaryDirectory(prefix="crowdwise-", dir=storage, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            write_task(features, votes, folder, same_machine=self.address is None)
            # One that is there already, or a cluster at an address, does not end with this fit.
            stays = self.address is not None or import_ray().is_initialized()
            with connect(self.address, cpus=self.workers), warnings.catch_warnings():
                # Of Ray's parts about each other, which no user can change.
                for kind in (DeprecationWarning, FutureWarning, ResourceWarning):
                    warnings.simplefilter("ignore", kind)
                self._run(estimator, folder, Listener(folder, progress), _PATIENCE if stays else 0.0)
            take_over(estimator, folder, votes)

    def _run(self, estimator: CrowdClassifier, folder: Path, listener: Listener, patience: float) -> None:
        """Wait for the workers while their progress is passed on; when interrupted, so long for the end of their epoch."""
        trainer, problems = self._trainer(estimator, folder), list[BaseException]()

        def work() -> None:
            try:
                trainer.fit()
            except BaseException as problem:
                problems.append(problem)

        # In the main thread Ray would put a handler of its own in the place of Ctrl-C's, and leave it there.
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_PAUSE)
                listener.poll()
        except BaseException:
            ask_to_stop(folder)
            thread.join(patience)
            raise
        if problems:
            first = str(problems[0]).strip().splitlines() or [type(problems[0]).__name__]
            raise_problem(folder, f"Ray could not train: {first[-1][:300]}")

    def _trainer(self, estimator: CrowdClassifier, folder: Path) -> Any:
        import torch

        # Without types: those of Ray are of an older form of these classes.
        train, resources = import_module("ray.train"), import_ray().cluster_resources()
        cores = int(resources.get("CPU", 0))
        if self.workers > cores:
            raise SettingError(f"workers: {self.workers} need as many cores, and Ray has {cores}; ask for fewer")
        gpu = resources.get("GPU", 0) >= self.workers and torch.cuda.is_available()
        environment = {"RAY_TRAIN_ENABLE_PRINT_PATCH": "0"}
        if self.address is None:
            environment |= worker_environment(self.workers) | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        # Older versions have nothing to say it with.
        quiet = {"logging_config": train.LoggingConfig(log_level="CRITICAL")} if hasattr(train, "LoggingConfig") else {}
        return import_module("ray.train.torch").TorchTrainer(
            _work,
            train_loop_config={"estimator": unfitted(estimator), "folder": str(folder)},
            scaling_config=train.ScalingConfig(num_workers=self.workers, use_gpu=gpu),
            run_config=train.RunConfig(
                name="train",
                storage_path=str(folder / "ray"),
                failure_config=train.FailureConfig(max_failures=0, controller_failure_limit=0),
                worker_runtime_env={"env_vars": environment},
                **quiet,
            ),
        )


def _work(config: dict[str, Any]) -> None:
    """What every worker runs, in the group that Ray Train has made."""
    import torch.distributed as dist

    # Of one worker, Ray makes no less of a group.
    folder, rank = Path(config["folder"]), dist.get_rank() if dist.is_initialized() else 0
    try:
        features, votes = read_data(folder)
        fit(config["estimator"], features, votes, folder, rank)
    except BaseException as problem:
        write_problem(problem, rank, folder)
        # Plain, because whatever it is has to travel back through Ray.
        raise RuntimeError(f"worker {rank} failed") from None


def _check_ray() -> None:
    """Refuse to begin without Ray Train, and say how to get it."""
    try:
        import ray.train.torch  # noqa: F401
    except ImportError as problem:
        raise MissingExtraError(f"RayTrain needs Ray Train ({problem}): pip install 'crowdwise[scale]'") from problem
