"""Run the commands of a checkout in fresh interpreters: the modules they touch, the methods registered, the public names.

    python tools/house_runs.py src             # JSON on stdout; `tools/house.py` prints it for readers

A module is touched when the body of one of its functions runs, in any thread, while no module of the package is being
imported. Compiled kernels are seen when Python calls them, not when one kernel calls another. Other processes are not seen.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = "crowdwise"
COMMANDS = {
    "aggregate": ["aggregate", "votes.csv", "-m", "dawid-skene", "-o", "labels.csv"],
    "train": ["train", "votes.csv", "--features", "features.csv", "-m", "raykar", "-o", "labels.csv"],
}


def collect(src: Path) -> dict[str, Any]:
    """Trace every command and describe the package, each in an interpreter of its own."""
    return {name: fresh(src, "trace", *words) for name, words in COMMANDS.items()} | {"package": fresh(src, "describe")}


def fresh(src: Path, job: str, *words: str) -> dict[str, Any]:
    """Run one job of this file on the package in `src`; a failure is kept as the field `error`."""
    with tempfile.TemporaryDirectory() as folder:
        write_crowd(Path(folder))
        found = Path(folder, "found.json")
        command = [sys.executable, str(Path(__file__).resolve()), str(src.resolve()), job, str(found), *words]
        environment = os.environ | {"PYTHONPATH": str(src.resolve())}
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return json.loads(found.read_text(encoding="utf-8"))
    return {"error": f"exit code {done.returncode}: " + "\n".join(done.stderr.strip().splitlines()[-5:])}


def write_crowd(folder: Path, n_items: int = 30, n_annotators: int = 5) -> None:
    """Write votes that are right four times of five, and two features of which the first tells the classes apart."""
    rng = random.Random(0)
    votes, features = ["item,annotator,label"], ["item,first,second"]
    for item in range(n_items):
        features.append(f"item{item},{item % 2 + rng.gauss(0, 0.3):.3f},{rng.gauss(0, 1):.3f}")
        for annotator in range(n_annotators):
            votes.append(f"item{item},annotator{annotator},{'cat' if item % 2 == (rng.random() < 0.8) else 'dog'}")
    Path(folder, "votes.csv").write_text("\n".join(votes) + "\n", encoding="utf-8")
    Path(folder, "features.csv").write_text("\n".join(features) + "\n", encoding="utf-8")


def trace(src: Path, *words: str) -> dict[str, Any]:
    """Run the command line with these words; return the modules touched, those that ran only while importing, all imported."""
    inside = str(src / PACKAGE) + os.sep
    touched: set[str] = set()
    importing: set[str] = set()

    def hook(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes are not optimised, those of functions are.
        if event != "call" or not code.co_flags & inspect.CO_OPTIMIZED or code.co_filename in touched:
            return
        if code.co_filename.startswith(inside):
            above: FrameType | None = frame
            while above and not (above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(inside)):
                above = above.f_back
            (importing if above else touched).add(code.co_filename)

    sys.argv = [PACKAGE, *words]
    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        importlib.import_module(f"{PACKAGE}.cli").main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    imported = [name for name in sys.modules if name.split(".")[0] == PACKAGE]
    return {
        "touched": [Path(file).relative_to(src).as_posix() for file in sorted(touched)],
        "only_importing": [Path(file).relative_to(src).as_posix() for file in sorted(importing - touched)],
        "imported": len(imported),
    }


def describe(src: Path) -> dict[str, Any]:
    """Return the public names of the package and how `fit` is called, by parameter names and kinds, for every method."""
    package = importlib.import_module(PACKAGE)
    # First, since every import of a submodule adds a name.
    listed = [name for name in dir(package) if not name.startswith("_")]
    where, methods = registry(src)
    signatures: dict[str, list[str]] = defaultdict(list)
    unavailable = {}
    for name, method in methods.items():
        try:
            parameters = list(inspect.signature(method.cls.fit).parameters.values())[1:]
        except Exception as problem:  # an extra that is not installed; the other methods still count
            unavailable[name] = f"{type(problem).__name__}: {problem}"
            continue
        bare = [p.replace(default=inspect.Parameter.empty, annotation=inspect.Parameter.empty) for p in parameters]
        signatures[f"fit{inspect.Signature(bare)}"].append(name)
    return {
        "all": sorted(package.__all__),
        "dir": listed,
        "registry": where,
        "methods": len(methods),
        "signatures": dict(sorted(signatures.items(), key=lambda entry: -len(entry[1]))),
        "unavailable": unavailable,
    }


def registry(src: Path) -> tuple[str, Mapping[str, Any]]:
    """Find the largest mapping to objects with a `cls` among the modules called `registry`, wherever they stand."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted((src / PACKAGE).rglob("registry.py")):
        place = ".".join(path.relative_to(src).with_suffix("").parts)
        for name, value in vars(importlib.import_module(place)).items():
            # `dir`, not `hasattr`: asking for the class would import it.
            if isinstance(value, Mapping) and value and all("cls" in dir(entry) for entry in value.values()):
                found[f"{place}.{name}"] = value
    if not found:
        raise LookupError(f"no mapping to methods in any registry.py of {PACKAGE}")
    return max(found.items(), key=lambda entry: len(entry[1]))


def main(src: str, job: str = "", found: str = "", *words: str) -> None:
    """Print all as JSON or, started by `fresh`, do one job and write what it found."""
    if not job:
        print(json.dumps(collect(Path(src))))
        return
    jobs = {"trace": trace, "describe": describe}
    Path(found).write_text(json.dumps(jobs[job](Path(src), *words)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
