"""crowdwise beside its neighbours, interleaved in one run: time per iteration, total time, memory, labels.

    make bench            (or: .venv-bench/bin/python -m benchmarks run versus [--votes 1000000])

Every measurement is a process of its own that loads the same simulated votes; crowdwise and the
neighbour take turns, and ratios are of the medians of these turns. A neighbour that is not
installed, fails, or needs longer than the time limit gets a row that says so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import HOW_FAST, provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "Is crowdwise as fast as crowd-kit and cleanlab, with the same labels?",
    sections=("versus",),
    packages=("crowdkit", "cleanlab", "psutil"),
    renders=("",),
    quick="--votes 1000",
)

RUNS = Records("versus")
LIMIT = 120.0
TURNS = 2

# method -> (crowd-kit class, extra settings of crowd-kit, iterations to time)
PAIRS = {
    "majority": ("MajorityVote", {}, 0),
    "wawa": ("Wawa", {}, 0),
    "zbs": ("ZeroBasedSkill", {}, 5),
    "dawid-skene": ("DawidSkene", {"tol": -1e18}, 5),
    "one-coin": ("OneCoinDawidSkene", {"tol": -1e18}, 2),
    "glad": ("GLAD", {"tol": -1e18, "silent": True}, 1),
    "mace": ("MACE", {"n_restarts": 1}, 5),
}


class Memory:
    """Peak memory above the start, sampled from a thread."""

    def __enter__(self) -> Memory:
        import psutil

        self.process, self.done = psutil.Process(), threading.Event()
        self.start = self.peak = self.process.memory_info().rss
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self) -> None:
        while not self.done.is_set():
            self.peak = max(self.peak, self.process.memory_info().rss)
            sleep(0.005)

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        self.megabytes = (self.peak - self.start) / 1e6


def timed(fit) -> float:
    started = perf_counter()
    fit()
    return perf_counter() - started


def ours(method: str, iterations: int, data: dict) -> dict:
    import crowdwise

    warnings.simplefilter("ignore")
    votes = crowdwise.Annotations.from_arrays(data["item"], data["annotator"], data["label"])

    def fit(n: int | None):
        model = crowdwise.make(method)
        if n is not None:
            # smoothing 0 is crowd-kit's model; a tiny tol keeps both at the same number of iterations.
            model.set_params(max_iter=n, **({} if method == "zbs" else {"tol": 1e-300}))
        return model.set_params(**({"smoothing": 0.0} if method == "dawid-skene" else {})).fit(votes)

    fit(2 if iterations else None)
    per = (timed(lambda: fit(1 + iterations)) - timed(lambda: fit(1))) / iterations if iterations else float("nan")
    with Memory() as memory:
        started = perf_counter()
        model = fit(None)
        total = perf_counter() - started
    same = fit(1 + iterations) if iterations else model
    return {"per": per, "total": total, "mb": memory.megabytes, "labels": model.labels_.tolist(), "at": same.labels_.tolist()}


def crowdkit(method: str, iterations: int, data: dict) -> dict:
    import crowdkit.aggregation as peers
    import pandas as pd

    warnings.simplefilter("ignore")
    frame = pd.DataFrame({"task": data["item"], "worker": data["annotator"], "label": data["label"]})
    name, extra, _ = PAIRS[method]

    def fit(n: int | None):
        cls = getattr(peers, name)
        if n is None:
            model = cls(**{k: v for k, v in extra.items() if k == "n_restarts" or k == "silent"})
        else:
            model = cls(n_iter=n, **extra)
        model.fit_predict(frame)
        return model

    per, at = float("nan"), None
    if iterations:
        first = timed(lambda: fit(1))
        started = perf_counter()
        at = fit(1 + iterations).labels_.sort_index().tolist()
        per = (perf_counter() - started - first) / iterations
    print(json.dumps({"per": per, "at": at}), flush=True)
    with Memory() as memory:
        started = perf_counter()
        model = fit(None)
        total = perf_counter() - started
    return {"per": per, "total": total, "mb": memory.megabytes, "labels": model.labels_.sort_index().tolist(), "at": at}


def cleanlab(method: str, iterations: int, data: dict) -> dict:
    """CROWDLAB needs class probabilities; it is given the vote shares."""
    from cleanlab.multiannotator import get_label_quality_multiannotator

    wide = np.full((data["item"].max() + 1, data["annotator"].max() + 1), np.nan)
    wide[data["item"], data["annotator"]] = data["label"]
    shares = np.zeros((len(wide), int(data["label"].max()) + 1))
    np.add.at(shares, (data["item"], data["label"]), 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    with Memory() as memory:
        started = perf_counter()
        found = get_label_quality_multiannotator(wide, shares, verbose=False)
        total = perf_counter() - started
    labels = found["label_quality"]["consensus_label"]
    return {"per": float("nan"), "total": total, "mb": memory.megabytes, "labels": labels.tolist(), "at": None}


RUNNERS = {"crowdwise": ours, "crowd-kit": crowdkit, "cleanlab": cleanlab}


@cache
def crowd(n_votes: int, n_annotators: int, n_classes: int) -> tuple[tempfile.TemporaryDirectory, np.ndarray]:
    """The folder of a file of simulated votes, ten per item, and the truth; the folder lasts as long as this process."""
    from crowdwise.data.simulate import simulate

    made = simulate(n_items=n_votes // 10, n_annotators=n_annotators, n_classes=n_classes, votes_per_item=10, random_state=0)
    votes, folder = made.votes, tempfile.TemporaryDirectory()
    np.savez(Path(folder.name) / "votes.npz", item=votes.item, annotator=votes.annotator, label=votes.label)
    return folder, made.truth


def child(library: str, method: str, n_votes: int) -> dict:
    path = Path(crowd(n_votes, 1000, 10)[0].name) / "votes.npz"
    iterations = str(PAIRS[method][2] if method else 0)
    words = [sys.executable, "-m", __spec__.name, "--run", library, method, iterations, str(path)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired as late:
        lines = (late.stdout or b"").decode().splitlines()
        part = json.loads(lines[-1]) if lines else {}
        return {"per": part.get("per", float("nan")), "at": part.get("at"), "note": f"not finished in {LIMIT:.0f} s"}
    if done.returncode:
        return {"note": "failed: " + done.stderr.strip().splitlines()[-1][:90]}
    return json.loads(done.stdout.splitlines()[-1])


def kept(got: dict, library: str, n_votes: int) -> dict[str, Any]:
    """What is recorded of a measurement: the share of right labels instead of the labels, and the version."""
    facts = {key: value for key, value in got.items() if key not in ("labels", "at")} | {"version": version(library)}
    return facts | ({"right": accuracy(got["labels"], crowd(n_votes, 1000, 10)[1])} if got.get("labels") else {})


@RUNS.each
def turn(method: str, number: int, n_votes: int) -> dict[str, Any]:
    """Both libraries, one after the other, and the share of labels that are the same at the same iteration."""
    our, their = (child(library, method, n_votes) for library in ("crowdwise", "crowd-kit"))
    same = float(np.mean(np.array(our["at"]) == np.array(their["at"]))) if our.get("at") and their.get("at") else None
    return {"ours": kept(our, "crowdwise", n_votes), "theirs": kept(their, "crowd-kit", n_votes), "same": same}


@RUNS.each
def crowdlab(n_votes: int) -> dict[str, Any]:
    return kept(child("cleanlab", "", n_votes), "cleanlab", n_votes)


def measure_all(n_votes: int, methods: list[str]) -> None:
    rows = []
    for method in methods or PAIRS:
        turns = [turn(method, n, n_votes) for n in range(TURNS if method in ("majority", "wawa", "dawid-skene") else 1)]
        rows.append(compared(method, turns))
        print(rows[-1], flush=True)
    if methods:
        return
    got = crowdlab(n_votes)
    took = got.get("note") or f"{got['total']:.1f} s, {got['mb']:,.0f} MB, labels {percent(got['right'])} right"
    other = f"- cleanlab {got['version']}, CROWDLAB on the vote shares: {took}."
    header = [
        "method",
        "crowdwise s/iter",
        f"crowd-kit {turns[-1]['theirs']['version']} s/iter",
        "ratio",
        "crowdwise total",
        "crowd-kit total",
        "ratio",
        "crowdwise MB",
        "crowd-kit MB",
        "labels right (crowdwise / crowd-kit)",
        "same labels at the same iteration",
    ]
    text = [
        provenance("make bench", RUNS),
        f"\n{n_votes:,} simulated votes: {n_votes // 10:,} items, 1,000 annotators, K = 10, seed 0. "
        "Totals are with each library's default settings (crowd-kit's MACE with one restart, as ours), memory is the peak "
        f"above the start of the fit, and a time limit of {LIMIT:.0f} s holds per process.\n",
        table(header, rows),
        "",
        other,
        "- Snorkel, peerannot and scikit-activeml by size: [How fast, how large](how-fast.md#beside-other-libraries).",
    ]
    put("versus", "\n".join(text))
    ours = [row for row in rows if row[0] == "dawid-skene"]
    put("versus", "\n".join([*text[:2], table(header, ours)]), HOW_FAST)


def compared(method: str, turns: list[dict[str, Any]]) -> list[str]:
    def middle(whose: str, key: str) -> float:
        values = [turn[whose].get(key) for turn in turns]
        return float(np.median([v for v in values if v is not None] or [np.nan]))

    our, their, same = turns[-1]["ours"], turns[-1]["theirs"], turns[-1]["same"]
    cells = []
    for key, form in (("per", "{:.4f}"), ("total", "{:.2f} s")):
        a, b = middle("ours", key), middle("theirs", key)
        cells += [form.format(x) if x == x else "-" for x in (a, b)]
        cells.append(f"{b / a:.0f}x" if a == a and b == b else "-")
    if their.get("note"):
        cells[4] = ":".join(their["note"].split(":")[:2])  # of a failure its kind, without the message
        if "not finished" in their["note"]:
            cells[5] = f"> {LIMIT / middle('ours', 'total'):.0f}x"
    megabytes = [f"{x:.0f}" if x == x else "-" for x in (middle("ours", "mb"), middle("theirs", "mb"))]
    right = " / ".join(percent(side.get("right")) for side in (our, their))
    return [method, *cells, *megabytes, right, percent(same)]


def accuracy(labels: list, truth: np.ndarray) -> float:
    return float(np.mean(np.array(labels) == truth))


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}%"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--votes", type=int, default=1_000_000)
    parser.add_argument("--methods", nargs="*", default=[], choices=list(PAIRS), help="some only: printed, not written")
    parser.add_argument("--run", nargs=4)
    given = parser.parse_args()
    if given.run:
        library, method, iterations, path = given.run
        print(json.dumps(RUNNERS[library](method, int(iterations), dict(np.load(path)))))
    else:
        measure_all(given.votes, given.methods)


if __name__ == "__main__":
    main()
