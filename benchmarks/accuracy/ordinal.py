"""Ordered classes: ordinal methods beside methods that know no order, on real ratings and on simulated ones.

python -m benchmarks run ordinal
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.gold import encode_gold
from crowdwise.kernels.numerics import median_class
from crowdwise.trust.metrics import accuracy, bootstrap_interval, mean_absolute_error, quadratic_kappa

BENCHMARK = Benchmark(
    "Do methods that know the order of classes do better on ratings?",
    sections=("ordinal",),
    data=("adult", "affect"),
    renders=("",),
    small={"METHODS": ["majority", "cumulative-link"], "SEEDS": [0]},
)

METHODS = ["majority", "dawid-skene", "one-coin", "ordinal-binary", "cumulative-link"]
MEASURES = (accuracy, mean_absolute_error, quadratic_kappa)
SEEDS = range(5)
RUNS = Records("ordinal")


def one_hot(codes: Any, n_classes: int) -> Any:
    return np.eye(n_classes)[codes]


def rounded_mean(votes: crowdwise.Annotations) -> Any:
    """The mean label of every item, rounded."""
    total = np.bincount(votes.item, votes.label, minlength=votes.n_items)
    mean = total / np.maximum(votes.votes_per_item, 1)
    return one_hot(np.rint(mean).astype(int), votes.n_classes)


def posteriors(votes: crowdwise.Annotations) -> dict[str, tuple[Any, float]]:
    """Method -> posterior and seconds; medians of the last one beside its most probable classes."""
    found = {"mean, rounded": (rounded_mean(votes), 0.0)}
    for name in METHODS:
        started = process_time()
        found[name] = crowdwise.make(name, confidence="model").fit(votes).posterior_, process_time() - started
    last, seconds = found["cumulative-link"]
    return found | {"cumulative-link, median": (one_hot(median_class(last), votes.n_classes), seconds)}


def graded_affect() -> tuple[crowdwise.Annotations, Any]:
    """Valence of headlines from -100 to 100, cut at -60, -20, 20 and 60; gold likewise."""
    import polars as pl

    cuts = np.array([-60, -20, 20, 60])
    rated, gold = (pl.read_csv(SHARED / "affect" / f"{name}.csv") for name in ("annotations", "truth"))
    grades = np.searchsorted(cuts, rated["label"].to_numpy(), side="right")
    votes = crowdwise.Annotations.from_arrays(rated["item"], rated["annotator"], grades, classes=range(5))
    known = np.searchsorted(cuts, gold["label"].to_numpy(), side="right")
    return votes, encode_gold(votes, dict(zip(gold["item"].to_list(), known.tolist(), strict=True)))


def real(name: str) -> tuple[crowdwise.Annotations, Any]:
    if name == "affect":
        return graded_affect()
    return labelled(name)


def scale(seed: int, shift_sd: float, n_items: int = 400, n_annotators: int = 30, n_classes: int = 5) -> Any:
    """Items on a scale; annotators shift and stretch it, add noise, and lapse in a tenth of the cases; five votes each."""
    rng = np.random.default_rng(seed)
    middle = (n_classes - 1) / 2
    place = rng.normal(middle, n_classes / 4, n_items)
    truth = np.clip(np.rint(place), 0, n_classes - 1).astype(int)
    shift, stretch = rng.normal(0, shift_sd, n_annotators), rng.lognormal(0, 0.15, n_annotators)
    noise = rng.lognormal(np.log(0.5), 0.4, n_annotators)
    annotator = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :5].ravel()
    item = np.repeat(np.arange(n_items), 5)
    seen = (
        (place[item] - middle) * stretch[annotator] + middle + shift[annotator] + noise[annotator] * rng.normal(size=len(item))
    )
    label = np.clip(np.rint(seen), 0, n_classes - 1).astype(int)
    label = np.where(rng.random(len(item)) < 0.1, rng.integers(0, n_classes, len(item)), label)
    return crowdwise.Annotations.from_arrays(item, annotator, label, items=range(n_items), classes=range(n_classes)), truth


def no_order(seed: int, n_items: int = 400, n_annotators: int = 30, n_classes: int = 5) -> Any:
    """Errors fall on any class alike, so that the order means nothing: the assumption is wrong here."""
    rng = np.random.default_rng(seed)
    truth, right = rng.integers(0, n_classes, n_items), rng.uniform(0.3, 0.9, n_annotators)
    annotator = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :5].ravel()
    item = np.repeat(np.arange(n_items), 5)
    label = np.where(rng.random(len(item)) < right[annotator], truth[item], rng.integers(0, n_classes, len(item)))
    return crowdwise.Annotations.from_arrays(item, annotator, label, items=range(n_items), classes=range(n_classes)), truth


CROWDS: dict[str, Callable[[int], Any]] = {
    "scale, shifts 0.2": lambda seed: scale(seed, 0.2),
    "scale, shifts 0.6": lambda seed: scale(seed, 0.6),
    "no order": no_order,
}


@RUNS.each
def on_real(name: str) -> dict[str, list[Any]]:
    """By method: every measure with its interval, and seconds."""
    votes, truth = real(name)
    return {
        method: [
            [[measure(q, truth), *bootstrap_interval(measure, q, truth, n_resamples=300)] for measure in MEASURES],
            seconds,
        ]
        for method, (q, seconds) in posteriors(votes).items()
    }


@RUNS.each
def on_simulated(crowd: str, seed: int) -> dict[str, list[float]]:
    """By method: accuracy and mean error."""
    votes, truth = CROWDS[crowd](seed)
    return {method: [accuracy(q, truth), mean_absolute_error(q, truth)] for method, (q, _) in posteriors(votes).items()}


def main() -> None:
    text = [
        "Share of right classes, mean number of steps off (MAE, lower is better) and quadratic kappa, with 95% bootstrap "
        "intervals over the items with gold. *adult*: four grades of adult content; *web*: five grades of relevance; *affect*: "
        "valence of headlines cut into five grades at -60, -20, 20 and 60, gold likewise.\n"
    ]
    rows = []
    for name in ("adult", "web", "affect"):
        for method, (measured, seconds) in on_real(name).items():
            cells = [f"{value:.3f} ({low:.3f}, {high:.3f})" for value, low, high in measured]
            rows.append([f"{name}, {method}", *cells, "-" if method == "mean, rounded" else f"{seconds:.1f}"])
    text.append(table(["set, method", "accuracy", "MAE", "kappa", "processor seconds"], rows))
    text.append(
        f"\nSimulated: 400 items, 30 annotators, five votes per item, five classes, {len(SEEDS)} seeds; mean and 95% interval. "
        "*Scale*: items anywhere on a scale, which annotators shift by 0.2 (or 0.6) classes and stretch, with noise, and a "
        "tenth of careless votes. *No order*: wrong votes fall on any class alike.\n"
    )
    runs = {crowd: [on_simulated(crowd, seed) for seed in SEEDS] for crowd in CROWDS}
    header = ["method", *(f"{crowd}: {what}" for crowd in CROWDS for what in ("accuracy", "MAE"))]
    lines = [
        [method, *(interval([run[method][k] for run in runs[crowd]], 1, 3) for crowd in CROWDS for k in range(2))]
        for method in runs["no order"][0]
    ]
    text.append(table(header, lines))
    put("ordinal", "\n".join([provenance("python -m benchmarks run ordinal", RUNS), *text]))
