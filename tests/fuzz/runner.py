"""Watches processes that try cases: one that hangs is ended, one that dies is replaced, and the case is noted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.worker import note

# Seconds of work; a case takes milliseconds. A process that neither works nor ends has more, because a machine may be busy.
LONGEST = 30.0
_PATIENCE = 20
# Making the seeds takes a few seconds, and much more where compiled loops are not in the cache.
_START = 180.0
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Job:
    """Every `step`-th case from `at` on, in a process of its own."""

    seed: int
    at: int
    stop: int
    step: int
    folder: Path
    process: Any = None
    seen: tuple[int, float, float] = (-1, 0.0, 0.0)

    def begin(self) -> None:
        """Start the process at the next case, and keep where that is, for a run that is stopped before it is reached."""
        (self.folder / f"from-{self.at % self.step}").write_text(str(self.at))
        (self.folder / f"at-{self.at % self.step}").unlink(missing_ok=True)
        words = [str(each) for each in (self.seed, self.at, self.stop, self.step, self.folder)]
        # Panics of polars are printed by polars itself.
        with (self.folder / "stderr.txt").open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "tests.fuzz.worker", *words], cwd=_ROOT, stderr=log)
        self.seen = -1, time.monotonic(), 0.0

    def look(self) -> bool:
        """Note what has gone wrong and continue behind it; whether the job is done."""
        index = self._index()
        if index != self.seen[0]:
            self.seen = index, time.monotonic(), _work_of(self.process.pid)
        ended = self.process.poll()
        if ended == 0:
            return True
        waited = time.monotonic() - self.seen[1]
        most = LONGEST if index >= 0 else _START
        worked = _work_of(self.process.pid) - self.seen[2]
        if ended is None and worked <= most and waited <= most * _PATIENCE:
            return False
        if ended is None:
            self.process.kill()
            self.process.wait()
        if index < 0:
            raise RuntimeError(f"the fuzzer itself fails: {(self.folder / 'stderr.txt').read_text()[-2000:]}")
        what = f"hung for {waited:.0f} s, {worked:.0f} s of work" if ended is None else f"ended by {ended}"
        note(self.folder, self.seed, index, "case", None, what, "process")
        self.at = index + self.step
        if self.at >= self.stop:
            return True
        self.begin()
        return False

    def _index(self, file: str = "at") -> int:
        try:
            return int((self.folder / f"{file}-{self.at % self.step}").read_text())
        except (OSError, ValueError):
            return -1

    def reached(self) -> int:
        """The case at which an earlier run stopped; -1 if there was none."""
        return max(self._index(), self._index("from"))


def _work_of(process: int) -> float:
    """Seconds of processor time that a process has taken; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def run_cases(seed: int, start: int, stop: int, jobs: int, folder: Path, tell: Any = None) -> list[dict[str, Any]]:
    """Try the cases and return the findings; a folder in which fewer were tried before is continued."""
    folder.mkdir(parents=True, exist_ok=True)
    running = []
    for number in range(jobs):
        job = Job(seed, start + number, stop, jobs, folder)
        done = job.reached()
        job.at = max(job.at, done - (done - job.at) % jobs)
        if job.at < stop:
            job.begin()
            running.append(job)
    while running:
        time.sleep(0.2)
        running = [job for job in running if not job.look()]
        if tell is not None:
            tell(running)
    found = folder / "findings.jsonl"
    return [json.loads(line) for line in found.read_text().splitlines()] if found.exists() else []
