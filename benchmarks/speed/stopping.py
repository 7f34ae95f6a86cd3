"""The stopping rule against the earlier one: iterations, and labels that differ, of every iterative label-only method.

    python -m benchmarks run stopping [SET ...] [--methods A,B]

Now a fit stops when the share of an item's probability that is still to move, estimated and in the mean, and the relative
change of the bound are at most `tol`. Before, no probability of any item might change by more than 100 tol. The earlier rule
runs here in the same loop: inference is made to report the largest change of a probability, divided by 100, which stands for
what is still to move, and nothing else differs. The end is where both are going: the same fit with tol = 1e-10. With sets or
methods the rows of these are printed alone.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines import loop as engine
from crowdwise.estimator.registry import label_methods
from crowdwise.methods.online import scheme as online

BENCHMARK = Benchmark(
    "Does the stopping rule end fits where they were going?",
    sections=("stopping",),
    data=("labelled", "dawid_skene_1979", "md_agreement"),
    renders=("",),
    quick="dog --methods dawid-skene",
)

RUNS = Records("stopping")
# Votes of classes, by size; other folders hold numbers, tags, pairs without annotators, or counts.
SETS = [
    "dawid_skene_1979", "cf", "wsd", "labelme", "bluebird", "temp", "cf_amt", "rte", "dog", "sp_amt", "web", "possent",
    "product", "sentence_polarity", "md_agreement", "convarg_pairs", "cifar10n", "adult", "ner_mturk",
]  # fmt: skip
METHODS = [
    "dawid-skene", "one-coin", "confusion-vector", "glad", "mace", "bayes-gc", "mean-field", "cbcc", "worker-cluster",
    "streaming-ds",
]  # fmt: skip
# Those whose fits to the end take minutes, on the smaller sets.
SLOW = ["belief-propagation", "group-dawid-skene", "minimax-entropy", "cumulative-link"]
SMALL = ["dawid_skene_1979", "cf", "wsd", "labelme", "bluebird", "temp", "cf_amt", "rte", "dog", "sp_amt"]
_LIMIT = 1e-10
CROWD = "1M votes, K = 15"
# Without the methods that look at every item's own parameters or at nodes, which take minutes at this size.
AT_SCALE = ["dawid-skene", "one-coin", "confusion-vector", "mace", "bayes-gc"]


@contextmanager
def earlier_rule() -> Iterator[None]:
    """Within it, fits stop by the largest change of a probability."""
    now, visit, remaining = engine.infer_and_count, online.visit, engine.remaining

    def largest(shard: Any, prior: Any, annotators: Any, hard: bool) -> Any:
        before = shard.posterior.copy()
        tally = now(shard, prior, annotators, hard)
        moved = float(np.abs(shard.posterior - before).max(initial=0.0))
        return replace(tally, change=tally.n_items * moved / 100)

    def largest_visited(items: Any, batch: int, arrays: Any, *rules: Any) -> tuple[int, float]:
        before = arrays.posterior[items].copy()
        n_read, _ = visit(items, batch, arrays, *rules)
        return n_read, len(items) * float(np.abs(arrays.posterior[items] - before).max(initial=0.0)) / 100

    engine.infer_and_count, online.visit, engine.remaining = largest, largest_visited, lambda rounds: rounds[-1].change
    # The largest change is known only where all items are looked at in every round.
    focus, engine.FOCUS_FROM = engine.FOCUS_FROM, sys.maxsize
    try:
        yield
    finally:
        engine.infer_and_count, online.visit, engine.remaining, engine.FOCUS_FROM = now, visit, remaining, focus


def fit(name: str, votes: Annotations, **settings: Any) -> tuple[Any, int, float]:
    """The model, its iterations (of an online method: sweeps) and seconds."""
    calls: list[int] = []
    started = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = crowdwise.make(name, **settings).fit(votes, progress=lambda number, *_: calls.append(number))
    return model, calls[-1], perf_counter() - started


@lru_cache(1)
def votes_of(where: str) -> Annotations:
    """Those of a set, or of the simulated crowd."""
    if where == CROWD:
        return simulate(n_items=100_000, n_annotators=500, n_classes=15, votes_per_item=10, random_state=0).votes
    return crowdwise.read(next((SHARED / where).glob("annotations.csv*"))).deduplicate()


@RUNS.each
def compared(where: str, name: str) -> dict[str, Any]:
    """Of the earlier rule and the new one: iterations, seconds, whether they converged, and labels that differ."""
    votes = votes_of(where)
    with earlier_rule():
        before, n_before, seconds_before = fit(name, votes)
    after, n_after, seconds = fit(name, votes)
    found = {"rounds": [n_before, n_after], "seconds": [seconds_before, seconds], "items": votes.n_items}
    found |= {"differ": int((before.labels_ != after.labels_).sum()), "converged": [before.converged_, after.converged_]}
    if where == CROWD:
        return found
    most = "sweeps" if "sweeps" in after.get_params() else "max_iter"
    end, _, _ = fit(name, votes, tol=_LIMIT, **{most: 20_000})
    new = after.labels_
    found["off"] = [int((model.labels_ != end.labels_).sum()) for model in (before, after)]
    found["neither"] = int(((new != before.labels_) & (new != end.labels_)).sum())
    return found | {"largest": float(np.abs(end.posterior_ - after.posterior_).max(initial=0.0))}


Found = dict[tuple[str, str], dict[str, Any]]


def fits(sets: list[str], methods: list[str]) -> Found:
    """All of these that suit each other."""
    asked = [(where, name) for where in sets for name in methods if label_methods()[name].suits(votes_of(where).n_classes)]
    return {pair: compared(*pair) for pair in asked}


def rows(found: Found, every: bool) -> str:
    """Fits in which two labels differ or that did not converge, or all."""
    lines = []
    for (where, name), run in found.items():
        if every or run["differ"] or any(run["off"]) or not all(run["converged"]):
            rounds = [f"{n:,}" + ("" if done else "*") for n, done in zip(run["rounds"], run["converged"], strict=True)]
            labels = (run["differ"], *run["off"], run["neither"])
            lines.append([f"{where}, {name}", *rounds, f"{run['items']:,}", *map(str, labels)])
    differ = ["earlier and now", "earlier and the end", "now and the end", "neither"]
    return table(["set, method", "iterations, earlier rule", "iterations, now", "items", *differ], lines)


def in_sum(found: Found) -> str:
    """How far the labels of both rules are from the end, and what the new one costs."""
    off = [sum(run["off"][place] for run in found.values()) for place in (0, 1)]
    neither = sum(run["neither"] for run in found.values())
    ratios = {pair: np.log(run["rounds"][1] / run["rounds"][0]) for pair, run in found.items()}
    each = [(name, np.exp(np.mean([ratio for pair, ratio in ratios.items() if pair[1] == name]))) for name in METHODS]
    return (
        f"{len(found)} fits. In sum {off[0]} labels of the earlier rule are not those of the end, and {off[1]} of the labels "
        f"now; {neither} labels of now are such that neither has. The price in iterations, geometric mean: "
        f"{np.exp(np.mean(list(ratios.values()))):.2f} times those of the earlier rule "
        f"({', '.join(f'{name} {ratio:.2f}' for name, ratio in each)})."
    )


def report() -> str:
    found, slow = fits(SETS, METHODS), fits(SMALL, SLOW)
    crowd = [
        [name, *(f"{n:,}" for n in run["rounds"]), str(run["differ"])] for (_, name), run in fits([CROWD], AT_SCALE).items()
    ]
    return "\n\n".join(
        [
            provenance("python -m benchmarks run stopping", RUNS)
            + "\nThe last columns count labels in which two fits differ; the last one those of now that neither the earlier "
            "rule nor the end has. Fits that are not listed have no label that differs. A star marks those that reached their "
            "largest number of iterations.",
            f"**{len(SETS)} real sets.** {in_sum(found)}",
            rows(found, every=False),
            f"**Slower methods** ({', '.join(SLOW)}) on {', '.join(SMALL)}.",
            rows(slow, every=False),
            "**A simulated crowd**: 1,000,000 votes on 100,000 items by 500 annotators, 15 classes, seed 0; not compared with "
            "the end.",
            table(["method", "iterations, earlier rule", "iterations, now", "labels that differ, of 100,000"], crowd),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--methods", default="")
    asked = parser.parse_args()
    if asked.sets or asked.methods:
        print(rows(fits(asked.sets or SETS, asked.methods.split(",") if asked.methods else METHODS), every=True))
    else:
        put("stopping", report())


if __name__ == "__main__":
    main()
