"""The methods that people wait for: processor and wall seconds, iterations and memory per vote.

    python -m benchmarks run slow_methods [--votes 1000000] [--annotators 1000] [--classes 5] [--real ner_mturk] [METHOD ...]

Rows: every method on simulated votes of the given size (10 votes per item); ebcc on 2,514 items of 15 classes, with 300 and
900 annotators of very different activity, on items of different difficulty; minimax-entropy on a real set and on 60,000 votes
of 3,108 annotators, 5 classes. One process per row, after a small fit that loads what is compiled. Memory is the peak of the
process less what it held before the fit, per vote. `--src OTHER/src` runs another checkout in turns with this one, for ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "How long do the methods take that people wait for?",
    data=("ner_mturk",),
    quick="--votes 1000 --annotators 10 cnmf",
    records="how_fast",
)

RUNS = Records("how_fast")
METHODS = (
    "ebcc", "minimax-entropy", "belief-propagation", "cnmf", "tensor-admm", "group-dawid-skene", "group-vote", "item-group-ds",
    "cbcc", "worker-cluster",
)  # fmt: skip
HEADER = ["method", "votes", "items", "annotators", "K", "seconds", "processor s", "iterations", "bytes per vote"]


@dataclass(frozen=True)
class Case:
    """A method and its votes: simulated, or the shared set of this name."""

    method: str
    items: int = 0
    annotators: int = 0
    classes: int = 0
    per_item: int = 10
    activity: str = "uniform"
    difficulty: float = 0.0
    real: str = ""


def cases(methods: list[str], n_votes: int, annotators: int, classes: int, real: str) -> list[Case]:
    """The rows for these methods."""
    found = [Case(method, n_votes // 10, annotators, classes) for method in methods]
    if "ebcc" in methods:
        many = {"classes": 15, "per_item": 15, "activity": "power-law", "difficulty": 1.0}
        found += [Case("ebcc", 2514, crowd, **many) for crowd in (300, 900)]  # type: ignore[arg-type]
    if "minimax-entropy" in methods:
        found += [Case("minimax-entropy", real=real)] if (SHARED / real).is_dir() else []
        found.append(Case("minimax-entropy", 12_000, 3108, 5, per_item=5))
    return found


def votes_of(case: Case) -> Any:
    """The votes of a row."""
    import crowdwise
    from crowdwise.data.simulate import simulate

    if case.real:
        votes = crowdwise.read(next((SHARED / case.real).glob("annotations.csv*")))
    else:
        votes = simulate(
            n_items=case.items,
            n_annotators=case.annotators,
            n_classes=case.classes,
            votes_per_item=case.per_item,
            activity=case.activity,
            difficulty=case.difficulty,
            random_state=0,
        ).votes
    if case.method == "item-group-ds":
        votes = votes.with_groups({item: str(n % 3) for n, item in enumerate(votes.items)})
    return votes


def run(case: Case) -> dict[str, Any]:
    """Fit once in this process; seconds, iterations and memory."""
    import psutil

    import crowdwise

    warnings.simplefilter("ignore")
    votes = votes_of(case)
    small = votes_of(Case(case.method, 2500, 30, max(votes.n_classes, 2)))
    crowdwise.make(case.method, **({} if case.method == "group-vote" else {"max_iter": 2})).fit(small)
    process, peak, done = psutil.Process(), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], process.memory_info().rss)
            sleep(0.01)

    before = process.memory_info().rss
    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, cpu = perf_counter(), process_time()
    model = crowdwise.make(case.method).fit(votes)
    wall, cpu = perf_counter() - wall, process_time() - cpu
    done.set()
    watcher.join()
    return {
        "sizes": [votes.n_votes, votes.n_items, votes.n_annotators, votes.n_classes],
        "seconds": wall,
        "processor": cpu,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "bytes": (peak[0] - before) / votes.n_votes,
        "codes": np.asarray(model.result_.codes).tolist(),
    }


def child(case: Case, src: str = "") -> dict[str, Any]:
    """`run` in a process of its own, on this checkout or another one."""
    environment = os.environ | ({"PYTHONPATH": src} if src else {})
    words = [sys.executable, "-m", __spec__.name, "--case", json.dumps(asdict(case))]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


@RUNS.each
def slow(**case: Any) -> dict[str, Any]:
    """What a fit took, without its labels."""
    return {name: value for name, value in child(Case(**case)).items() if name != "codes"}


def row(case: Case, got: dict[str, Any]) -> list[str]:
    """A line of the table."""
    sizes = [f"{size:,}" for size in got["sizes"]]
    rounds = f"{got['iterations']}{'' if got['converged'] else ' (cap)'}"
    name = f"{case.method} ({case.real})" if case.real else case.method
    return [name, *sizes, f"{got['seconds']:.1f}", f"{got['processor']:.1f}", rounds, f"{got['bytes']:.0f}"]


def rows(wanted: list[Case], src: str = "") -> tuple[list[str], list[list[str]]]:
    """Header and lines; with another checkout, its processor seconds, the ratio and labels that differ beside."""
    header = [*HEADER, *(["other, processor s", "ratio", "labels that differ"] if src else [])]
    found = []
    for case in wanted:
        got = child(case) if src else slow(**asdict(case))
        line = row(case, got)
        if src:
            other = child(case, src)
            differ = int((np.array(got["codes"]) != np.array(other["codes"])).sum())
            line += [f"{other['processor']:.1f}", f"{other['processor'] / got['processor']:.1f}", f"{differ:,}"]
        found.append(line)
        print(line, file=sys.stderr, flush=True)
    return header, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--votes", type=int, default=1_000_000)
    parser.add_argument("--annotators", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--real", default="ner_mturk")
    parser.add_argument("--src", default="", help="folder of another checkout's sources, to compare with")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(run(Case(**json.loads(given.case)))))
        return
    wanted = cases(given.methods or list(METHODS), given.votes, given.annotators, given.classes, given.real)
    other = str(Path(given.src).resolve()) if given.src else ""
    text = table(*rows(wanted, other))
    print(provenance("python -m benchmarks run slow_methods", None if other else RUNS), text, sep="\n")


if __name__ == "__main__":
    main()
