"""A process that tries cases one after the other: ``python -m tests.fuzz.worker SEED START STOP STEP FOLDER``.

It says which case it is at before it begins, so that whoever watches knows the one that hangs or kills it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import mutate
from tests.fuzz.seeds import make_seeds
from tests.fuzz.targets import attack, renamed

MOST_MEMORY = 2**30
# So that a case that asks for everything fails here and not on the whole machine; polars and numba reserve a few gigabytes.
_ADDRESSES = 12 * 2**30


def case(seed: int, index: int, seeds: dict[str, bytes]) -> tuple[str, str, bytes, random.Random]:
    """Seed, file name and content of a case, and what draws the rest; the same numbers give the same case."""
    rng = random.Random(f"{seed}/{index}")
    name = rng.choice(list(seeds))
    return name, renamed(name, rng), mutate(name, seeds[name], rng), rng


def run(seed: int, start: int, stop: int, step: int, folder: Path) -> None:
    """Try the cases and leave findings, counts and the place in `folder`."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    seeds = make_seeds()
    counts: Counter[str] = Counter()
    progress = os.open(folder / f"at-{start % step}", os.O_CREAT | os.O_WRONLY)
    work = folder / f"work-{os.getpid()}"
    before = _peak()
    for index in range(start, stop, step):
        os.pwrite(progress, b"%20d" % index, 0)
        name, called, content, rng = case(seed, index, seeds)
        path = work / called
        try:
            _place(path, name, content, seeds)
            counts[attack(path, name, rng)] += 1
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            note(folder, seed, index, called, content, f"{type(problem).__name__}: {problem!s:.300}", _place_of(problem))
            counts["findings"] += 1
        # Making folders takes longer than reading small files.
        for left in path.parent.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        if sum(counts.values()) >= 1000:
            # So that what was tried is counted even if this process ends early.
            _add_up(folder, counts)
            counts.clear()
        if _peak() > max(MOST_MEMORY, before):
            note(folder, seed, index, called, content, f"{_peak() / 2**20:,.0f} MB", "memory")
            counts["findings"] += 1
            before = _peak()
    shutil.rmtree(work, ignore_errors=True)
    os.pwrite(progress, b"%20d" % stop, 0)
    _add_up(folder, counts)


def _add_up(folder: Path, counts: Counter[str]) -> None:
    with (folder / "counts.jsonl").open("a") as file:
        file.write(json.dumps(counts) + "\n")


def note(folder: Path, seed: int, index: int, called: str, content: bytes | None, what: str, place: str) -> None:
    """Keep a finding with the file that shows it."""
    file = folder / f"{seed}-{index}-{called.replace('/', '-')}"
    if content is not None:
        file.write_bytes(content)
    line = {"seed": seed, "case": index, "file": str(file), "what": what, "place": place}
    with (folder / "findings.jsonl").open("a") as out:
        out.write(json.dumps(line) + "\n")


def _place(path: Path, name: str, content: bytes, seeds: dict[str, bytes]) -> None:
    """Write the file, and what belongs to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if "/" in name:
        for other, whole in seeds.items():
            if other.startswith(f"{name.partition('/')[0]}/"):
                (path.parent / other.partition("/")[2]).write_bytes(whole)
    path.write_bytes(content)


def _place_of(problem: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(problem.__traceback__) if f"{os.sep}crowdwise{os.sep}" in f.filename]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[-3:][::-1])


def _peak() -> int:
    peak: Any = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    run(*map(int, sys.argv[1:5]), Path(sys.argv[5]))  # type: ignore[arg-type, misc]
