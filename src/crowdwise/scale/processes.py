"""Several processes of one training, as a command meets them: started by torchrun, or to be started."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crowdwise.errors import SettingError, did_you_mean

__all__ = ["ENGINES", "group", "processes_running", "resumable", "starter"]

ENGINES = ("torchrun", "ray")


def processes_running(from_stdin: bool) -> int:
    """Processes that torchrun started together with this one; only the first of them speaks."""
    # Known without torch, which takes a second to load.
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 1
    from crowdwise.scale.training import launched

    if launched() > 1:
        # On other machines errors are shown: files may be missing there alone.
        if os.environ.get("RANK") != "0" and os.environ.get("GROUP_RANK", "0") == "0":
            sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if from_stdin:
            raise SettingError("only one of several processes could read the votes from stdin; name a file")
    return launched()


def starter(workers: int | None, engine: str | None, n_launched: int) -> Any:
    """What starts the processes, or None where this one trains alone or torchrun has started them."""
    if engine is not None and engine not in ENGINES:
        raise SettingError(
            f"--engine: there is no {engine!r}{did_you_mean(engine, list(ENGINES))} (there are {', '.join(ENGINES)})"
        )
    if workers is None:
        if engine is not None:
            raise SettingError("--engine needs --workers: the number of processes to start")
        return None
    if n_launched > 1:
        raise SettingError("torchrun has started the processes already; leave --workers out")
    from crowdwise.scale.training import Torchrun, check_workers

    check_workers(workers)
    if engine == "ray":
        from crowdwise.scale.training_ray import RayTrain

        return RayTrain(workers)
    return Torchrun(workers) if workers > 1 else None


@contextmanager
def group(n_launched: int) -> Iterator[int]:
    """The group of the processes that torchrun started, if it did; gives this one's rank."""
    if n_launched == 1:
        yield 0
        return
    from crowdwise.scale.training import joined

    with joined() as rank:
        yield rank


@contextmanager
def resumable(checkpoint: Path | None) -> Iterator[None]:
    """Say, where a training is interrupted, which file keeps its epochs, if there is one."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None or not checkpoint.exists():
            raise
        raise KeyboardInterrupt(f"{checkpoint} keeps the epochs that were finished; the same command resumes there") from None
