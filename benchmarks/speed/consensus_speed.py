"""Seconds of the default method: cold processes on 25,000 and 4,212 votes, a million votes in memory, and the cost of a round.

    python -m benchmarks run consensus_speed

Cold: `crowdwise aggregate` in a new process, five times after one that fills the compilation cache; median and range. A round:
the step of the loop on a million votes and five classes, nanoseconds per vote and member, median of ten.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.simulate import simulate
from crowdwise.engines.loop import Parts, round_over
from crowdwise.engines.shards import Whole
from crowdwise.methods.labels.dawid_skene import start_from_votes
from crowdwise.parts.annotators.habits import Habits
from crowdwise.parts.annotators.tiers import Tiers
from crowdwise.parts.priors.anchored import Anchored

BENCHMARK = Benchmark(
    "How long does the default method take?",
    sections=("consensus speed",),
    data=("bluebird", "product"),
    renders=("",),
    small={"TIMES": 1, "ITEMS": 2000},
)

RUNS = Records("consensus_speed")
TIMES, ITEMS = 5, 200_000


@RUNS.each
def cold(name: str) -> list[float]:
    """Seconds of whole processes, the first of which is not counted."""
    votes = next((SHARED / name).glob("annotations.csv*"))
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "crowdwise", "aggregate", str(votes), "-q", "-o", str(Path(folder, "labels.csv"))]
        for _ in range(TIMES + 1):
            started = perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(perf_counter() - started)
    return seconds[1:]


@cache
def million() -> crowdwise.Annotations:
    return simulate(n_items=ITEMS, n_annotators=1000, n_classes=5, votes_per_item=5, random_state=0).votes


@RUNS.each
def whole() -> tuple[int, list[float]]:
    """Rounds of all members, and seconds of three fits after one that compiles."""
    votes, seconds = million(), []
    crowdwise.Consensus().fit(votes.take_items(np.arange(ITEMS // 10)))
    for _ in range(3):
        started = perf_counter()
        model = crowdwise.Consensus().fit(votes)
        seconds.append(perf_counter() - started)
    return model.n_iter_, seconds


@RUNS.each
def rounds() -> dict[str, float]:
    """Nanoseconds of a round per vote, by member."""
    votes = million()
    none, answers = np.zeros((1, votes.n_classes, votes.n_classes)), votes.answers
    members = {
        "I": Habits.start(answers, none, shared=False, own=False),
        "B": Habits.start(answers, none, own=False),
        "BD": Habits.start(answers, none),
        "M2": Tiers.start(none, votes.n_annotators),
    }
    found = {}
    for name, member in members.items():
        shards, prior = Whole.of(votes), Anchored.start(np.ones(votes.n_classes))
        even = np.full(votes.n_classes, 1 / votes.n_classes)
        parts = Parts(prior, member, shards.renew(start_from_votes, prior, member, even, False, False))
        step, seconds = round_over(shards), []
        for _ in range(12):
            started = perf_counter()
            parts, _ = step(parts)
            seconds.append(perf_counter() - started)
        found[name] = 1e9 * median(seconds[2:]) / votes.n_votes
    return found


def main() -> None:
    rows = []
    for name in ("bluebird", "product"):
        seconds = cold(name)
        rows.append([f"cold process, {name}", f"{median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"])
    n_iter, seconds = whole()
    rows.append([f"a million votes, K = 5, in memory ({n_iter} rounds of all members)", f"{median(seconds):.2f} s"])
    rows += [[f"a round of member {name}", f"{cost:.1f} ns per vote"] for name, cost in rounds().items()]
    put("consensus speed", provenance("python -m benchmarks run consensus_speed", RUNS) + "\n" + table(["what", "takes"], rows))
