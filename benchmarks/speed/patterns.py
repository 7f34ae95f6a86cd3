"""How often items have the same votes, and what a fit saves that looks at every pattern of votes once.

    python -m benchmarks run patterns [SET ...]

A pattern is who voted what on an item. Without arguments all sets are counted, and simulated crowds of a million votes. Where
patterns are used, fits with and without them run in turns: medians of three turns, in seconds of the processor.
"""

from __future__ import annotations

import sys
from statistics import median
from time import process_time
from typing import Any

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, put, table
from benchmarks.records import Records
from benchmarks.speed.stopping import SETS
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines import shards
from crowdwise.estimator.registry import make_aggregator

BENCHMARK = Benchmark(
    "How often do items have the same votes, and what does that save?",
    sections=("patterns",),
    data=("labelled", "dawid_skene_1979", "md_agreement"),
    renders=("",),
    quick="dog",
    small={"TURNS": 1},
)

RUNS = Records("patterns")
METHODS = ("dawid-skene", "consensus")
TURNS = 3


@RUNS.each
def in_set(name: str) -> dict[str, Any]:
    return counted(crowdwise.read(next((SHARED / name).glob("annotations.csv*"))).deduplicate())


@RUNS.each
def in_crowd(n_annotators: int, per_item: int) -> dict[str, Any]:
    size = {"n_items": 10**6 // per_item, "n_annotators": n_annotators, "n_classes": 5, "votes_per_item": per_item}
    return counted(simulate(**size, random_state=0).votes)


def counted(votes: Annotations) -> dict[str, Any]:
    """Items, distinct patterns, the share of the votes that is left of one copy of each, and fits where they are used."""
    ends = zip(votes.item_ptr[:-1], votes.item_ptr[1:], strict=True)
    rows = [np.sort(votes.row[start:stop]).tobytes() for start, stop in ends]
    sizes = {row: len(row) // votes.row.itemsize for row in rows}
    left = sum(sizes.values()) / max(votes.n_votes, 1)
    used = shards.Whole.of(votes).collapsed().pattern is not None
    found = {"sizes": [votes.n_votes, votes.n_items, votes.n_annotators, len(sizes)], "left": left}
    return found | {"fits": [fits(name, votes) if used else None for name in METHODS]}


def fits(name: str, votes: Annotations) -> tuple[float, float, float]:
    """Seconds without and with patterns, and how far posteriors are apart at most."""
    usual, seconds, posterior = shards.PATTERNS_FROM, ([], []), [np.empty(0), np.empty(0)]
    for turn in range(TURNS + 1):
        for n, start in enumerate((10**12, usual)):
            shards.PATTERNS_FROM = start
            begun = process_time()
            result: Any = make_aggregator(name).fit(votes).result_
            # The first turn loads the compiled loops.
            if turn:
                seconds[n].append(process_time() - begun)
            posterior[n] = result.posterior
    shards.PATTERNS_FROM = usual
    apart = float(np.abs(posterior[0] - posterior[1]).max())
    return median(seconds[0]), median(seconds[1]), apart


def row(name: str, run: dict[str, Any]) -> list[str]:
    """A line of the table, printed as well."""
    fitted = ["{:.2f} / {:.2f} ({:.0e})".format(*fit) if fit else "" for fit in run["fits"]]
    cells = [name, *(f"{size:,}" for size in run["sizes"]), f"{run['left']:.0%}", *fitted]
    print(*cells, flush=True)
    return cells


def main() -> None:
    names = sys.argv[1:]
    rows = [row(name, in_set(name)) for name in names or SETS]
    if names:
        return
    for annotators, per_item in ((1000, 10), (20, 3)):
        rows.append(row(f"simulated, {annotators:,} annotators, {per_item} votes per item", in_crowd(annotators, per_item)))
    header = ["votes of", "votes", "items", "annotators", "patterns", "votes left", *METHODS]
    put("patterns", f"{provenance('python -m benchmarks run patterns', RUNS)}\n{table(header, rows)}")
