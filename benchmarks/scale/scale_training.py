"""Training by several processes: one, two by torchrun and two by Ray, on the same simulated crowd.

    python -m benchmarks run scale_training                              # written to its page
    python -m benchmarks run scale_training --items 2000 --epochs 2 --dry-run

20,000 items with 64 features in 5 classes; three of 20 annotators vote on each. Seconds per epoch are measured from the end of
the first epoch to the end of the last, so that the start of the processes is not among them; the start has a column of its own:
all other seconds of the fit. Processes have one thread each: run with OMP_NUM_THREADS=1. Differences are against one process.
"""

from __future__ import annotations

import argparse
import warnings
from functools import cache, lru_cache
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseWarning
from crowdwise.estimator.registry import make_classifier
from crowdwise.scale.training import Torchrun
from crowdwise.scale.training_ray import RayTrain

BENCHMARK = Benchmark(
    "Do several processes train the same network, and how fast?",
    sections=("scale training",),
    packages=("torch", "ray"),
    renders=("",),
    no_quick="starts three kinds of processes for every method, which takes minutes",
)

RUNS = Records("scale_training")
SECTION = "scale training"
DOUBLE = " in double precision"
METHODS: dict[str, dict[str, Any]] = {
    "ccem": {"hidden": 256},
    f"ccem{DOUBLE}": {"hidden": 256, "precision": "float64"},
    "bayes-dgc": {"hidden": 256},
    f"bayes-dgc{DOUBLE}": {"hidden": 256, "precision": "float64"},
    "svgpcr": {"inducing": 100},
}
# No dropout, whose draws are every process's own, and nothing held out: every run has the same epochs.
SHARED: dict[str, Any] = {"dropout": 0.0, "validation": 0.0, "batch_size": 512, "init": "majority"}
ALONE = "one process"
ENGINES: dict[str, Any] = {ALONE: None, "two by torchrun": Torchrun(2), "two by Ray": RayTrain(2)}


@cache
def simulated(n_items: int, n_features: int = 64, n_classes: int = 5, n_annotators: int = 20) -> tuple[np.ndarray, Annotations]:
    rng = np.random.default_rng(0)
    truth = rng.integers(n_classes, size=n_items)
    X = rng.normal(size=(n_classes, n_features))[truth] * 0.4 + rng.normal(size=(n_items, n_features))
    who = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :3].ravel()
    item = np.repeat(np.arange(n_items), 3)
    right = rng.random(len(item)) < rng.uniform(0.5, 0.9, n_annotators)[who]
    label = np.where(right, truth[item], rng.integers(n_classes, size=len(item)))
    return X, Annotations.from_arrays(item, who, label, classes=range(n_classes))


@lru_cache(2)
def fitted(name: str, where: str, n_items: int, epochs: int) -> tuple[Any, float, float]:
    """The fit, its seconds per epoch, and all its other seconds."""
    X, votes = simulated(n_items)
    wanted, name = SHARED | METHODS[name] | {"epochs": epochs}, name.removesuffix(DOUBLE)
    known = make_classifier(name).get_params()
    settings = {key: value for key, value in wanted.items() if key in known}
    times: list[float] = []
    model, begin = make_classifier(name, **settings), perf_counter()
    model.fit(X, votes, engine=ENGINES[where], progress=lambda *_: times.append(perf_counter()))
    whole = perf_counter() - begin
    epoch = (times[-1] - times[0]) / (len(times) - 1)
    return model, epoch, whole - epoch * len(times)


@RUNS.each
def measured(name: str, where: str, n_items: int, epochs: int) -> dict[str, float]:
    """Seconds, and how far posteriors and labels are from those of one process."""
    alone = fitted(name, ALONE, n_items, epochs)[0]
    model, epoch, other = fitted(name, where, n_items, epochs)
    apart = float(np.abs(model.posterior_ - alone.posterior_).max())
    return {"epoch": epoch, "other": other, "apart": apart, "equal": float((model.labels_ == alone.labels_).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the page as it is")
    given = parser.parse_args()
    if given.epochs < 2:
        parser.error("an epoch is measured from the end of another: --epochs must be 2 or more")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", CrowdwiseWarning)
    rows = []
    for name in given.methods:
        for where in dict.fromkeys([ALONE, *given.engines]):
            run = measured(name, where, given.items, given.epochs)
            compared = ["-", "-"] if where == ALONE else [f"{run['apart']:.0e}", f"{100 * run['equal']:.2f}%"]
            rows.append([f"{name}, {where}", f"{run['epoch']:.3f}", f"{run['other']:.1f}", *compared])
            print(*rows[-1], sep="\t", flush=True)
    header = ["method, processes", "s per epoch", "other s", "largest difference of posteriors", "equal labels"]
    told = (
        f"\n{given.items:,} simulated items with 64 features, 5 classes and 20 annotators; {given.epochs} epochs, batches of "
        "512, one thread per process, no dropout. In single precision rounding differs with the number of processes and grows "
        "from step to step; in double precision it stays rounding. Networks as small as these wait for each other longer than "
        "they compute. *Other s* has the start of the processes in it.\n"
    )
    text = f"{provenance('python -m benchmarks run scale_training', RUNS)}\n{told}\n{table(header, rows)}"
    if given.dry_run:
        print(text)
    else:
        put(SECTION, text)
