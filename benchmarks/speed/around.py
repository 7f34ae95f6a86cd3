"""What people wait for around a fit: whole commands, each in a process of its own, with seconds and peak memory.

    python -m benchmarks run around [--large] [--repeats 3]

Rows are commands on 600 votes (simulated), on real sets where the shared data are there, and, with --large, on
two million votes with names of items and annotators, which a function in here makes. Of several runs the quickest counts, after
one that is not timed: it compiles. `rows` returns the numbers, for other pages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "How long do whole commands take?",
    data=("bluebird", "product", "web"),
    quick="--repeats 1",
    records="how_fast",
    small={"GOALS": {("600", "annotators"): (2, None)}},
)

RUNS = Records("how_fast")
LARGE = (400_000, 5, 5_000, 5)
# Sets and commands with their goals: seconds on two quiet cores, and gigabytes.
GOALS = {
    ("bluebird", "aggregate -m dawid-skene"): (0.6, None),
    ("product", "aggregate"): (2, None),
    ("600", "report"): (3, None),
    ("600", "annotators"): (2, None),
    ("600", "compare"): (2, None),
    ("web", "report"): (5, None),
    ("2M", "aggregate"): (20, 1),
    ("2M", "annotators"): (30, 1),
    ("2M", "report"): (40, 1),
}


class Row(NamedTuple):
    """A command on a set of votes: seconds by the clock and of the processor, the most memory, and the goals."""

    votes: str
    command: str
    seconds: float
    processor: float
    gigabytes: float
    goal: float
    most_gigabytes: float | None


def named_votes(path: Path, n_items: int, per_item: int, n_annotators: int, n_classes: int, seed: int = 0) -> None:
    """Write votes with ids such as image_000123.jpg and worker-1234; some annotators give most of them, as in real crowds."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    active = np.arange(1, n_annotators + 1) ** -0.8
    who = rng.choice(n_annotators, (n_items, per_item), p=active / active.sum())
    while (again := (np.diff(np.sort(who, axis=1), axis=1) == 0).any(axis=1)).any():
        who[again] = rng.choice(n_annotators, (int(again.sum()), per_item), p=active / active.sum())
    who, item = who.ravel(), np.repeat(np.arange(n_items), per_item)
    truth = rng.integers(n_classes, size=n_items)[item]
    right = rng.random(len(item)) < rng.beta(6, 2, n_annotators)[who]
    label = np.where(right, truth, (truth + rng.integers(1, n_classes, len(item))) % n_classes)
    columns = {"item": ("image_{}.jpg", item, 6), "annotator": ("worker-{}", who, 4), "label": ("class_{}", label, 1)}
    codes = pl.DataFrame({name: values for name, (_, values, _) in columns.items()})
    texts = [
        pl.format(form, pl.col(name).cast(pl.String).str.zfill(digits)).alias(name)
        for name, (form, _, digits) in columns.items()
    ]
    codes.select(texts).write_csv(path)


def timed(words: list[str], folder: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds with those of all processes it starts, and gigabytes of the largest of them."""
    # A process of its own waits for the command: what it used is then what its children used.
    code = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss]))\n"
    )
    command = [sys.executable, "-c", code, sys.executable, "-m", "crowdwise", *words, "-q"]
    start = perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    seconds = perf_counter() - start
    failed, processor, kilobytes = json.loads(done.stdout)
    if failed:
        raise SystemExit(f"crowdwise {' '.join(words)}: {done.stderr}")
    return seconds, processor, kilobytes * 1024 / 1e9


@cache
def folder() -> tempfile.TemporaryDirectory:
    """It lasts as long as this process."""
    return tempfile.TemporaryDirectory()


@cache
def path_of(votes: str) -> Path:
    """The file of these votes, made where they are simulated."""
    simulated = {"600": (120, 5, 20, 3), "2M": LARGE}
    if votes not in simulated:
        return SHARED / votes / "annotations.csv"
    path = Path(folder().name) / f"{votes}.csv"
    named_votes(path, *simulated[votes])
    return path


@RUNS.each
def best_of(votes: str, command: str, repeats: int) -> tuple[float, float, float]:
    """What `timed` returns of the quickest run."""
    outputs = {"report": ["-o", "report.html"], "annotators": ["-o", "annotators.csv"], "aggregate": ["-o", "labels.csv"]}
    verb, *options = command.split()
    words = [verb, str(path_of(votes)), *options, *outputs.get(verb, ["-o", "compared.csv"])]
    runs = [timed(words, Path(folder().name)) for _ in range(repeats + (votes != "2M"))]
    return min(runs[1:] or runs)


def rows(large: bool = False, repeats: int = 3) -> list[Row]:
    """Run every command that has a goal."""
    found = []
    for name in ("600", "bluebird", "product", "web", *(["2M"] if large else [])):
        for votes, command in [both for both in GOALS if both[0] == name and (name in ("600", "2M") or path_of(name).exists())]:
            found.append(Row(votes, command, *best_of(votes, command, repeats), *GOALS[votes, command]))
            print(found[-1], file=sys.stderr, flush=True)
    return found


SIZES = {"600": "600", "2M": "2,000,000", "bluebird": "4,212 (bluebird)", "product": "24,945 (product)", "web": "15,567 (web)"}
HEADER = ["command", "votes", "seconds", "processor seconds", "GB", "aim"]


def lines(large: bool, repeats: int) -> list[list[str]]:
    """The rows as cells."""
    return [
        [
            f"`{row.command}`",
            SIZES[row.votes],
            f"{row.seconds:.1f}",
            f"{row.processor:.1f}",
            f"{row.gigabytes:.2f}",
            f"{row.goal:g}" + (f", {row.most_gigabytes:g} GB" if row.most_gigabytes else ""),
        ]
        for row in rows(large, repeats)
    ]


def measure_all(large: bool, repeats: int) -> None:
    text = table(HEADER, lines(large, repeats))
    print(provenance(f"python -m benchmarks run around{' --large' * large}", RUNS), text, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="also two million votes")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    measure_all(given.large, given.repeats)
