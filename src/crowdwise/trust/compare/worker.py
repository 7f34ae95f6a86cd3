"""The process of one method: reads the task from a folder, and leaves there what it found.

Started by `crowdwise.trust.compare.processes` as a plain Python process, so that scripts need no ``if __name__ == "__main__"``,
its peak memory is that of the method, and a time limit can end it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from crowdwise.trust.compare.exchange import read_estimator, read_task, write_arrays, write_outcome
from crowdwise.trust.compare.fitting import Outcome, run_method

__all__ = ["main", "peak_memory"]


def main(folder: str, method: str) -> None:
    """Run the method whose estimator lies in ``folder/method``."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    own = Path(folder) / method
    try:
        estimator = read_estimator(own)
    except ValueError as problem:
        write_outcome(Outcome(method, error=str(problem)), own)
        return
    outcome = run_method(estimator, read_task(Path(folder)), peak_memory, lambda fitted: write_outcome(fitted, own))
    write_arrays(outcome, own, "log_prob")
    write_outcome(Outcome(**vars(outcome) | {"posterior": None, "codes": None}), own)


def _end_with_parent() -> None:
    """Wait for the other end of stdin, which its owner's death closes too; then end with all one has started."""
    # Not `sys.stdin`: a thread that holds its lock would abort Python's own end.
    while os.read(0, 1024):
        pass
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def peak_memory() -> float | None:
    """Most memory that this process has held so far, in megabytes; None where the system does not say."""
    try:
        # Not `getrusage`, which in Linux counts what the parent held at the start of this process.
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None
    # Bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
