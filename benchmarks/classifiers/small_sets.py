"""Networks on 100 to 3,000 items: does early stopping let them learn?

    PYTHONPATH=EARLIER/src python -m benchmarks run small_sets --record earlier    (EARLIER: a checkout of an earlier version)
    python -m benchmarks run small_sets                                            (this version, and the table of both)

Ways: the defaults of an earlier version, those of this one, and this one without a held-out part (`validation=0`).

"made up" has ten Gaussian classes in ten features and three or four votes per item by a hundred annotators who are right in
0.4 to 0.8 of their votes; "digits" has the digits of scikit-learn and the same crowd; "labelme" is a random part of the set.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS, FeatureSet
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.trust.metrics import accuracy, ece, log_loss

BENCHMARK = Benchmark(
    "Does early stopping let networks learn from 100 to 3,000 items?",
    sections=("small sets",),
    data=("labelme",),
    packages=("torch",),
    renders=("",),
    quick="--record earlier",
    small={"METHODS": ("aggnet",), "SIZES": {"labelme": (50,)}, "SEEDS": 1, "SHORT": {}},
)

METHODS = ("ccem", "bayes-dgc", "aggnet", "crowd-layer-mw", "conal")
SIZES = {"made up": (100, 300, 700, 1000, 3000), "digits": (100, 300, 700, 1000), "labelme": (100, 300, 700, 1000)}
SEEDS = 3
RUNS = Records("small_sets")
WAYS: dict[str, dict[str, float]] = {"earlier": {}, "now": {}, "validation=0": {"validation": 0}}
# Without a held-out part a training runs to its last epoch, which takes long: measured where the question arose.
SHORT = {"made up": (100, 300)}


def main() -> None:
    if "--record" in sys.argv:
        record(sys.argv[sys.argv.index("--record") + 1])
        return
    if not any(json.loads(key)[1] == "earlier" for key in RUNS.read()):
        # Measured now, they would be those of this version.
        RUNS.refuse_to_measure("earlier")
        raise SystemExit("measure the earlier version first, as the docstring of the script says")
    kept = {way: record(way) for way in WAYS}
    put("small sets", provenance("python -m benchmarks run small_sets", RUNS) + _about() + table(*_rows(kept)))


def record(way: str) -> dict[str, dict[str, float]]:
    """All runs of a way, by what was run."""
    sizes = SHORT if WAYS[way] else SIZES
    wanted = [(name, n, method, seed) for seed in range(SEEDS) for name in sizes for n in sizes[name] for method in METHODS]
    return {"|".join(map(str, one)): measured(way, *one) for one in wanted}


@lru_cache(1)
def made(name: str, n_items: int, seed: int) -> FeatureSet:
    rng = np.random.default_rng(seed)
    if name == "labelme":
        whole = SETS[name](seed)
        chosen = np.sort(rng.permutation(len(whole.X))[:n_items])
        return FeatureSet(whole.X[chosen], whole.votes[chosen], whole.truth[chosen], whole.X_test, whole.truth_test)
    if name == "digits":
        from sklearn.datasets import load_digits

        X, truth = load_digits(return_X_y=True)
        order = rng.permutation(len(X))
        X, truth = X[order], truth[order]
    else:
        truth = rng.integers(10, size=n_items + 2000)
        X = rng.normal(size=(10, 10))[truth] + rng.normal(size=(len(truth), 10))
    votes = crowd(truth[:n_items], rng)
    return FeatureSet(X[:n_items], votes, truth[:n_items], X[n_items:], truth[n_items:])


def crowd(truth: np.ndarray, rng: np.random.Generator) -> Annotations:
    skill = rng.uniform(0.4, 0.8, 100)
    item = np.repeat(np.arange(len(truth)), rng.integers(3, 5, len(truth)))
    who = rng.integers(len(skill), size=len(item))
    label = np.where(rng.random(len(item)) < skill[who], truth[item], rng.integers(10, size=len(item)))
    return Annotations.from_arrays(item=item, annotator=who, label=label, classes=list(range(10)), items=range(len(truth)))


@RUNS.each
def measured(way: str, name: str, n_items: int, method: str, seed: int) -> dict[str, float]:
    data, settings = made(name, n_items, seed), WAYS[way]
    model = crowdwise.make(method, random_state=seed, **settings).fit(data.X, data.votes)
    proba = model.predict_proba(data.X_test)
    return {
        "test": accuracy(proba, data.truth_test),
        "labels": accuracy(model.posterior_, data.truth),
        "nll": log_loss(proba, data.truth_test),
        "ece": ece(proba, data.truth_test),
        "epochs": len(model.history_["loss"]) + (model.history_["best_epoch"] if not settings else 0),
    }


def _rows(kept: dict[str, dict[str, dict[str, float]]]) -> tuple[list[str], list[list[str]]]:
    ways = tuple(kept)
    header = ["set", "items", "method", *(f"test, {way}" for way in ways), "labels, earlier", "labels, now"]
    header += ["ECE, earlier", "ECE, now", "epochs, earlier", "epochs, now"]
    rows = []
    for name, sizes in SIZES.items():
        for n_items in sizes:
            for method in METHODS:

                def cell(way: str, key: str, scale: float, digits: int, where: str = f"{name}|{n_items}|{method}") -> str:
                    found = [kept[way].get(f"{where}|{seed}", {}).get(key, np.nan) for seed in range(SEEDS)]
                    return interval(found, scale, digits)

                rows.append([name, str(n_items), method, *(cell(way, "test", 100, 1) for way in ways)])
                for key, scale, digits in (("labels", 100, 1), ("ece", 1, 3), ("epochs", 1, 0)):
                    rows[-1] += [cell("earlier", key, scale, digits), cell("now", key, scale, digits)]
    return header, rows


def _about() -> str:
    return (
        f"\n{SEEDS} seeds; mean ± half width of the 95% interval over seeds. Earlier: the version that stopped by the "
        "likelihood of the whole model. Epochs are those of both trainings, with the held-out part and after it.\n\n"
    )
