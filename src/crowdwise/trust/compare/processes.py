"""A process per method, some at a time, each with a time limit; none outlives the comparison.

In Linux they are forked from one that has imported everything (`crowdwise.trust.compare.nursery`), because imports take longer
than most methods on a few thousand votes; elsewhere each is started on its own.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from crowdwise.errors import SettingError
from crowdwise.io.leftovers import held_folder
from crowdwise.trust.compare.exchange import read_outcome, write_estimator, write_task
from crowdwise.trust.compare.fitting import Outcome, Task

__all__ = ["run_all"]

# One thread each: with more, the number of processes would decide the order of sums, and so the last digits.
_ONE_THREAD = dict.fromkeys(
    (
        "CROWDWISE_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
        "POLARS_MAX_THREADS",
    ),
    "1",
)
# The path is this process's, set before any import: a module in the user's folder must not stand in for one of Python's.
_START = "import sys; sys.path[:] = {path!r}; from crowdwise.trust.compare.{module} import main; main(*sys.argv[1:])"
_PAUSE = 0.02


class _Process(Protocol):
    """What is asked of a method's process."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self) -> int | None: ...


@dataclass
class _Running:
    """A method's process and when it began."""

    process: _Process
    start: float


def run_all(
    estimators: Sequence[Any],
    task: Task,
    *,
    jobs: int,
    time_limit: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    done: Callable[[Outcome], None],
) -> None:
    """Run every method in a process of its own, at most `jobs` at a time, and hand over each outcome as it comes.

    Parameters
    ----------
    time_limit : float, optional
        Seconds after which a method is ended; what it had finished by then is kept.
    progress : callable, optional
        Called with (methods that run, methods done, methods in all) whenever that changes.
    done : callable
        Given every outcome once, in the order in which methods end.
    """
    if not sys.executable:
        raise SettingError("this Python does not know its own program, so it can start no other; compare with jobs=None")
    waiting = list(estimators)
    running: dict[str, _Running] = {}
    with held_folder() as folder:
        write_task(task, folder)
        for estimator in estimators:
            write_estimator(estimator, folder / estimator.name)
        nursery = _Nursery(folder) if sys.platform == "linux" else None
        try:
            while waiting or running:
                changed = False
                while waiting and len(running) < jobs:
                    method = waiting.pop(0).name
                    with _uninterrupted():
                        running[method] = _Running(_start(folder, method, nursery), time.monotonic())
                    changed = True
                if changed and progress is not None:
                    progress(", ".join(running), len(estimators) - len(waiting) - len(running), len(estimators))
                time.sleep(_PAUSE)
                for method in list(running):
                    outcome = _ended(method, running[method], folder / method, time_limit)
                    if outcome is not None:
                        _stop(running.pop(method).process)
                        done(outcome)
        finally:
            for one in running.values():
                _stop(one.process)
            if nursery is not None:
                nursery.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off for a moment: one between the start of a process and its entry in the books would leave it alone."""
    before = signal.getsignal(signal.SIGINT)
    # Only the main thread is interrupted, and only it may say how.
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    waiting: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)


def _start(folder: Path, method: str, nursery: _Nursery | None) -> _Process:
    if nursery is not None:
        return nursery.start(method)
    # Its stdin stays open as long as this process lives, which is how the other one knows.
    with (folder / method / "stderr").open("wb") as errors:
        return _python("worker", str(folder), method, stdout=subprocess.DEVNULL, stderr=errors)


def _python(module: str, *words: str, **streams: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _START.format(path=sys.path, module=module), *words],
        stdin=subprocess.PIPE,
        **streams,
        bufsize=0,
        env=os.environ | _ONE_THREAD,
        # A group of its own can be ended with all that a method has started; Ctrl-C comes to us alone.
        start_new_session=True,
    )


class _Nursery:
    """The process of `crowdwise.trust.compare.nursery`, and those that it has started."""

    def __init__(self, folder: Path) -> None:
        self._errors = (folder / "stderr").open("wb")
        self._process = _python("nursery", str(folder), stdout=subprocess.PIPE, stderr=self._errors)
        self._children: dict[int, _Child] = {}
        self._heard = b""

    def start(self, method: str) -> _Child:
        """Fork a process for a method."""
        assert self._process.stdin is not None
        known = set(self._children)
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{method}\n".encode())
        while not (new := set(self._children) - known):
            if not self.listen(timeout=1.0):
                # It died; what it says of the reason is not ours to guess.
                return _Child(0, self, -signal.SIGKILL)
        return self._children[new.pop()]

    def listen(self, timeout: float = 0.0) -> bool:
        """Take in who has started and who has ended; False where the nursery is gone, and with it all that it started."""
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while select.select([pipe], [], [], timeout)[0]:
            timeout, more = 0.0, os.read(pipe, 4096)
            if not more:
                for child in self._children.values():
                    child.returncode = -signal.SIGKILL if child.returncode is None else child.returncode
                return False
            *lines, self._heard = (self._heard + more).split(b"\n")
            for pid, *code in (map(int, line.split()) for line in lines):
                if code:
                    self._children[pid].returncode = code[0]
                else:
                    self._children[pid] = _Child(pid, self)
        return True

    def close(self) -> None:
        """End it, and with it whatever it had started."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()
        self._errors.close()


class _Child:
    """A process that a nursery has started."""

    def __init__(self, pid: int, nursery: _Nursery, returncode: int | None = None) -> None:
        self.pid, self.returncode, self._nursery = pid, returncode, nursery

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        self._nursery.listen()
        return self.returncode

    def wait(self) -> int | None:
        """Exit code, once there is one."""
        while self.poll() is None:
            time.sleep(_PAUSE / 4)
        return self.returncode


def _ended(method: str, one: _Running, folder: Path, time_limit: float | None) -> Outcome | None:
    """The outcome of a process that is over, or is now ended because its time is; None while it runs."""
    code = one.process.poll()
    late = code is None and time_limit is not None and time.monotonic() - one.start > time_limit
    if code is None and not late:
        return None
    if late:
        _stop(one.process)
    outcome = read_outcome(method, folder)
    if code == 0 and outcome is not None:
        return outcome
    reason = f"stopped at the time limit of {time_limit:g} s" if late else _crash(one.process.returncode, folder)
    if outcome is None:
        return Outcome(method, error=reason)
    outcome.error = outcome.error or f"held-out votes: {reason}"
    return outcome


def _crash(code: int | None, folder: Path) -> str:
    """Why a process ended without a word of its own."""
    if code is not None and code < 0:
        with suppress(ValueError):
            name = signal.Signals(-code).name
            return f"ended by {name}" + ("; perhaps it was out of memory" if name == "SIGKILL" else "")
    said = (folder / "stderr").read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(said) if line.strip()), "")
    return f"its process ended with code {code}" + (f": {last[:300]}" if last else "")


def _stop(process: _Process) -> None:
    """End a process and all that it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                os.kill(process.pid, signal.SIGTERM)
        process.wait()
    if isinstance(process, subprocess.Popen) and process.stdin is not None:
        process.stdin.close()
