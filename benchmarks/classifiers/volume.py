"""Why geocrowdnet-f is behind on ner_mturk: its reward for classes of equal size, where four of five tokens are no name.

    python -m benchmarks run volume

Each network is trained on all tokens, and on all names with one of 15 other tokens, which makes classes about equally frequent.
The truth chooses these tokens, so the second half shows a cause and no accuracy that anybody could reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import ner_mturk
from benchmarks.page import provenance, put, table

BENCHMARK = Benchmark(
    "Why is geocrowdnet-f behind where one class is frequent?",
    sections=("learn volume",),
    data=("ner_mturk",),
    packages=("torch",),
)

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


def main() -> None:
    data = ner_mturk(0)
    rows = []
    for title, thin in (("all tokens", False), (f"one of {KEPT} that are no name", True)):
        train = thinned(data.truth, 0) if thin else np.arange(len(data.truth))
        test = thinned(data.truth_test, 1) if thin else np.arange(len(data.truth_test))
        truth = data.truth_test[test]
        for name, (method, settings) in PLANS.items():
            model = crowdwise.make(method, random_state=0, **settings).fit(data.X[train], data.votes[train])
            proba = model.predict_proba(data.X_test[test])
            found = proba.argmax(axis=1)
            cells = [(found == truth).mean(), (found == 0).mean(), (found == truth)[truth == 0].mean()]
            cells += [(found == truth)[truth > 0].mean(), proba[:, 0].mean()]
            rows.append([title, name, *(f"{100 * float(cell):.1f}" for cell in cells)])
            print(rows[-1], flush=True)
        rows.append([title, "*truth*", "", f"{100 * float((truth == 0).mean()):.1f}", "", "", ""])
    header = [
        "trained on",
        "method",
        "accuracy",
        "called no name",
        "right, no name",
        "right, names",
        "mean probability of no name",
    ]
    put("learn volume", f"{provenance('python -m benchmarks run volume')}\n{table(header, rows)}")
