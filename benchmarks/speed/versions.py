"""An earlier version beside the present one, in turns, on the votes and comparisons of versus.py and versus_ranking.py.

    python -m benchmarks run versions [--before REVISION] [--turns N] [--votes N]

The earlier version is checked out into a temporary folder and runs in the same environment; every fit is a process of its own.
Seconds are of the processor, so that other load matters less; the median of the turns.
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
from time import process_time
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark

BENCHMARK = Benchmark(
    "Is this version faster than 0.1, with the same labels?",
    sections=("versions",),
    no_quick="checks out an earlier version",
)

ROOT = Path(__file__).resolve().parents[2]
# The last commit of version 0.1.
BEFORE = "c8f019e"
LABELS = ("majority", "wawa", "zbs", "dawid-skene", "one-coin", "glad", "mace")
RANKINGS = ("bradley-terry", "crowd-bt", "noisy-bt")
SIZES = ((100, 4_000, 40), (1_000, 50_000, 200))


def child(kind: str, method: str, argument: str) -> dict[str, Any]:
    """One fit, after another that compiles and warms up; runs in either version."""
    import crowdwise

    warnings.simplefilter("ignore")
    if kind == "labels":
        data = np.load(argument)
        votes = crowdwise.Annotations.from_arrays(data["item"], data["annotator"], data["label"])
        settings: dict[str, Any] = {"smoothing": 0.0} if method == "dawid-skene" else {}
    else:
        votes, truth = comparisons(*SIZES[int(argument)])
        settings = {"draws": 2} | ({"prior": 0.0} if method == "bradley-terry" else {})
    crowdwise.make(method, **settings).fit(votes)
    started = process_time()
    model = crowdwise.make(method, **settings).fit(votes)
    seconds = process_time() - started
    if kind == "labels":
        return {"seconds": seconds, "iterations": model.result_.n_iter, "labels": np.asarray(model.labels_).tolist()}
    from scipy.stats import kendalltau

    return {"seconds": seconds, "tau": float(kendalltau(model.scores_, truth)[0])}


def comparisons(n_items: int, n_votes: int, n_annotators: int) -> tuple[Any, np.ndarray]:
    try:
        from crowdwise.data.simulate.comparisons import simulate_comparisons

        spread = {"score_sd": 1.0}
    except ModuleNotFoundError:
        from crowdwise.ranking.simulated import simulate_comparisons

        spread = {"spread": 1.0}
    drawn = simulate_comparisons(n_items, n_votes, n_annotators, spammers=0.2, adversaries=0.1, random_state=1, **spread)
    return drawn.comparisons, drawn.score


def measure_all() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, help="revision of the earlier version (default: the end of 0.1)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--votes", type=int, default=1_000_000)
    given = parser.parse_args()
    from benchmarks.page import provenance, put, table
    from crowdwise.data.simulate import simulate

    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder) / "earlier"
        subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--detach", "-q", str(earlier), given.before], check=True)
        try:
            made = simulate(n_items=given.votes // 10, n_annotators=1000, n_classes=10, votes_per_item=10, random_state=0)
            votes = Path(folder) / "votes.npz"
            np.savez(votes, item=made.votes.item, annotator=made.votes.annotator, label=made.votes.label)
            sources = {"before": earlier / "src", "now": ROOT / "src"}

            def run(kind: str, method: str, argument: str) -> dict[str, list[dict[str, Any]]]:
                found: dict[str, list[dict[str, Any]]] = {"before": [], "now": []}
                for _ in range(given.turns):
                    for which, source in sources.items():
                        environment = os.environ | {"PYTHONPATH": str(source)}
                        command = [sys.executable, "-m", __spec__.name, "--child", kind, method, argument]
                        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                        found[which].append(json.loads(done.stdout))
                print(method, argument, {w: [round(one["seconds"], 3) for one in r] for w, r in found.items()}, flush=True)
                return found

            rows = [label_row(method, run("labels", method, str(votes)), made.truth) for method in LABELS]
            ranked = [
                ranking_row(method, size, run("ranking", method, str(place)))
                for place, size in enumerate(SIZES)
                for method in RANKINGS
            ]
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(earlier)], check=False)
    header = ["method", "iterations, before", "now", "seconds, before", "now ", "right, before", "now  ", "labels that differ"]
    words = (
        f"\nRevision {given.before} and now, in turns, each fit in a process of its own; medians of {given.turns} turns, "
        f"seconds of the processor. {given.votes:,} simulated votes by 1,000 annotators, 10 classes, seed 0; `smoothing` 0 for "
        "`dawid-skene`, else the defaults of each version.\n\n"
    )
    header_ranked = ["method", "items / comparisons", "seconds, before", "now", "tau, before", "now "]
    text = words + table(header, rows) + "\n\nComparisons, and Kendall's tau with the truth:\n\n" + table(header_ranked, ranked)
    put("versions", provenance("python -m benchmarks run versions") + text)


def median(runs: list[dict[str, Any]]) -> float:
    return float(np.median([run["seconds"] for run in runs]))


def label_row(method: str, found: dict[str, list[dict[str, Any]]], truth: np.ndarray) -> list[str]:
    first = {which: runs[0] for which, runs in found.items()}
    labels = {which: np.array(one["labels"]) for which, one in first.items()}
    cells = [str(first[which]["iterations"]) for which in found]
    cells += [f"{median(runs):.3f}" for runs in found.values()]
    cells += [f"{100 * float((labels[which] == truth).mean()):.2f}%" for which in found]
    return [method, *cells, str(int((labels["before"] != labels["now"]).sum()))]


def ranking_row(method: str, size: tuple[int, int, int], found: dict[str, list[dict[str, Any]]]) -> list[str]:
    taus = [f"{runs[0]['tau']:.4f}" for runs in found.values()]
    return [method, f"{size[0]:,} / {size[1]:,}", *(f"{median(runs):.2f}" for runs in found.values()), *taus]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*sys.argv[2:5])))
    else:
        measure_all()


if __name__ == "__main__":
    main()
