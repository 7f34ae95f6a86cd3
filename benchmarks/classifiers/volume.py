"""Why geocrowdnet-f is behind on ner_mturk: its reward for classes of equal size, where four of five tokens are no name.

    python -m benchmarks run volume

Each network is trained on all tokens, and on all names with one of 15 other tokens, which makes classes about equally frequent.
The truth chooses these tokens, so the second half shows a cause and no accuracy that anybody could reach.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import ner_mturk
from benchmarks.page import provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "Why is geocrowdnet-f behind where one class is frequent?",
    sections=("learn volume",),
    data=("ner_mturk",),
    packages=("torch",),
    renders=("",),
    small={"PLANS": {"ccem": ("ccem", {})}},
)

RUNS = Records("volume")

PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "ccem": ("ccem", {}),
    "geocrowdnet-f": ("geocrowdnet-f", {}),
    "geocrowdnet-f, balanced=false": ("geocrowdnet-f", {"balanced": False}),
    "geocrowdnet-f, strength=0.01": ("geocrowdnet-f", {"strength": 0.01}),
}
KEPT = 15


def thinned(truth: np.ndarray, seed: int) -> np.ndarray:
    """Positions of all names, and of one of `KEPT` other tokens."""
    return np.flatnonzero((truth > 0) | (np.random.default_rng(seed).random(len(truth)) < 1 / KEPT))


@cache
def parts(thin: bool) -> tuple[Any, np.ndarray, np.ndarray]:
    """The set, and which of its tokens teach and test."""
    data = ner_mturk(0)
    if thin:
        return data, thinned(data.truth, 0), thinned(data.truth_test, 1)
    return data, np.arange(len(data.truth)), np.arange(len(data.truth_test))


@RUNS.each
def measured(name: str, thin: bool) -> list[float]:
    data, train, test = parts(thin)
    truth, (method, settings) = data.truth_test[test], PLANS[name]
    model = crowdwise.make(method, random_state=0, **settings).fit(data.X[train], data.votes[train])
    proba = model.predict_proba(data.X_test[test])
    found = proba.argmax(axis=1)
    cells = [(found == truth).mean(), (found == 0).mean(), (found == truth)[truth == 0].mean()]
    return [*cells, (found == truth)[truth > 0].mean(), float(proba[:, 0].mean())]


@RUNS.each
def no_name(thin: bool) -> float:
    """Share of the tested tokens that are none."""
    data, _, test = parts(thin)
    return float((data.truth_test[test] == 0).mean())


def main() -> None:
    rows = []
    for title, thin in (("all tokens", False), (f"one of {KEPT} that are no name", True)):
        rows += [[title, name, *(f"{100 * cell:.1f}" for cell in measured(name, thin))] for name in PLANS]
        rows.append([title, "*truth*", "", f"{100 * no_name(thin):.1f}", "", "", ""])
    header = [
        "trained on",
        "method",
        "accuracy",
        "called no name",
        "right, no name",
        "right, names",
        "mean probability of no name",
    ]
    put("learn volume", f"{provenance('python -m benchmarks run volume', RUNS)}\n{table(header, rows)}")
