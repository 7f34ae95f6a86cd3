"""How long fits take and what they need: beside scipy's products, by the number of votes, and memory per vote of each method.

    python -m benchmarks run fits round [--classes 5] [--votes 10000000]  a round of Dawid-Skene beside scipy.sparse, in one run
    python -m benchmarks run fits growth [--largest 10000000]              seconds of the processor by votes, and the exponent
    python -m benchmarks run fits memory [METHOD ...] [--votes 100000]        peak memory per vote of each label-only method

Each fit is a process of its own. Seconds are those of the processor, so that they mean something on a busy machine; a round is
also given in seconds of the clock. `rounds`, `growth` and `memory` return the rows that are printed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "How long do fits take and what do they need, by size and method?",
    quick="round --votes 20000",
    records="how_fast",
)

RUNS = Records("how_fast")
PER_ITEM, PER_ANNOTATOR = 10, 3000
GROWING = ("majority", "dawid-skene", "consensus")
# Seconds after which a fit is given up.
LIMIT = 1200


def crowd(n_votes: int, n_classes: int) -> Any:
    """Votes by annotators of about 3,000 each, ten per item."""
    from crowdwise.data.simulate import simulate

    n_annotators = max(n_votes // PER_ANNOTATOR, 20)
    return simulate(
        n_items=n_votes // PER_ITEM, n_annotators=n_annotators, n_classes=n_classes, votes_per_item=PER_ITEM, random_state=0
    )


def shortest(work: Callable[[], Any], times: int = 5) -> tuple[float, float]:
    """Least seconds of the clock and of the processor of a few calls."""
    taken = []
    for _ in range(times):
        clock, processor = perf_counter(), process_time()
        work()
        taken.append((perf_counter() - clock, process_time() - processor))
    return min(clock for clock, _ in taken), min(processor for _, processor in taken)


@RUNS.each
def beside_scipy(n_votes: int, n_classes: int) -> list[tuple[float, float]]:
    """Seconds of a round over all votes, and of the two products with scipy.sparse that compute the same sums."""
    import scipy.sparse

    from crowdwise.kernels.numerics import NO_WEIGHT, class_mass, confusion_counts, infer_table, log_floored

    votes = crowd(n_votes, n_classes).votes
    n_rows, known = votes.n_annotators * n_classes, np.empty(0, np.int16)
    posterior = np.random.default_rng(0).dirichlet(np.ones(n_classes), votes.n_items)
    table_lk = np.random.default_rng(1).dirichlet(np.ones(n_classes), n_rows)
    log_prior = np.full((1, n_classes), -math.log(n_classes))

    def ours() -> None:
        infer_table(votes.item_ptr, votes.row, NO_WEIGHT, table_lk, log_prior, known, posterior)
        confusion_counts(votes.item_ptr, votes.row, NO_WEIGHT, posterior, n_rows)
        class_mass(votes.item_ptr, posterior)

    given = np.ones(votes.n_votes)
    by_item = scipy.sparse.csr_matrix((given, votes.row, votes.item_ptr), shape=(votes.n_items, n_rows))
    by_row, logs = by_item.T.tocsr(), log_floored(table_lk)

    def products() -> None:
        by_item @ logs
        by_row @ posterior

    ours()
    # A round takes a twentieth of a second: often enough that one of them finds the machine quiet.
    return [shortest(ours, 30), shortest(products, 30)]


def rounds(n_votes: int, n_classes: int) -> list[list[str]]:
    """A round beside the two products, ns per vote."""
    (own, theirs), scale = beside_scipy(n_votes, n_classes), 1e9 / n_votes
    return [
        ["a round: infer, count, add up", f"{own[0] * scale:.1f}", f"{own[1] * scale:.1f}"],
        ["scipy.sparse: the two products alone", f"{theirs[0] * scale:.1f}", f"{theirs[1] * scale:.1f}"],
        ["ratio", *(f"{a / b:.2f}" if b else "-" for a, b in zip(own, theirs, strict=True))],
    ]


def fit(method: str, n_votes: int, n_classes: int) -> dict[str, float]:
    """Fit in this process: seconds of the processor, rounds, and the peak of memory above the votes."""
    import crowdwise

    votes = crowd(n_votes, n_classes).votes
    warnings.simplefilter("ignore")
    # Loads what is compiled.
    crowdwise.make(method).fit(votes[: min(votes.n_items, 3000)])
    before, peak = _memory("VmRSS"), Path("/proc/self/clear_refs")
    if peak.exists():
        peak.write_text("5")
    started, clock = process_time(), perf_counter()
    model = crowdwise.make(method).fit(votes)
    clock, seconds, above = perf_counter() - clock, process_time() - started, _memory("VmHWM") - before
    held = sum(array.nbytes for array in (votes.item_ptr, votes.annotator, votes.label))
    return {"seconds": seconds, "clock": clock, "rounds": getattr(model, "n_iter_", 0), "bytes": above, "votes": held}


def _memory(field: str) -> int:
    """A figure of this process in bytes, where the system tells it (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), 0)


@RUNS.each
def in_a_process(method: str, n_votes: int, n_classes: int) -> dict[str, float] | None:
    """`fit` in a process of its own; None where it fails or takes too long."""
    words = [sys.executable, "-m", __spec__.name, "fit", method, "--votes", str(n_votes), "--classes", str(n_classes)]
    # Arrays go back to the system when they are freed; else what is free but kept would hide what a fit needs.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT, env=environment)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def growth(largest: int, n_classes: int = 5) -> list[list[str]]:
    """Seconds of the processor from 100,000 votes on, and by which power of the votes they grow (least squares of logs)."""
    sizes = [10**power for power in range(5, 10) if 10**power <= largest]
    rows = []
    for method in GROWING:
        found = [in_a_process(method, size, n_classes) for size in sizes]
        done = [(size, got["seconds"]) for size, got in zip(sizes, found, strict=True) if got]
        slope = np.polyfit(*np.log(np.array(done)).T, 1)[0] if len(done) > 1 else math.nan
        cells = [f"{got['seconds']:.2f} s ({got['rounds']:.0f})" if got else "-" for got in found]
        rows.append([method, *cells, f"{slope:.2f}"])
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def memory(methods: list[str], n_votes: int, n_classes: int = 4) -> list[list[str]]:
    """Peak memory per vote above the votes themselves, at two sizes, and of each further vote."""
    rows = []
    for method in methods:
        found = [in_a_process(method, size, n_classes) for size in (n_votes, 3 * n_votes)]
        if any(got is None for got in found):
            rows.append([method, "-", "-", "-"])
        else:
            small, large = (got["bytes"] for got in found if got)
            cells = (small / n_votes, large / (3 * n_votes), (large - small) / (2 * n_votes))
            rows.append([method, *(f"{cell:.0f}" for cell in cells)])
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def label_only() -> list[str]:
    """Methods that take votes alone and any number of classes."""
    from crowdwise.estimator.registry import label_methods

    return [name for name, method in label_methods().items() if method.suits(4) and name != "auto"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["round", "growth", "memory", "fit"])
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--votes", type=int)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--largest", type=int, default=10**7)
    asked = parser.parse_args()
    if asked.what == "round":
        print(table(["ns per vote", "clock", "processor"], rounds(asked.votes or 10**7, asked.classes or 5)))
    elif asked.what == "growth":
        heads = [f"{10**power:,} votes (rounds)" for power in range(5, 10) if 10**power <= asked.largest]
        print(table(["method", *heads, "exponent"], growth(asked.largest, asked.classes or 5)))
    elif asked.what == "memory":
        size = asked.votes or 100_000
        heads = ["method", f"bytes per vote at {size:,}", f"at {3 * size:,}", "of each further vote"]
        print(table(heads, memory(asked.methods or label_only(), size, asked.classes or 4)))
    else:
        print(json.dumps(fit(asked.methods[0], asked.votes or 100_000, asked.classes or 5)))


if __name__ == "__main__":
    main()
