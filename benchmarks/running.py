"""Run benchmarks by name: as they are, or tiny."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import shlex
import signal
import sys
import traceback
import warnings
from types import ModuleType
from typing import Any

from benchmarks.declaration import Script, scripts
from benchmarks.places import SHARED

# Seconds of the processor that a quick run may take, and rounds that its fits have.
LIMIT = 60.0
FEW = {"max_iter": 5, "epochs": 2, "restarts": 1}


def run(name: str, own: list[str]) -> None:
    """Measure: the benchmark's `main`, with these arguments."""
    script = script_of(name)
    if missing := script.missing():
        raise SystemExit(f"{name} needs what is not here: {', '.join(missing)}; see docs/evidence/data.md")
    call(load(script), script, own)


def script_of(name: str) -> Script:
    """A benchmark by its name."""
    found = scripts()
    if name not in found:
        raise SystemExit(f"no benchmark is called {name!r}; python -m benchmarks list shows them")
    return found[name]


def load(script: Script) -> ModuleType:
    """Its module, under its own name."""
    return importlib.import_module(script.module)


def call(module: ModuleType, script: Script, own: list[str]) -> None:
    """`main()` with these arguments; fits of benchmarks warn of what they are meant to show."""
    before = sys.argv
    sys.argv = [f"python -m benchmarks run {script.name}", *own]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.main()
    finally:
        sys.argv = before


def run_quickly(name: str, own: list[str]) -> int:
    """One benchmark, or all of them with a line each; the number of those that failed."""
    if name != "all":
        script = script_of(name)
        if reason := no_quick(script):
            print(f"skipped: {reason}")
            return 0
        tiny(script, own)
        print("A quick run, on small simulated sets: it shows that the benchmark runs, and measures nothing.")
        return 0
    failed = 0
    for script in scripts().values():
        reason, started, said = no_quick(script), seconds(), io.StringIO()
        if reason:
            print(f"{script.name:24} skipped: {reason}", flush=True)
            continue
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                tiny(script, own)
            print(f"{script.name:24} {seconds() - started:5.1f} s", flush=True)
        except (Exception, SystemExit):
            failed += 1
            print(f"{script.name:24} FAILED\n{said.getvalue()[-2000:]}\n{traceback.format_exc()}", flush=True)
    return failed


def seconds() -> float:
    """Of the processor, by this process and those it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def no_quick(script: Script) -> str:
    """Why a benchmark cannot run quickly here; simulated sets stand in for data."""
    return script.declared.no_quick or ", ".join(f"no {one}" for one in script.missing(SHARED))


def hurry() -> None:
    """Let fits of this process end early: what `crowdwise.make` builds has few rounds unless the benchmark says how many."""
    import crowdwise

    build = crowdwise.make
    if hasattr(build, "usual"):
        return

    def made(method: str, /, **settings: Any) -> Any:
        model = build(method, **settings)
        few = {name: value for name, value in FEW.items() if name in model.get_params() and name not in settings}
        return model.set_params(**few)

    made.usual = build  # type: ignore[attr-defined]
    crowdwise.make = made  # type: ignore[assignment]


def tiny(script: Script, own: list[str]) -> None:
    """With the declared arguments and constants of a quick run."""
    hurry()
    module = load(script)
    for constant, value in script.declared.small.items():
        if not hasattr(module, constant):
            raise ValueError(f"{script.name} has no constant {constant}")
        setattr(module, constant, value)
    for function in script.declared.leaves_out:
        setattr(module, function, lambda *_, **__: "")
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        call(module, script, [*shlex.split(script.declared.quick), *own])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"a quick run took more than {LIMIT:.0f} s of the processor")
