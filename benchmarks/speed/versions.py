"""An earlier version beside the present one, in turns, on the votes and comparisons of versus.py and versus_ranking.py.

    python -m benchmarks run versions [--before REVISION] [--turns N] [--votes N]

The earlier version is checked out into a temporary folder and runs in the same environment; every fit is a process of its own.
Seconds are of the processor, so that other load matters less; the median of the turns.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from benchmarks.versus.versus import accuracy, crowd, percent

BENCHMARK = Benchmark(
    "Is this version faster than 0.1, with the same labels?",
    sections=("versions",),
    renders=("",),
    no_quick="checks out an earlier version",
)

RUNS = Records("versions")
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


@cache
def sources(before: str) -> dict[str, Path]:
    """The sources of both versions; the earlier one is checked out until this process ends."""
    earlier = Path(tempfile.mkdtemp()) / "earlier"
    worktree = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*worktree, "add", "--detach", "-q", str(earlier), before], check=True)
    atexit.register(subprocess.run, [*worktree, "remove", "--force", str(earlier)], check=False)
    return {"before": earlier / "src", "now": ROOT / "src"}


@RUNS.each
def turn(kind: str, method: str, size: int, before: str, number: int) -> dict[str, Any]:
    """Both versions, one after the other, on so many votes or on comparisons of a size; how many labels differ."""
    argument = str(Path(crowd(size, 1000, 10)[0].name) / "votes.npz") if kind == "labels" else str(size)
    found: dict[str, Any] = {}
    for which, source in sources(before).items():
        command = [sys.executable, "-m", __spec__.name, "--child", kind, method, argument]
        environment = os.environ | {"PYTHONPATH": str(source)}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        found[which] = json.loads(done.stdout)
    if kind == "labels":
        labels = [np.array(one.pop("labels")) for one in found.values()]
        for one, given in zip(found.values(), labels, strict=True):
            one["right"] = accuracy(given, crowd(size, 1000, 10)[1])
        found["differ"] = int((labels[0] != labels[1]).sum())
    print(kind, method, size, found, flush=True)
    return found


def measure_all() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, help="revision of the earlier version (default: the end of 0.1)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--votes", type=int, default=1_000_000)
    given = parser.parse_args()

    def turns(kind: str, method: str, size: int) -> list[dict[str, Any]]:
        return [turn(kind, method, size, given.before, number) for number in range(given.turns)]

    rows = [label_row(method, turns("labels", method, given.votes)) for method in LABELS]
    ranked = [
        ranking_row(method, size, turns("ranking", method, place)) for place, size in enumerate(SIZES) for method in RANKINGS
    ]
    header = ["method", "iterations, before", "now", "seconds, before", "now ", "right, before", "now  ", "labels that differ"]
    words = (
        f"\nRevision {given.before} and now, in turns, each fit in a process of its own; medians of {given.turns} turns, "
        f"seconds of the processor. {given.votes:,} simulated votes by 1,000 annotators, 10 classes, seed 0; `smoothing` 0 for "
        "`dawid-skene`, else the defaults of each version.\n\n"
    )
    header_ranked = ["method", "items / comparisons", "seconds, before", "now", "tau, before", "now "]
    text = words + table(header, rows) + "\n\nComparisons, and Kendall's tau with the truth:\n\n" + table(header_ranked, ranked)
    put("versions", provenance("python -m benchmarks run versions", RUNS) + text)


def medians(turns: list[dict[str, Any]]) -> list[float]:
    """Seconds before and now."""
    return [float(np.median([one[which]["seconds"] for one in turns])) for which in ("before", "now")]


def label_row(method: str, turns: list[dict[str, Any]]) -> list[str]:
    both = [turns[0][which] for which in ("before", "now")]
    cells = [str(one["iterations"]) for one in both] + [f"{seconds:.3f}" for seconds in medians(turns)]
    return [method, *cells, *(percent(one["right"]) for one in both), str(turns[0]["differ"])]


def ranking_row(method: str, size: tuple[int, int, int], turns: list[dict[str, Any]]) -> list[str]:
    taus = [f"{turns[0][which]['tau']:.4f}" for which in ("before", "now")]
    return [method, f"{size[0]:,} / {size[1]:,}", *(f"{seconds:.2f}" for seconds in medians(turns)), *taus]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*sys.argv[2:5])))
    else:
        measure_all()


if __name__ == "__main__":
    main()
