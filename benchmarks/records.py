"""Runs that were measured, one line each in benchmarks/records/NAME.jsonl, so that later commands need not repeat them.

A line holds the key (what was run, with which settings), the result, the day, the machine with its versions, and the code that
the run came from: the commit, with a plus where library or scripts had changes, or the version of the package where there is
no git. Of lines with the same key the last one counts. A command that was interrupted while it wrote leaves half a line: it is
skipped, and its run measured again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.places import KEPT, RECORDS
from benchmarks.provenance import code, machine

__all__ = ["KEPT", "NotMeasuredError", "Records", "rounded"]

Measure = TypeVar("Measure", bound=Callable[..., Any])
DIGITS = 6
# While pages are rendered from records, nothing may be measured.
RENDERING = False
# Meanwhile, what measures some runs again and compares (benchmarks/checking.py).
CHECKING: Any = None


class NotMeasuredError(Exception):
    """A page needs a run that has no record."""


class Records:
    """The runs of one benchmark, in a file that only grows."""

    def __init__(self, name: str, folder: Path = RECORDS) -> None:
        self.path = folder / f"{name}.jsonl"
        self._used: dict[str, None] = {}
        self._read: tuple[int, dict[str, Any]] = (-1, {})

    def read(self) -> dict[str, Any]:
        """Key -> result."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self._read[0]:
            self._read = size, {line["key"]: line["result"] for line in self.lines()}
        return self._read[1]

    def each(self, measure: Measure) -> Measure:
        """Decorate a function whose calls are runs: the key is its name with the arguments, which are plain values."""

        @wraps(measure)
        def kept(*values: Any, **named: Any) -> Any:
            key = json.dumps([measure.__name__, *values, *([named] if named else [])])
            return self.once(key, lambda: measure(*values, **named))

        return kept  # type: ignore[return-value]

    def codes(self, keys: list[str]) -> list[str]:
        """The codes that the runs with these keys came from, in the order of the file."""
        of = {line["key"]: line["code"] for line in self.lines() if line["key"] in set(keys)}
        return list(dict.fromkeys(of.values()))

    def once(self, key: str, measure: Callable[[], Any]) -> Any:
        """The result of a run: from its record, or measured now and recorded."""
        self._used[key] = None
        kept = self.read()
        if key not in kept:
            self.refuse_to_measure(key)
            self.add(key, measure())
            kept = self.read()
        elif CHECKING:
            CHECKING.again(key, kept[key], measure)
        return kept[key]

    def refuse_to_measure(self, key: str) -> None:
        """Stop here while pages are rendered: before a run, not after it."""
        if RENDERING:
            raise NotMeasuredError(f"{self.path.stem} {key}")

    def used(self) -> list[dict[str, Any]]:
        """The lines that `once` has handed out since this was asked last; all lines where there are none."""
        last = {line["key"]: line for line in self.lines()}
        asked, self._used = self._used, {}
        return [last[key] for key in asked if key in last] if asked else list(last.values())

    def add(self, key: str, result: Any) -> None:
        """Append a run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        made = {"key": key, "result": rounded(result), "code": code(), "day": str(date.today()), "machine": machine()}
        line = json.dumps(made) + "\n"
        with self.path.open("ab+") as file:
            if file.tell():
                file.seek(-1, 2)
                # Half a line from a command that was interrupted must not spoil this one.
                line = line if file.read(1) == b"\n" else "\n" + line
            file.write(line.encode())

    def lines(self) -> list[dict[str, Any]]:
        """All lines, as they were written."""
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
    """The same as plain values, with six significant digits: more than any table shows."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
