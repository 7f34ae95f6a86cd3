"""Online methods on a state of ten million votes: seconds and memory of an update of a thousand votes.

    python -m benchmarks run online_speed [VOTES]

Each method runs in a process of its own, so that memory is its own. With another number of votes the table is printed and
not written to the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
from time import perf_counter

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.places import QUICK
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "How long does an update of a thousand votes take on ten million?",
    sections=("online speed",),
    renders=("",),
    quick="2000",
    small={"METHODS": {"streaming-ds": "streaming:StreamingDawidSkene"}},
)

RUNS = Records("online_speed")
VOTES, ARRIVING, UPDATES = 10_000_000, 1000, 2 if QUICK else 50
VOTES_PER_ITEM, ANNOTATORS, CLASSES = 10, 3500, 5
METHODS = {"streaming-ds": "streaming:StreamingDawidSkene", "online-em": "online_em:OnlineEM"}


def run(method: str, n_votes: int) -> dict[str, float]:
    """Fill a state, then time updates: votes of known and new annotators on old and new items, from plain columns."""
    from importlib import import_module

    import psutil

    from crowdwise.data.simulate import simulate

    module, name = METHODS[method].split(":")
    model = getattr(import_module(f"crowdwise.methods.online.{module}"), name)()
    simulation = {"n_annotators": ANNOTATORS, "n_classes": CLASSES, "votes_per_item": VOTES_PER_ITEM, "random_state": 0}
    # Compile before the clock starts.
    small = simulate(n_items=1000, **simulation).votes
    model.fit(small).update(small[:10]).opinion(small.items[:10])
    votes = simulate(n_items=n_votes // VOTES_PER_ITEM, **simulation).votes
    process = psutil.Process()
    before = process.memory_info().rss
    started = perf_counter()
    model.fit(votes)
    fitted = perf_counter() - started
    rng = np.random.default_rng(1)
    seconds, work = [], []
    for _ in range(UPDATES):
        fresh = int(0.2 * ARRIVING)
        old = rng.integers(0, votes.n_items, ARRIVING - fresh)
        new = rng.integers(10**9, 2 * 10**9, fresh)
        arriving = {
            "item": np.concatenate([votes.items[old], new]),
            "annotator": rng.integers(0, int(1.01 * ANNOTATORS), ARRIVING),
            "label": rng.integers(0, CLASSES, ARRIVING),
        }
        started = perf_counter()
        model.update(arriving)
        seconds.append(perf_counter() - started)
        work.append(model.work_)
    held = process.memory_info().rss - before
    started = perf_counter()
    opinion = model.opinion(votes.items[:1000])
    asked = perf_counter() - started
    assert np.isfinite(opinion).all()
    started = perf_counter()
    model.result_  # noqa: B018
    return {
        "fit": fitted,
        "median": float(np.median(seconds)),
        "worst": max(seconds),
        "read": float(np.median(work)),
        "state_mb": model._state.n_bytes / 1e6,
        "process_mb": held / 1e6,
        "opinion": asked,
        "result": perf_counter() - started,
    }


@RUNS.each
def measured(method: str, n_votes: int) -> dict[str, float]:
    """`run` in a process of its own."""
    words = [sys.executable, "-m", __spec__.name, "run", method, str(n_votes)]
    found = subprocess.run(words, check=True, capture_output=True, text=True)
    return dict(json.loads(found.stdout.splitlines()[-1]))


def measure_all(n_votes: int) -> None:
    rows = []
    for method in METHODS:
        got = measured(method, n_votes)
        rows.append(
            [
                method,
                f"{got['fit']:.1f} s",
                f"{got['median']:.4f} s",
                f"{got['worst']:.3f} s",
                f"{got['read']:,.0f}",
                f"{got['state_mb']:,.0f} MB",
                f"{got['process_mb']:,.0f} MB",
                f"{1000 * got['opinion']:.1f} ms",
                f"{got['result']:.1f} s",
            ]
        )
        print(rows[-1], flush=True)
    header = [
        "",
        "first fit",
        "update (median)",
        "worst",
        "votes read",
        "arrays of the state",
        "growth of the process",
        "posterior of 1,000 items",
        "full result",
    ]
    text = [
        provenance("python -m benchmarks run online_speed", RUNS),
        f"\n{UPDATES} updates of {ARRIVING:,} votes each on a state of {n_votes:,} simulated votes ({VOTES_PER_ITEM} per item, "
        f"{ANNOTATORS:,} annotators, {CLASSES} classes, seed 0), default settings: a fifth of the votes on new items, "
        "one in a hundred by new annotators. An update includes reading the columns and looking the ids up; the worst one "
        "includes copying arrays that were full.\n",
        table(header, rows),
    ]
    if n_votes == VOTES:
        put("online speed", "\n".join(text))
    else:
        print("\n".join(text))


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        print(json.dumps(run(sys.argv[2], int(sys.argv[3]))))
    else:
        measure_all(int(sys.argv[1]) if len(sys.argv) > 1 else VOTES)


if __name__ == "__main__":
    main()
