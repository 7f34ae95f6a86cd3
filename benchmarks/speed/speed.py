"""Dawid-Skene at ten million votes: time per vote and iteration, convergence, memory, reading.

    python -m benchmarks run speed

Each measurement runs in a process of its own, so that peak memory is its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from time import perf_counter, sleep

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.places import QUICK
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "How long do ten million votes take Dawid and Skene's model, and how much memory?",
    sections=("speed",),
    renders=("",),
)

RUNS = Records("speed")
# Read by the processes that measure, too.
ITEMS, ANNOTATORS, VOTES = (1_000, 20, 10) if QUICK else (1_000_000, 3500, 10)


def simulate_votes(n_classes: int):
    from crowdwise.data.simulate import simulate

    return simulate(n_items=ITEMS, n_annotators=ANNOTATORS, n_classes=n_classes, votes_per_item=VOTES, random_state=0)


def fit(n_classes: int) -> dict:
    """Time iterations one by one through the progress callback, after a warm-up fit."""
    import psutil

    from crowdwise import DawidSkene

    made = simulate_votes(n_classes)
    votes = made.votes
    warnings.simplefilter("ignore")
    DawidSkene(max_iter=1).fit(votes.select(items=votes.items[:20_000]))
    process, peak, done = psutil.Process(), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], process.memory_info().rss)
            sleep(0.005)

    before = process.memory_info().rss
    watcher = threading.Thread(target=watch)
    watcher.start()
    stamps = [perf_counter()]
    model = DawidSkene().fit(votes, progress=lambda *_: stamps.append(perf_counter()))
    total = perf_counter() - stamps[0]
    done.set()
    watcher.join()
    steps = np.diff(stamps)[1:]
    posterior_bytes = votes.n_items * votes.n_classes * 8
    held = sum(a.nbytes for a in (votes.item_ptr, votes.annotator, votes.label))
    return {
        "ns": float(np.median(steps)) / votes.n_votes * 1e9,
        "ns_best": float(steps.min()) / votes.n_votes * 1e9,
        "seconds": total,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "accuracy": float((model.result_.codes == made.truth).mean()),
        # The votes themselves, plus what the fit took above them, less the posterior it returns.
        "bytes_per_vote": (peak[0] - before + held - posterior_bytes) / votes.n_votes,
    }


def threads(n_classes: int) -> dict:
    """The posterior after ten iterations with 1, 2 and 3 threads, and twice with 2."""
    from crowdwise import DawidSkene

    votes = simulate_votes(n_classes).votes
    warnings.simplefilter("ignore")
    posteriors = {}
    for run, count in (("one", 1), ("two", 2), ("two again", 2), ("three", 3)):
        os.environ["CROWDWISE_THREADS"] = str(count)
        posteriors[run] = DawidSkene(max_iter=10).fit(votes).posterior_
    return {
        "apart": float(max(np.abs(posteriors["one"] - posteriors[k]).max() for k in ("two", "three"))),
        "same": bool((posteriors["two"] == posteriors["two again"]).all()),
    }


def read(n_classes: int) -> dict:
    import crowdwise

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.parquet"
        # A child writes the file, so that this process starts clean and its peak is that of reading.
        subprocess.run([sys.executable, "-m", __spec__.name, "write", str(n_classes), str(path)], check=True)
        started = perf_counter()
        votes = crowdwise.read(path)
        seconds = perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "peak_mb": peak / 1e6, "n_votes": votes.n_votes}


def small() -> dict:
    """`crowdwise aggregate` on a small file, from a cold process, start-up included; and --help."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.csv"
        from crowdwise.data.simulate import simulate

        made = simulate(n_items=108, n_annotators=39, n_classes=2, votes_per_item=39, random_state=0)
        made.votes.to_frame().write_csv(path)
        commands = {
            "aggregate": ["aggregate", str(path), "-m", "dawid-skene", "-o", str(Path(folder) / "labels.csv"), "--quiet"],
            "help": ["--help"],
        }
        times = {}
        for name, words in commands.items():
            runs = []
            for _ in range(1 if QUICK else 5):
                started = perf_counter()
                subprocess.run([sys.executable, "-m", "crowdwise", *words], check=True, capture_output=True)
                runs.append(perf_counter() - started)
            times[name] = float(np.median(runs))
    return times


@RUNS.each
def child(*words: str) -> dict:
    found = subprocess.run([sys.executable, "-m", __spec__.name, *words], check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def measure_all() -> None:
    rows = []
    for n_classes, limit in ((5, 15), (15, 60)):
        got = child("fit", str(n_classes))
        rows.append(
            [
                f"K = {n_classes}",
                f"{got['ns']:.1f}",
                f"{got['ns_best']:.1f}",
                f"{limit}",
                str(got["iterations"]),
                f"{got['seconds']:.1f} s",
                f"{got['bytes_per_vote']:.0f}",
                f"{100 * got['accuracy']:.2f}%",
            ]
        )
        print(rows[-1], flush=True)
    same, reading, quick = child("threads", "5"), child("read", "5"), child("small")
    text = [
        provenance("python -m benchmarks run speed", RUNS),
        f"\nDawid-Skene on simulated votes: {ITEMS:,} items, {ANNOTATORS:,} annotators, {VOTES} votes per item "
        f"({ITEMS * VOTES:,} votes), seed 0, default settings, to convergence.\n",
        table(
            [
                "",
                "ns per vote and iteration (median)",
                "fastest",
                "limit",
                "iterations",
                "time to convergence",
                "peak bytes per vote beside the posterior",
                "labels right",
            ],
            rows,
        ),
        f"\n- Posteriors after ten iterations with 1, 2 and 3 threads differ by at most {same['apart']:.1e}; two runs with two "
        f"threads are {'the same to the bit' if same['same'] else 'NOT the same'}.",
        f"- Reading {reading['n_votes']:,} rows with string ids from Parquet and encoding them: {reading['seconds']:.1f} s, "
        f"peak memory of the process {reading['peak_mb']:,.0f} MB.",
        f"- `crowdwise aggregate -m dawid-skene` on 4,212 votes from a cold process, start-up included: "
        f"{quick['aggregate']:.2f} s; `crowdwise --help`: {quick['help']:.2f} s (medians of 5).",
    ]
    put("speed", "\n".join(text))


def main() -> None:
    if len(sys.argv) == 1:
        measure_all()
    elif sys.argv[1] == "write":
        simulate_votes(int(sys.argv[2])).votes.to_frame().write_parquet(sys.argv[3])
    else:
        jobs = {"fit": fit, "threads": threads, "read": read, "small": small}
        print(json.dumps(jobs[sys.argv[1]](*map(int, sys.argv[2:]))))


if __name__ == "__main__":
    main()
