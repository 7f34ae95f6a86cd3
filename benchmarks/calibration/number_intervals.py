"""Intervals of numbers: how often they hold the truth, why they missed it, and what held-out annotators and known values bring.

python -m benchmarks run number_intervals
python -m benchmarks run number_intervals more      movie reviews, and what it costs on a million values
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.ratings import Ratings
from crowdwise.data.simulate.ratings import simulate_values

BENCHMARK = Benchmark(
    "How often do intervals of estimated numbers hold the truth?",
    sections=("coverage", "coverage more"),
    data=("affect", "movie_reviews"),
    renders=("", "more"),
    small={"METHODS": ["mean", "gaussian-crowd"], "SEEDS": 1, "DRAWS": 1},
)

RUNS = Records("number_intervals")
METHODS = ["mean", "median", "gaussian-crowd", "gaussian-crowd-bayes", "student-crowd", "covariance-crowd"]
EMOTIONS = ["valence", "anger", "disgust", "fear", "joy", "sadness", "surprise"]
LEVELS = (0.5, 0.8, 0.9)
KNOWN, DRAWS, SEEDS = 20, 4, 8
Crowd = tuple[Ratings, np.ndarray]


def affect(emotion: str) -> Crowd:
    suffix = "" if emotion == "valence" else f"_{emotion}"
    values = crowdwise.read(SHARED / "affect" / f"annotations{suffix}.csv", Ratings)
    return values, values.known(pl.read_csv(SHARED / "affect" / f"truth{suffix}.csv"))[:, 0]


def alone(method: str, values: Ratings) -> Any:
    """The intervals of the model, before anything is held against them."""
    with patch("crowdwise.methods.ratings.base.covering", lambda found, *_, **__: found):
        return crowdwise.make(method).fit(values).result_


def covered(result: Any, truth: np.ndarray, rows: Any = slice(None)) -> list[float]:
    bounds = [result.interval(level) for level in LEVELS]
    return [float(((low[rows, 0] <= truth[rows]) & (truth[rows] <= high[rows, 0])).mean()) for low, high in bounds]


def cell(scores: list[list[float]]) -> str:
    """Coverage at every level in percent, the mean over draws; the half width of the 95% interval is that of the last level."""
    means = " / ".join(f"{100 * value:.0f}" for value in np.mean(scores, axis=0))
    spread = interval([score[-1] for score in scores], 100, 0)
    return means + (f" {spread[spread.index('±') :]}" if "±" in spread else "")


@RUNS.each
def parts_of(emotion: str, method: str) -> list[float]:
    """Squared errors as intervals promise them, as held-out annotators and gold show them, and parts of the last."""
    values, gold = affect(emotion)
    plain, result = alone(method, values), crowdwise.make(method).fit(values).result_
    estimate, promised = result.estimate[:, 0], float((plain.sd**2).mean())
    off = gold - estimate
    slope, level = np.polyfit(estimate, gold, 1)
    straight = gold - slope * estimate - level
    spread = np.array([values.value[values.item == n].std() for n in range(values.n_items)])
    follows = np.corrcoef(np.abs(off - off.mean()), spread)[0, 1]
    parts = [promised, promised * result.widened[0] ** 2, (off**2).mean()]
    return [float(one) for one in (*parts, off.mean() ** 2, off.var() - straight.var(), straight.var(), follows)]


def causes() -> str:
    """Where the squared errors of affect come from."""
    rows = []
    for emotion in EMOTIONS:
        for method in ("mean", "gaussian-crowd-bayes"):
            *parts, follows = parts_of(emotion, method)
            rows.append([emotion, method, *(f"{part:.0f}" for part in parts), f"{follows:.2f}"])
    header = [
        "set",
        "method",
        "promised",
        "held-out annotators",
        "gold",
        "offset",
        "scale",
        "the rest",
        "correlation with spread",
    ]
    return "\n".join(
        [
            "\n**Why intervals missed: affect.** Mean squared errors: what the intervals of the model promise, what annotators "
            "who were held out show, and what gold shows; the last is the sum of a common offset, a common scale and the rest. "
            "Then the correlation of an item's error with the spread of its answers:\n",
            table(header, rows),
            "\nAnnotators who were held out find the mean no worse than it promises: its intervals are right about the "
            "crowd, and what is missing is what the whole crowd sees otherwise than the experts, mostly item by item (on "
            "disgust, mostly a common offset and scale). No vote shows any of it; known values do. Models that weigh "
            "annotators promise too much on top of that, because many always say 0 and so agree: that is what held-out "
            "annotators show. Errors are larger on items on which people disagree, which intervals now follow. Doubt "
            "about the annotators' parameters is not the cause: where the model holds, its intervals cover (simulated "
            "crowds below).",
        ]
    )


def both(method: str, values: Ratings, truth: np.ndarray) -> list[list[float]]:
    """Coverage by the model alone, and as given."""
    return [covered(alone(method, values), truth), covered(crowdwise.make(method).fit(values).result_, truth)]


@RUNS.each
def on_affect(emotion: str, method: str) -> list[list[float]]:
    return both(method, *affect(emotion))


@RUNS.each
def with_known(emotion: str, method: str, seed: int) -> list[float]:
    """Coverage on the other items."""
    values, gold = affect(emotion)
    chosen = np.random.default_rng(seed).permutation(values.n_items)[:KNOWN]
    told = {values.items[n]: gold[n] for n in chosen}
    rest = np.setdiff1d(np.arange(values.n_items), chosen)
    return covered(crowdwise.make(method).fit(values, gold=told).result_, gold, rest)


def real() -> str:
    text = []
    before, after = ([[one, *(cell([on_affect(one, m)[k]]) for m in METHODS)] for one in EMOTIONS] for k in (0, 1))
    known = [[one, *(cell([with_known(one, m, seed) for seed in range(DRAWS)]) for m in METHODS)] for one in EMOTIONS]
    shares = "Share of items whose 50, 80 and 90% interval holds gold, in percent"
    text += [f"\n**Affect.** {shares}, by the model alone:\n", table(["set", *METHODS], before)]
    text += ["\nWith the spread of each item's answers and held-out annotators, as `crowdwise regress` gives them:\n"]
    text += [table(["set", *METHODS], after)]
    text += [f"\nWith {KNOWN} known values of 100, on the other items; {DRAWS} draws (±: of the 90% interval):\n"]
    text += [table(["set", *METHODS], known)]
    text.append(
        "\nNot untouched by these figures: that the factor of held-out annotators multiplies and that of known values "
        "adds, that annotators weigh by how far they follow the items, and which part of an interval the spread of an "
        "item's answers scales, were settled while looking at affect, the movie reviews and simulated crowds like "
        "those below. Figures on sets that had no say may be lower."
    )
    return "\n".join(text)


def item_noise(seed: int) -> Crowd:
    """The usual crowd, with a noise that also depends on the item (standard deviation of its logarithm 0.7)."""
    rng = np.random.default_rng(seed)
    truth, item = rng.normal(size=200), np.repeat(np.arange(200), 5)
    who = np.argsort(rng.random((200, 30)), axis=1)[:, :5].ravel()
    noise, bias = 0.7 * np.exp(0.5 * rng.normal(size=30)), 0.3 * rng.normal(size=30)
    hard = np.exp(0.7 * rng.normal(size=200))
    value = truth[item] + bias[who] + noise[who] * hard[item] * rng.normal(size=1000)
    return Ratings.from_arrays(item, who, value, items=range(200)), truth


def drawn(**settings: Any) -> Callable[[int], Crowd]:
    def draw(seed: int) -> Crowd:
        found = simulate_values(200, random_state=seed, **settings)
        return found.values, found.truth[:, 0]

    return draw


def silent(seed: int) -> Crowd:
    """Half of the annotators say 0 whatever the item."""
    values, truth = drawn()(seed)
    value = np.where(values.annotator[:, None] % 2 == 0, 0.0, values.value)
    return Ratings.from_arrays(values.item, values.annotator, value, items=range(values.n_items)), truth


def shared_error(seed: int) -> Crowd:
    """Everybody sees each item otherwise than it is, by a standard deviation of 0.5."""
    values, seen = drawn()(seed)
    return values, seen + 0.5 * np.random.default_rng(seed + 1000).normal(size=len(seen))


CROWDS: dict[str, Callable[[int], Crowd]] = {
    "Gaussian noise": drawn(),
    "strong offsets of annotators": drawn(bias=1.0),
    "six annotators": drawn(n_annotators=6),
    "tails: t with 2.5": drawn(tail=2.5),
    "noise depends on the item": item_noise,
    "a fifth adversaries": drawn(adversaries=0.2),
    "half always say 0": silent,
    "an error that all share": shared_error,
}


@RUNS.each
def on_crowd(name: str, method: str, seed: int) -> list[list[float]]:
    return both(method, *CROWDS[name](seed))


def simulated() -> str:
    before, after = (
        [[name, *(cell([on_crowd(name, m, seed)[k] for seed in range(SEEDS)]) for m in METHODS)] for name in CROWDS]
        for k in (0, 1)
    )
    return "\n".join(
        [
            f"\n**Simulated crowds.** 200 items of standard normal truth, five answers each, {SEEDS} seeds. Share of items "
            "whose 50, 80 and 90% interval holds the truth, in percent (±: of the 90% interval), by the model alone:\n",
            table(["crowd", *METHODS], before),
            "\nAs `crowdwise regress` gives them:\n",
            table(["crowd", *METHODS], after),
            "\nAn error that all share stays out of sight, as it must; where half always say 0, what held-out annotators show "
            "is not yet enough.",
        ]
    )


@RUNS.each
def on_movies(method: str) -> list[Any]:
    """Coverage by the model alone and as given, and the factor by which held-out annotators widen."""
    folder = SHARED / "movie_reviews"
    values = crowdwise.read(folder / "annotations.csv", Ratings)
    gold = values.known(pl.read_csv(folder / "truth.csv"))[:, 0]
    result = crowdwise.make(method).fit(values).result_
    return [covered(alone(method, values), gold), covered(result, gold), float(result.widened[0])]


def movies() -> str:
    """Reviews that come with numbers of stars, as their authors gave them."""
    runs = [on_movies(method) for method in METHODS]
    rows = [["model alone", *(cell([plain]) for plain, _, _ in runs)]]
    rows.append(["as given", *(f"{cell([given])} ({widened:.2f})" for _, given, widened in runs)])
    words = (
        "\n**Movie reviews.** The same shares, with the factor by which held-out annotators widen intervals. Half of "
        "the annotators leave two or three answers per item, and what such fits get wrong need not be wrong with all "
        "of them:\n"
    )
    return "\n".join([words, table(["intervals", *METHODS], rows)])


@RUNS.each
def on_million(method: str) -> list[Any]:
    """Processor time of a fit that stops at the model and of a whole one, rounds, and coverage by both."""
    crowd = simulate_values(100_000, 1000, 10, random_state=0)
    started = process_time()
    plain = alone(method, crowd.values)
    between = process_time()
    model = crowdwise.make(method).fit(crowd.values)
    seconds = [between - started, process_time() - between]
    return [*seconds, model.n_iter_, *(covered(result, crowd.truth[:, 0]) for result in (plain, model.result_))]


def large() -> str:
    rows = []
    for method in ("mean", "median", "gaussian-crowd", "gaussian-crowd-bayes", "covariance-crowd"):
        first, second, n_iter, *shares = on_million(method)
        rows.append([method, f"{first:.1f}", f"{second:.1f}", str(n_iter), *(cell([share]) for share in shares)])
    head = "\n**A million values** of 1,000 annotators on 100,000 items; processor seconds:\n"
    return "\n".join([head, table(["method", "model alone", "as given", "rounds", "model alone", "as given"], rows)])


def more() -> None:
    text = [movies(), large()]
    put("coverage more", "\n".join([provenance("python -m benchmarks run number_intervals more", RUNS), *text]))


def coverage_table() -> None:
    text = [causes(), real(), simulated()]
    put("coverage", "\n".join([provenance("python -m benchmarks run number_intervals", RUNS), *text]))


def main() -> None:
    (more if sys.argv[1:] == ["more"] else coverage_table)()
