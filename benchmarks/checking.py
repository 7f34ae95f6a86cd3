"""Whether today's code still gives what is recorded: a few runs of a benchmark measured again and compared number by number.

Files of the library change every day, mostly in ways that no figure sees. The runs are drawn at random, the same ones at the
same commit. What they give is only compared: records and pages stay as they are. The outcome is a line of records/checks.jsonl,
which `list` shows.
"""

from __future__ import annotations

import contextlib
import io
import math
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import records
from benchmarks.declaration import Script, scripts
from benchmarks.provenance import code
from benchmarks.records import Records
from benchmarks.running import call, load, script_of, seconds

# What these rooms measure is never the same twice: seconds and bytes.
TIMED = ("speed", "versus", "scale")
RUNS, SECONDS = 3, 40.0
# Fields that are never the same twice elsewhere.
NEVER = ("seconds", "test seconds", "second", "processor", "predicting", "curve", "memory", "mb", "peak")
# Threads add up in other orders.
TOLERANCE = 1e-3


class Check:
    """Measures drawn runs again, until there are enough or time is over."""

    def __init__(self, name: str, keys: list[str]) -> None:
        random.Random(f"{name} {code()}").shuffle(keys)
        self.drawn, self.until = set(keys[: 8 * RUNS]), seconds() + SECONDS
        self.runs = self.numbers = self.same = 0
        self.failed = ""

    def again(self, key: str, kept: Any, measure: Callable[[], Any]) -> None:
        left = self.until - seconds()
        if key not in self.drawn or self.runs >= RUNS or left <= 0:
            return
        self.drawn.discard(key)
        signal.signal(signal.SIGPROF, _too_long)
        signal.signal(signal.SIGALRM, _too_long)
        signal.setitimer(signal.ITIMER_PROF, max(left / 2, 1))
        signal.setitimer(signal.ITIMER_REAL, 4 * SECONDS)  # for what waits, too
        try:
            now = records.rounded(measure())
        except TimeoutError:
            return
        except Exception as error:  # what a run needs may be missing here: the other benchmarks are checked all the same
            self.failed = f"{type(error).__name__}: {error}"[:100]
            return
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        numbers, same = compared(kept, now)
        self.runs, self.numbers, self.same = self.runs + 1, self.numbers + numbers, self.same + same


def compared(kept: Any, now: Any) -> tuple[int, int]:
    """How many values there are besides seconds and bytes, and how many of them are the same in both."""
    if isinstance(kept, dict) and isinstance(now, dict) and kept.keys() == now.keys():
        parts = [compared(kept[key], now[key]) for key in kept if key not in NEVER]
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        parts = [compared(*pair) for pair in zip(kept, now, strict=True)]
    elif isinstance(kept, float) and isinstance(now, float | int):
        return 1, math.isclose(kept, now, rel_tol=TOLERANCE, abs_tol=1e-9) or (math.isnan(kept) and math.isnan(now))
    else:
        return 1, kept == now
    return sum(one[0] for one in parts), sum(one[1] for one in parts)


def check(names: list[str]) -> Iterator[str]:
    """A line per benchmark; of all of them where none is named."""
    for script in [script_of(name) for name in names] or scripts().values():
        done = why_not(script) or _checked(script)
        if isinstance(done, Check):
            result = {"runs": done.runs, "numbers": done.numbers, "same": done.same}
            Records("checks").add(script.name, result)
            yield f"{script.name}: {said(result)}"
        else:
            yield f"{script.name}: {done}"


def why_not(script: Script) -> str:
    """Why nothing can be compared; empty where it can."""
    if script.room in TIMED:
        return "not checked, it measures time or memory"
    if not script.declared.renders or not Records(script.declared.records or script.name).lines():
        return "not checked, its blocks do not come from records"
    return "".join(f"not checked, needs {', '.join(missing)}" for missing in [script.missing()] if missing)


def _checked(script: Script) -> Check | str:
    kept = Records(script.declared.records or script.name)
    one = records.CHECKING = Check(script.name, list(kept.read()))
    records.RENDERING = True
    try:
        for arguments in script.declared.renders:
            with contextlib.redirect_stdout(io.StringIO()):
                call(load(script), script, arguments.split())
    except records.NotMeasuredError as lacking:
        return f"not checked, no record of {lacking}"
    finally:
        records.CHECKING, records.RENDERING = None, False
    return one if one.runs else f"not checked, {one.failed or f'no run is over in {SECONDS:.0f} s'}"


def said(result: dict[str, int]) -> str:
    """The outcome in words."""
    runs = f"{result['runs']} run{'s' if result['runs'] > 1 else ''} measured again"
    share = 100 * result["same"] / result["numbers"]
    return f"{runs}, " + (
        "all values as recorded" if share == 100 else f"{math.floor(share)}% of {result['numbers']:,} values as recorded"
    )


def _too_long(*_: object) -> None:
    raise TimeoutError
