"""Why online-em with chosen annotators stays below majority vote on web: whom each method asks, and what can be made of it.

    python -m benchmarks run online_choice

The item is random and the annotator the best by what the method knows of them (epsilon-greedy, as in `online_tutorial.py`),
up to two votes per item. The votes that a method asked for are then given to other methods, all at once.
"""

from __future__ import annotations

import numpy as np
import polars as pl

import crowdwise
import crowdwise.errors
from benchmarks.campaigns.online_tutorial import ASKING, CHOICES, CHUNK, ONLINE, right
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.campaign.campaign import race
from crowdwise.campaign.oracle import RecordedCrowd
from crowdwise.data.annotations import Annotations

BENCHMARK = Benchmark(
    "Why do chosen annotators lose on web?",
    sections=("online choice",),
    data=("web",),
    renders=("",),
    small={"SEEDS": [0]},
)

RUNS = Records("online_choice")

SEEDS = range(10)
REFITTED = ("majority", "dawid-skene", "consensus")
COMMONEST = 4


class Remembered(RecordedCrowd):
    """A recorded crowd that remembers what it was asked."""

    def __init__(self, votes: Annotations, truth: np.ndarray) -> None:
        super().__init__(votes)
        self.truth = truth.astype(np.int64)
        self.answers: list[pl.DataFrame] = []

    def answer(self, questions: pl.DataFrame) -> pl.DataFrame:
        """Answer and remember."""
        self.answers.append(super().answer(questions))
        return self.answers[-1]


def codes(column: pl.Series, names: np.ndarray) -> np.ndarray:
    """Positions of values in a sorted vocabulary."""
    return np.searchsorted(names, column.to_numpy())


@RUNS.each
def asked_by(method: str, seed: int) -> dict[str, float]:
    """What a method's questions bring it, and others."""
    votes, truth = labelled("web")
    crowd = Remembered(votes, truth)
    model = ONLINE[method]() if method in ONLINE else crowdwise.make(method)
    curve = race([CHOICES["annotator"]], crowd, model, 2 * votes.n_items, CHUNK["web"], seeds=[seed], explore=0.0)
    asked = pl.concat(crowd.answers)
    item, label = codes(asked["item"], votes.items), codes(asked["label"], votes.classes)
    same = Annotations.from_frame(asked, classes=votes.classes.tolist())
    return {
        "own": float(curve["accuracy"][-1]),
        "right": float((label == truth[item])[truth[item] >= 0].mean()),
        "commonest": float((label == COMMONEST).mean()),
        **{other: right(crowdwise.make(other).fit(same), votes, truth) for other in REFITTED},
    }


@RUNS.each
def of_all() -> list[float]:
    """Shares of all recorded votes that are right and for the commonest class, and its share of the items."""
    votes, truth = labelled("web")
    known = truth[votes.item] >= 0
    agreed = (votes.label == truth[votes.item])[known].mean()
    return [agreed, (votes.label == COMMONEST).mean(), (truth == COMMONEST)[truth >= 0].mean()]


def main() -> None:
    rows = []
    for method in ASKING:
        runs = [asked_by(method, seed) for seed in SEEDS]
        rows.append(
            [method, *(interval([run[key] for run in runs], 100, 1) for key in ("right", "commonest", "own", *REFITTED))]
        )
    agreed, commonest, share = of_all()
    rows.append(["*all recorded votes*", f"{100 * agreed:.1f}", f"{100 * commonest:.1f}", "", "", "", ""])
    header = ["asked by", "votes right", "votes for class 5", "its accuracy", *(f"{name} on these" for name in REFITTED)]
    text = (
        f"{provenance('python -m benchmarks run online_choice', RUNS)}\n{table(header, rows)}\n\n"
        f"In percent, at two votes per item, {len(SEEDS)} orders; {100 * share:.1f}% of the items are of class 5."
    )
    put("online choice", text)
