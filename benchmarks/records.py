"""Runs that were measured, one line each in benchmarks/records/NAME.jsonl, so that later commands need not repeat them.

A line holds the key (what was run, with which settings), the result, and the code that it came from: the commit, with a plus
where library or scripts had changes, or the version of the package where there is no git. Of lines with the same key the last
one counts. A command that was interrupted while it wrote leaves half a line: it is skipped, and its run measured again.
"""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.places import KEPT, RECORDS, ROOT

__all__ = ["KEPT", "Records", "code", "rounded"]

DIGITS = 6


class Records:
    """The runs of one benchmark, in a file that only grows."""

    def __init__(self, name: str, folder: Path = RECORDS) -> None:
        self.path = folder / f"{name}.jsonl"

    def read(self) -> dict[str, Any]:
        """Key -> result."""
        return {line["key"]: line["result"] for line in self._lines()}

    def codes(self, keys: list[str]) -> list[str]:
        """The codes that the runs with these keys came from, in the order of the file."""
        of = {line["key"]: line["code"] for line in self._lines() if line["key"] in set(keys)}
        return list(dict.fromkeys(of.values()))

    def add(self, key: str, result: Any) -> None:
        """Append a run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"key": key, "result": rounded(result), "code": code()}) + "\n"
        with self.path.open("ab+") as file:
            if file.tell():
                file.seek(-1, 2)
                # Half a line from a command that was interrupted must not spoil this one.
                line = line if file.read(1) == b"\n" else "\n" + line
            file.write(line.encode())

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found


def rounded(value: Any) -> Any:
    """The same with six significant digits: more than any table shows."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def code() -> str:
    """The commit of the working tree, or the version of the package."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)

    try:
        commit = git("rev-parse", "--short", "HEAD")
        changed = git("diff", "--quiet", "HEAD", "--", "src", "benchmarks/**/*.py").returncode
    except OSError:
        return version("crowdwise")
    if commit.returncode:
        return version("crowdwise")
    return commit.stdout.strip() + ("+" if changed else "")
