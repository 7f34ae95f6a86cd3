"""BayesDGC beside label-only methods and Raykar at all tenths of the annotations (Li, Huang and Chen 2021), and its bound.

    python -m benchmarks run deep_tenths [--repeats N]

Tasks, methods and scores: deep_fraction.py.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.papers.deep_fraction import EPOCHS, FRACTIONS, METHODS, TASKS, Task, draw, run, tables
from benchmarks.records import Records
from crowdwise.methods.classify.bayes_dgc import BayesDGC

BENCHMARK = Benchmark(
    "Does BayesDGC beat label-only methods at every tenth of the annotations, and does its bound rise?",
    sections=("deep fraction", "deep tenths"),
    data=("labelme", "cifar10n", "ner_mturk", "rte", "sentence_polarity"),
    packages=("torch",),
    renders=("",),
    quick="--repeats 1",
    small={
        "TASKS": {"labelme: coast": ["labelme", [5], 1000]},
        "TENTHS": [10, 30, 50, 70, 100],
        "STEPS": {"epochs": 2},
    },
    leaves_out=("draw",),
)

RUNS = Records("deep_tenths")
TENTHS = tuple(range(10, 101, 10))
STEPS: dict[str, Any] = {"epochs": EPOCHS}


def repeated(task: Task, percent: int, seed: int) -> dict[str, dict[str, float]]:
    """Scores by method, on one part of the votes."""
    return {method: run(task, method, percent, seed) for method in METHODS}


def bounds(task: Task, percent: int, seed: int) -> list[float]:
    """The bound after every epoch, without warm-up and early stopping."""
    model = BayesDGC(**STEPS, validation=0, warmup=0, random_state=seed)
    trace: list[float] = model.fit(task.X, task.part(percent, seed)).trace_.tolist()
    return trace


@cache
def loaded(name: str) -> Task:
    return Task(*TASKS[name])


@RUNS.each
def size_of(name: str) -> dict[str, float]:
    return loaded(name).size()


def measured(repeats: int) -> tuple[dict[tuple[str, int], list[dict]], dict[tuple[str, int], list[float]]]:
    """Scores by task and part, one per repeat; bounds by task and part, of the first."""
    scores: dict[tuple[str, int], list[dict]] = {}
    rises = {}
    for seed in range(repeats):
        for name in TASKS:
            for percent in TENTHS:
                key = json.dumps([name, percent, seed])
                found = RUNS.once(key, lambda n=name, p=percent, s=seed: repeated(loaded(n), p, s))
                scores.setdefault((name, percent), []).append(found)
    for name in TASKS:
        for percent in (TENTHS[0], TENTHS[-1]):
            key = json.dumps(["trace", name, percent])
            rises[name, percent] = RUNS.once(key, lambda n=name, p=percent: bounds(loaded(n), p, 0))
    return scores, rises


def means_table(scores: dict[tuple[str, int], list[dict]], repeats: int, score: str, words: str) -> str:
    """A row per method; a mean over tasks per repeat, its interval over repeats."""
    rows = []
    for method in METHODS:
        by_part = [
            [np.mean([scores[name, percent][seed][method][score] for name in TASKS]) for seed in range(repeats)]
            for percent in TENTHS
        ]
        rows.append([method, *(interval(values, 100, 1) for values in by_part)])
    return table([words, *(f"{percent}%" for percent in TENTHS)], rows)


def bound_table(rises: dict[tuple[str, int], list[float]]) -> str:
    rows = []
    for (name, percent), values in rises.items():
        steps = np.diff(values)
        rows.append(
            [f"{name}, {percent}%", str(len(values)), f"{values[0]:.1f}", f"{values[-1]:.1f}", str(int((steps < -1e-6).sum())),
             f"{max(0.0, -steps.min(initial=0.0)):.3f}"]
        )  # fmt: skip
    return table(["task and part", "epochs", "bound after the first", "after the last", "falls", "largest fall"], rows)


def about(repeats: int) -> str:
    return (
        "\nThe protocol of Li, Huang and Chen (2021) on public sets: binary tasks, one class against the rest where there "
        "are more; a random part of the votes is kept; methods label the training items. As in the paper the k items with the "
        "highest probability are called positive, k being the true number of positives, so F1, precision and recall are one "
        "number; below it the usual labels. All annotators take part (the paper: the nine busiest). bayes-dgc has at most "
        f'{EPOCHS} epochs; *paper\'s model* is `class_shares=True, steps="natural"`; all else is default: start, warm-up and '
        f"early stopping are not the paper's. {repeats} repeats; mean ± half width of the 95% interval. At 100% "
        "only the networks differ between repeats.\n\n![F1 against the part of the votes seen](images/deep-fraction.png)\n\n"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=8)
    repeats = options.parse_args().repeats
    scores, rises = measured(repeats)
    said = provenance("python -m benchmarks run deep_tenths", RUNS)
    some = {
        f"{name} / {method} / {percent}": [one[method] for one in scores[name, percent]]
        for name in TASKS
        for percent in FRACTIONS
        for method in METHODS
    }
    sizes = {name: size_of(name) for name in TASKS}
    draw(some, sizes, repeats)
    put("deep fraction", f"{said}{about(repeats)}{tables(some, sizes, repeats)}")
    parts = [
        means_table(scores, repeats, score, words)
        for score, words in (("accuracy", "Accuracy, first k"), ("f1", "F1, first k"))
    ]
    text = f"""{said}
The same tasks, methods and scores with all tenths of the votes, {repeats} repeats: means over {len(TASKS)} tasks with the half
width of the 95% interval over repeats.

{parts[0]}

{parts[1]}

**The bound of bayes-dgc** ({STEPS["epochs"]} epochs, no warm-up, no early stopping, the first repeat): `trace_`, the evidence
lower bound of the votes, for the network as every item last met it and the Dirichlet posteriors at the end of the epoch.

{bound_table(rises)}
"""
    put("deep tenths", text)
