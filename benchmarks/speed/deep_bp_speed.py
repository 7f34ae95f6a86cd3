"""The cost of a round of deepBP's inference: beside a loop over annotators, and as votes grow to a million.

    python -m benchmarks run deep_bp_speed
    python -m benchmarks run deep_bp_speed --dry-run --most 100000

A round is what `AlternatingHead` does between two epochs: new messages of every annotator, then beliefs of every item
under the network's clipped probabilities. The loop is the oracle of the tests, tests/methods/classify/loop_oracle.py; both
sides get the same 400 draws of confusion matrices and must end in the same beliefs before they are timed. Rounds of both
sides take turns, so that a busy machine slows them alike.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.belief_propagation import BeliefPropagation
from crowdwise.parts.annotators.messages import BeliefMessages

BENCHMARK = Benchmark(
    "What does a round of deepBP's inference cost?",
    sections=("deep speed",),
    packages=("torch",),
    renders=("",),
    quick="--dry-run --most 100",
    small={"TIMED": 1, "WARM": 1},
)

RUNS = Records("deep_bp_speed")
ROOT = Path(__file__).parents[2]
NO_ONE = np.empty(0, np.int16)
PER_ITEM, PER_ANNOTATOR, ANNOTATORS, DRAWS = 3, 4, 750, 400
# Rounds before the clock starts (compiled code, warm messages), and rounds timed.
WARM, TIMED = 3, 9
SIZES = (10_000, 100_000, 1_000_000)
SETTINGS = {
    "one-coin, exact": {},
    "full rows, 64 draws": {"family": "confusion", "annotator_prior": "dir:2,1", "integral": "sobol", "samples": 64},
}


def crowd(per_item: int, per_annotator: int, n_annotators: int) -> tuple[Annotations, np.ndarray]:
    """A random regular crowd of accuracies from Beta(2, 1), and what a clipped network might say, [N, 2].

    Every pass over all annotators in random order serves `per_item` at a time, so no one meets an item twice.
    """
    rng = np.random.default_rng(0)
    assert n_annotators % per_item == 0
    annotator = np.concatenate([rng.permutation(n_annotators) for _ in range(per_annotator)])
    item = np.arange(len(annotator)) // per_item
    n_items = len(annotator) // per_item
    truth = rng.integers(2, size=n_items)
    right = rng.random(len(item)) < rng.beta(2, 1, n_annotators)[annotator]
    label = np.where(right, truth[item], 1 - truth[item])
    votes = Annotations.from_arrays(
        item, annotator, label, items=range(n_items), annotators=range(n_annotators), classes=[0, 1]
    )
    says = rng.uniform(0.1, 0.9, n_items)
    return votes, np.stack([1 - says, says], axis=1)


class Rounds:
    """Rounds of the library, each going on from the one before."""

    def __init__(self, votes: Annotations, prior_nk: np.ndarray, **settings) -> None:
        self.votes, self.log_prior = votes, np.log(prior_nk)
        self.model: BeliefMessages = BeliefPropagation(**settings)._annotators(votes, None)
        self.beliefs = prior_nk.copy()

    def one(self) -> float:
        started = perf_counter()
        self.model = self.model.update(self.votes, self.beliefs)
        self.model.infer(self.votes, self.log_prior, NO_ONE, self.beliefs)
        return perf_counter() - started


class LoopRounds:
    """The same by the oracle's loop over annotators."""

    def __init__(self, votes: Annotations, prior_nk: np.ndarray, draws_skl: np.ndarray) -> None:
        sys.path.insert(0, str(ROOT))
        from tests.methods.classify.loop_oracle import loop_round

        self.round = loop_round
        self.given = (votes.item, votes.annotator, votes.label, prior_nk, draws_skl)
        self.messages = np.full((votes.n_votes, votes.n_classes), 1 / votes.n_classes)
        self.beliefs = prior_nk.copy()

    def one(self) -> float:
        started = perf_counter()
        self.messages, self.beliefs = self.round(*self.given, self.messages)
        return perf_counter() - started


@RUNS.each
def in_turns() -> dict[str, Any]:
    """Items, seconds of every round by side, and how far beliefs of loop and library are apart."""
    votes, prior_nk = crowd(PER_ITEM, PER_ANNOTATOR, ANNOTATORS)
    rng = np.random.default_rng(1)
    right = rng.beta(2, 1, (DRAWS, 2))
    draws_skl = np.stack([np.stack([right[:, 0], 1 - right[:, 0]], 1), np.stack([1 - right[:, 1], right[:, 1]], 1)], 1)
    loop = LoopRounds(votes, prior_nk, draws_skl)
    same = Rounds(votes, prior_nk, annotator_prior=draws_skl)
    exact = Rounds(votes, prior_nk)
    sides = {"loop": loop, "same": same, "exact": exact}
    for _ in range(WARM):
        for side in sides.values():
            side.one()
    apart = float(np.abs(loop.beliefs - same.beliefs).max())
    if apart > 1e-6:
        raise SystemExit(f"the loop and the library differ by {apart:.3g} in their beliefs")
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(TIMED):
        for name, side in sides.items():
            seconds[name].append(side.one())
    apart = max(apart, float(np.abs(loop.beliefs - same.beliefs).max()))
    return {"items": votes.n_items, "seconds": seconds, "apart": apart}


def beside_loop() -> str:
    run = in_turns()
    seconds = run["seconds"]
    middle = {name: float(np.median(values)) for name, values in seconds.items()}
    ratio = np.median(np.array(seconds["same"]) / seconds["loop"])
    exact_ratio = np.median(np.array(seconds["exact"]) / seconds["loop"])
    rows = [
        [f"loop over annotators, {DRAWS} draws", f"{1e3 * middle['loop']:.1f}", "1"],
        [f"crowdwise, the same {DRAWS} draws", f"{1e3 * middle['same']:.2f}", f"{ratio:.3f}"],
        ["crowdwise, default (one-coin, exact quadrature)", f"{1e3 * middle['exact']:.2f}", f"{exact_ratio:.4f}"],
    ]
    return (
        f"**A round on {run['items']:,} items x {ANNOTATORS} annotators**, {PER_ITEM} votes per item, {PER_ANNOTATOR} "
        f"per annotator; median of {TIMED} rounds, ratio by round. With the same draws the beliefs of both sides differ by at "
        f"most {run['apart']:.0e}.\n\n" + table(["round", "milliseconds", "share of the loop's time"], rows)
    )


def peak() -> int:
    """Most memory this process has held, in MB; `getrusage` would tell its parent's where that was more (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def alone(setting: str, n_votes: int) -> None:
    """Seconds of a round, and MB before and at the peak, printed: run in a process of its own."""
    votes, prior_nk = crowd(5, 50, n_votes // 50)
    before = peak()
    rounds = Rounds(votes, prior_nk, **SETTINGS[setting])
    seconds = [rounds.one() for _ in range(6)][1:]
    print(float(np.median(seconds)), before, peak())


@RUNS.each
def round_of(setting: str, n_votes: int) -> list[float]:
    """`alone` in a process of its own."""
    code = f"import benchmarks.speed.deep_bp_speed as s; s.alone({setting!r}, {n_votes})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


def growth(most: int) -> str:
    rows = []
    for setting in SETTINGS:
        for n_votes in SIZES:
            if n_votes > most:
                continue
            seconds, before, most_mb = round_of(setting, n_votes)
            each = f"{1e6 * seconds / n_votes:.2f}"
            rows.append([setting, f"{n_votes:,}", f"{seconds:.3f}", each, f"{most_mb:,.0f}", f"{most_mb - before:,.0f}"])
            print(rows[-1], flush=True)
    head = ["annotators", "votes", "seconds", "microseconds per vote", "peak MB", "of these for the rounds"]
    return (
        "**Growth with the votes**: two classes, 5 votes per item, 50 per annotator, median of 5 rounds after the first, each "
        "row in a process of its own.\n\n" + table(head, rows)
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--most", type=int, default=SIZES[-1], help="votes of the largest crowd")
    options.add_argument("--dry-run", action="store_true", help="print the tables, do not write them into the page")
    given = options.parse_args()
    text = "\n" + beside_loop() + "\n\n" + growth(given.most)
    if given.dry_run:
        print(text)
    else:
        put("deep speed", provenance("python -m benchmarks run deep_bp_speed", RUNS) + text)
