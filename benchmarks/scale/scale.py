"""Every method on a million simulated votes: seconds, iterations, peak memory, and what it announced up front.

    python -m benchmarks run scale [--votes 1000000] [METHOD ...]

Each method runs in a process of its own with a limit of ten minutes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import warnings
from time import perf_counter

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.estimator.registry import label_methods

BENCHMARK = Benchmark(
    "What does every method need on a million votes?",
    sections=("scale",),
    renders=("",),
    quick="--votes 1000 majority",
)

METHODS = label_methods()
RUNS = Records("scale")
LIMIT = 600


def run(method: str, n_votes: int) -> dict:
    import crowdwise
    from crowdwise.data.simulate import simulate
    from crowdwise.errors import CostWarning

    n_classes = 2 if METHODS[method].needs != "votes" else 5
    made = simulate(n_items=n_votes // 10, n_annotators=1000, n_classes=n_classes, votes_per_item=10, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = perf_counter()
        model = crowdwise.make(method).fit(made.votes)
        seconds = perf_counter() - started
    said = [str(w.message).split(";")[0] for w in caught if issubclass(w.category, CostWarning)]
    return {
        "seconds": seconds,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "accuracy": float((model.result_.codes == made.truth).mean()),
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "said": said[0] if said else "",
    }


@RUNS.each
def measured(method: str, n_votes: int) -> dict:
    """`run` in a process of its own, or a note of why there is nothing."""
    words = [sys.executable, "-m", __spec__.name, "--run", method, "--votes", str(n_votes)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"note": f"not finished in {LIMIT} s"}
    if done.returncode:
        return {"note": "failed: " + done.stderr.strip().splitlines()[-1][:100]}
    return json.loads(done.stdout.splitlines()[-1])


def measure_all(methods: list[str], n_votes: int) -> None:
    rows = []
    for method in methods:
        got = measured(method, n_votes)
        cells = [got["note"], "", "", "", ""] if "note" in got else [
            f"{got['seconds']:.1f}",
            f"{got['iterations']}{'' if got['converged'] else ' (cap)'}",
            f"{got['gigabytes']:.1f}",
            f"{100 * got['accuracy']:.1f}",
            got["said"],
        ]  # fmt: skip
        rows.append([method, *cells])
        print(rows[-1], flush=True)
    text = [
        provenance("python -m benchmarks run scale", RUNS),
        f"\n{n_votes:,} simulated votes: {n_votes // 10:,} items, 1,000 annotators, K = 5 (2 where the method takes no more), "
        "seed 0, default settings; one process each, the second of loading what is compiled included, memory with votes and "
        "Python.\n",
        table(["method", "seconds", "iterations", "GB", "labels right, %", "announced"], rows),
    ]
    put("scale", "\n".join(text))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--votes", type=int, default=1_000_000)
    parser.add_argument("--run")
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(given.run, given.votes)))
    else:
        measure_all(given.methods or list(METHODS), given.votes)


if __name__ == "__main__":
    main()
