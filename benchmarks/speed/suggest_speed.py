"""`suggest` on a large campaign: a thousand questions about a million items to ten thousand annotators, seconds and memory.

    python -m benchmarks run suggest_speed                         # written to its page
    python -m benchmarks run suggest_speed --items 20000 --annotators 500 --budget 50

Every policy runs in a process of its own, on a model that is fitted there before the clock starts. The last rows are the
command line, from files to a file, with reading and fitting. With other sizes the table is printed and not written to the
page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "How long do a thousand questions about a million items take?",
    sections=("suggest speed",),
    renders=("",),
    quick="--items 300 --annotators 20 --budget 5 --policies information",
)

RUNS = Records("suggest_speed")
ITEMS, ANNOTATORS, BUDGET = 1_000_000, 10_000, 1000
VOTES_PER_ITEM, CLASSES, WIDTH = 3, 5, 16
#: Policies, and whether they read features.
POLICIES = {
    "warm-information": False,
    "information": False,
    "error-reduction": False,
    "entropy+accuracy": False,
    "entropy+ucb": False,
    "entropy+thompson": False,
    "margin+epsilon-greedy": False,
    "dalc": True,
}
#: Methods of the command line: the default, and the one that is made for large states.
COMMANDS = ("dawid-skene", "streaming-ds")


def crowd(n_items: int, n_annotators: int) -> tuple[Any, np.ndarray]:
    """Simulated votes, and the true class of every item."""
    from crowdwise.data.simulate import simulate

    made = simulate(
        n_items=n_items, n_annotators=n_annotators, n_classes=CLASSES, votes_per_item=VOTES_PER_ITEM, random_state=0
    )
    return made.votes, made.truth


def _peak() -> float:
    """Largest resident memory of this process since the last reset, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


def state_of(policy: str, n_items: int, n_annotators: int) -> Any:
    """A model fitted to the votes, and a pool of all items with a capacity of fifty answers each."""
    from crowdwise.campaign.policies import State
    from crowdwise.campaign.pool import Pool
    from crowdwise.methods.labels.dawid_skene import DawidSkene

    votes, truth = crowd(n_items, n_annotators)
    model, features = None, None
    if POLICIES[policy]:
        from crowdwise.methods.classify.dalc import DALC

        rng = np.random.default_rng(1)
        centres = 2 * rng.standard_normal((CLASSES, WIDTH))
        features = (centres[truth] + rng.standard_normal((n_items, WIDTH))).astype(np.float32)
        model = DALC(epochs=1, random_state=0).fit(features, votes)
        result = model.result_
    else:
        result = DawidSkene(max_iter=20).fit(votes).result_
    return State(result, Pool.of(result.votes, capacity=50), np.random.default_rng(0), model, features)


def run(policy: str, n_items: int, n_annotators: int, budget: int) -> dict[str, float]:
    """Seconds of one `suggest` and the memory it takes on top of model and votes."""
    import psutil

    from crowdwise.campaign.assign import suggest

    # Compile and load before the clock starts.
    suggest(state_of(policy, 500, 50), policy, 10)
    started = perf_counter()
    state = state_of(policy, n_items, n_annotators)
    fitted = perf_counter() - started
    held = psutil.Process().memory_info().rss / 1e6
    # From here the peak is of `suggest` alone.
    Path("/proc/self/clear_refs").write_text("5")
    started, worked = perf_counter(), process_time()
    found = suggest(state, policy, budget)
    seconds, processor = perf_counter() - started, process_time() - worked
    pairs = set(zip(found.item.tolist(), found.annotator.tolist(), strict=True))
    assert len(pairs) == len(found) == budget
    memory = {"held": held, "growth": _peak() - held, "peak": _peak()}
    return {"fit": fitted, "seconds": seconds, "processor": processor} | memory


def command_line(method: str, n_items: int, n_annotators: int, budget: int) -> dict[str, float]:
    """Seconds and peak memory of ``crowdwise suggest`` from a file of votes to a file of assignments."""
    import polars as pl

    votes, _ = crowd(n_items, n_annotators)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / f"{name}.parquet") for name in ("votes", "pool", "capacity", "assignments")}
        columns = {"item": votes.items[votes.item], "annotator": votes.annotators[votes.annotator], "label": votes.label}
        pl.DataFrame(columns).write_parquet(files["votes"])
        pl.DataFrame({"item": votes.items}).write_parquet(files["pool"])
        pl.DataFrame({"annotator": votes.annotators, "capacity": np.full(n_annotators, 50)}).write_parquet(files["capacity"])
        limits = ["--pool", files["pool"], "--capacity", files["capacity"], "--budget", str(budget)]
        words = [sys.executable, "-m", "crowdwise", "suggest", files["votes"], *limits, "--method", method]
        # A fit of so many votes is timed elsewhere; twenty rounds are plenty for whom to ask.
        words += ["--set", "max_iter=20"] if method == "dawid-skene" else []
        started = perf_counter()
        process = subprocess.Popen([*words, "-o", files["assignments"], "--quiet"])
        # The child's own peak: `resource` would give the largest of all children so far.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - started
        if status:
            raise SystemExit(f"crowdwise suggest ended with status {status}")
        assert pl.read_parquet(files["assignments"]).height == budget
    return {"seconds": seconds, "processor": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024 / 1e6}


def row(label: str, got: dict[str, float]) -> list[str]:
    cells = [
        f"{got['seconds']:.1f} s",
        f"{got['processor']:.1f} s",
        f"{got['growth']:,.0f} MB" if "growth" in got else "",
        f"{got['peak']:,.0f} MB",
    ]
    return [label, *cells, f"{got['fit']:.0f} s" if "fit" in got else "included"]


@RUNS.each
def measured(kind: str, name: str, *sizes: int) -> dict[str, float]:
    """A policy (`run`) or the command line with a method (`command`), in a process of its own."""
    words = [sys.executable, "-m", __spec__.name, kind, name, *map(str, sizes)]
    found = subprocess.run(words, check=True, capture_output=True, text=True)
    return dict(json.loads(found.stdout.splitlines()[-1]))


def measure_all(n_items: int, n_annotators: int, budget: int, policies: list[str]) -> None:
    cases = [("run", policy, policy) for policy in policies]
    cases += [("command", method, f"command line, default policy, {method}") for method in COMMANDS]
    rows = []
    for kind, name, label in cases:
        rows.append(row(label, measured(kind, name, n_items, n_annotators, budget)))
        print(rows[-1], flush=True)
    network = ""
    if any(POLICIES[policy] for policy in policies):
        network = f", for dalc a network on {WIDTH} features (one epoch, 20 passes with dropout)"
    text = [
        provenance("python -m benchmarks run suggest_speed", RUNS),
        f"\n{budget:,} questions about {n_items:,} simulated items with {VOTES_PER_ITEM} votes each ({CLASSES} classes, "
        f"seed 0) to {n_annotators:,} annotators who can answer fifty times each; a twentieth of the questions at random. "
        "Every row is a process of its own. *On top* is what `suggest` takes beside the votes and the model, *peak* all of the "
        f"process while it runs. The model is dawid-skene (20 rounds){network}, fitted before. The command line reads votes, "
        "pool and capacities as Parquet files, fits and writes the assignments; there the peak is of all of that.\n",
        table(["policy", "seconds", "processor", "on top", "peak", "making votes and model"], rows),
    ]
    if (n_items, n_annotators, budget) == (ITEMS, ANNOTATORS, BUDGET):
        put("suggest speed", "\n".join(text))
    else:
        print("\n".join(text))


def main() -> None:
    if sys.argv[1:2] in (["run"], ["command"]):
        import crowdwise.errors

        warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
        measure = run if sys.argv[1] == "run" else command_line
        print(json.dumps(measure(sys.argv[2], *map(int, sys.argv[3:]))))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--items", type=int, default=ITEMS)
        parser.add_argument("--annotators", type=int, default=ANNOTATORS)
        parser.add_argument("--budget", type=int, default=BUDGET)
        # Training a network for dalc takes far longer than what is measured, so it is asked for by name.
        usual = [policy for policy, reads_features in POLICIES.items() if not reads_features]
        parser.add_argument("--policies", nargs="*", default=usual, choices=POLICIES)
        options = parser.parse_args()
        measure_all(options.items, options.annotators, options.budget, options.policies)


if __name__ == "__main__":
    main()
