"""Which classifier learns best from 60 or 120 items, where auto-classifier compares none?

    python -m benchmarks run few_items

All candidates of auto-classifier, on scikit-learn's small sets and on features that are noise, with simulated crowds (15
annotators of uneven skill, two to four votes per item), and on random items of four real sets with their votes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS, FeatureSet
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.data.simulate import simulate
from crowdwise.trust.choice.classifiers import CANDIDATES
from crowdwise.trust.metrics import accuracy, ece, log_loss

BENCHMARK = Benchmark(
    "Which classifier learns best from 60 or 120 items, where auto-classifier compares none?",
    sections=("few items",),
    data=("labelme", "rte", "sentence_polarity", "cifar10n"),
    packages=("torch",),
    renders=("",),
    small={"SIZES": (30,), "SEEDS": 1, "REAL": ("rte",), "MADE": ("load_iris",)},
)

SIZES, SEEDS = (60, 120), 3
MADE = ("load_iris", "load_wine", "load_breast_cancer", "load_digits", "noise")
REAL = ("labelme", "rte", "sentence_polarity", "cifar10n")
RUNS = Records("few_items")
SCORES = ("test", "nll", "ece", "labels")


def main() -> None:
    found = {
        (name, size): {c.label: scores(c.label, name, size) for c in CANDIDATES} for size in SIZES for name in (*MADE, *REAL)
    }
    header = ["method"] + [f"{score}, {size} items" for size in SIZES for score in ("accuracy", "NLL", "ECE", "labels")]
    header += [f"NLL below two stages with majority vote, {size} items" for size in SIZES]
    put("few items", provenance("python -m benchmarks run few_items", RUNS) + _about(found) + table(header, _rows(found)))


def scores(label: str, name: str, size: int) -> list[float]:
    """Mean scores over seeds."""
    # Iris has 150 items: what is left of them tests.
    runs = [measured(label, name, min(size, 100) if name == "load_iris" else size, seed) for seed in range(SEEDS)]
    return [float(np.mean([run[score] for run in runs])) for score in SCORES]


def _about(found: dict[tuple[str, int], dict[str, list[float]]]) -> str:
    names = [*MADE, *REAL]
    left = [_best(found, [name for name in names if name != out]) for out in names]
    return (
        f"\nMeans over {len(names)} sets, {SEEDS} seeds each ({', '.join(name.removeprefix('load_') for name in names)}; of "
        f"iris at most 100 items). By mean NLL the best is {_best(found, names)}; with one set left out it is the same "
        f"{sum(one == _best(found, names) for one in left)} times of {len(names)}.\n\n"
    )


def _best(found: dict[tuple[str, int], dict[str, list[float]]], names: list[str]) -> str:
    return min(CANDIDATES, key=lambda c: np.mean([found[name, size][c.label][1] for name in names for size in SIZES])).label


def _rows(found: dict[tuple[str, int], dict[str, list[float]]]) -> list[list[str]]:
    rows, plain = [], CANDIDATES[0].label
    for candidate in CANDIDATES:
        row, below = [candidate.label], []
        for size in SIZES:
            here = {name: of for (name, n), of in found.items() if n == size}
            test, nll, off, labels = np.mean([of[candidate.label] for of in here.values()], axis=0)
            row += [f"{100 * test:.1f}", f"{nll:.3f}", f"{off:.3f}", f"{100 * labels:.1f}"]
            wins = sum(of[candidate.label][1] < of[plain][1] for of in here.values())
            below.append("" if candidate.label == plain else f"{wins} of {len(here)}")
        rows.append(row + below)
    return rows


@RUNS.each
def measured(label: str, name: str, n_items: int, seed: int) -> dict[str, float]:
    data = made(name, n_items, seed)
    candidate = next(c for c in CANDIDATES if c.label == label)
    model = crowdwise.make(candidate.method, **candidate.settings)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    proba = model.fit(data.X, data.votes).predict_proba(data.X_test)
    return {
        "test": accuracy(proba, data.truth_test),
        "nll": log_loss(proba, data.truth_test),
        "ece": ece(proba, data.truth_test),
        "labels": accuracy(model.posterior_, data.truth),
    }


@lru_cache(1)
def made(name: str, n_items: int, seed: int) -> FeatureSet:
    rng = np.random.default_rng(seed)
    if name in SETS:
        whole = SETS[name](seed)
        some = np.sort(rng.permutation(len(whole.X))[:n_items])
        return FeatureSet(whole.X[some], whole.votes[some], whole.truth[some], whole.X_test, whole.truth_test)
    X, truth = _noise(n_items, rng) if name == "noise" else _of_sklearn(name)
    order = rng.permutation(len(truth))
    X, truth = X[order], truth[order]
    crowd: dict[str, Any] = {"n_annotators": 15, "n_classes": int(truth.max()) + 1, "votes_per_item": (2, 4)}
    votes = simulate(truth=truth[:n_items], random_state=seed, classes=list(range(crowd["n_classes"])), **crowd).votes
    return FeatureSet(X[:n_items], votes, truth[:n_items], X[n_items:], truth[n_items:])


def _of_sklearn(name: str) -> tuple[np.ndarray, np.ndarray]:
    import sklearn.datasets

    X, truth = getattr(sklearn.datasets, name)(return_X_y=True)
    return X.astype(float), truth


def _noise(n_items: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n_items + 500, 50)), rng.integers(4, size=n_items + 500)
