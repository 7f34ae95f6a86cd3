"""What every process of a data-parallel training runs: the same `fit`, after which the first one saves the model."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path
from typing import Any

from crowdwise.data.annotations import Annotations
from crowdwise.scale.training_files import read_task
from crowdwise.scale.training_outcome import MODEL, reporter, write_problem, write_warnings

__all__ = ["fit", "main", "start_group"]


def start_group(**how: Any) -> None:
    """Begin to train together: by gloo on processors, by nccl on GPUs, of which every process takes its own."""
    import torch
    import torch.distributed as dist

    gpu = torch.cuda.is_available() and dist.is_nccl_available()
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if gpu else "gloo", **how)


def main(folder: str, digest: str) -> None:
    """Run in a process that torchrun has started; its exit code says whether it went well."""
    import torch.distributed as dist

    threading.Thread(target=_end_with_parent, daemon=True).start()
    where, rank, size = Path(folder), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    code = 1
    try:
        # They meet in a file: no port is opened that others could speak to.
        meeting = dist.FileStore(str(where / "meeting"), size)  # type: ignore[attr-defined]
        start_group(store=meeting, rank=rank, world_size=size)
        estimator, features, votes = read_task(where, digest)
        fit(estimator, features, votes, where, rank)
        dist.destroy_process_group()
        code = 0
    except BaseException as problem:
        write_problem(problem, rank, where)
    finally:
        # Threads of gloo that wait for a peer which has left would abort the interpreter on its way out.
        os._exit(code)


def fit(estimator: Any, features: Any, votes: Annotations, folder: Path, rank: int) -> None:
    """Fit as one of the processes; the first one leaves the model and its warnings in the folder."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        estimator.fit(features, votes, progress=reporter(folder, rank == 0))
    if rank == 0:
        write_warnings(heard, folder)
        estimator.save(folder / MODEL)


def _end_with_parent() -> None:
    """Wait for the other end of stdin, which its owner's death closes too; then end."""
    # Not `sys.stdin`: a thread that holds its lock would abort Python's own end.
    while os.read(0, 1024):
        pass
    os._exit(1)
