"""The stopping rule against the earlier one: iterations, and labels that differ, of every iterative label-only method.

    python -m benchmarks run stopping [SET ...] [--methods A,B] [--simulated] [--tol X]

Now a fit stops when the share of an item's probability that is still to move, estimated and in the mean, and the relative
change of the bound are at most `tol`. Before, no probability of any item might change by more than 100 tol. The earlier rule
runs here in the same loop: inference is made to report the largest change of a probability, divided by 100, which stands for
what is still to move, and nothing else differs. The end is where both are going: the same fit with tol = 1e-10. Columns:
iterations and seconds of both rules, items, labels in which both differ, labels in which each differs from the end, labels of
the new rule that neither the earlier one nor the end has, and the largest difference of a probability of the new rule from the
end. Without arguments all sets are run, the small ones first, then a simulated crowd of a million votes and 15 classes.
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
from benchmarks.page import SHARED
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines import loop as engine
from crowdwise.estimator.registry import label_methods
from crowdwise.methods.online import scheme as online

BENCHMARK = Benchmark(
    "Does the stopping rule end fits where they were going?",
    data=("labelled", "dawid_skene_1979", "md_agreement"),
    quick="dog --methods dawid-skene",
)

RUNS = Records("stopping")
# Votes of classes, by size; other folders hold numbers, tags, pairs without annotators, or counts.
SETS = [
    "dawid_skene_1979", "cf", "wsd", "labelme", "bluebird", "temp", "cf_amt", "rte", "dog", "sp_amt", "web", "possent",
    "product", "sentence_polarity", "md_agreement", "convarg_pairs", "cifar10n", "adult", "ner_mturk",
]  # fmt: skip
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
def compared(where: str, name: str, **settings: float) -> dict[str, Any]:
    """Of the earlier rule and the new one: iterations, seconds, whether they converged, and labels that differ."""
    votes = votes_of(where)
    with earlier_rule():
        before, n_before, seconds_before = fit(name, votes)
    after, n_after, seconds = fit(name, votes, **settings)
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


def compare(where: str, name: str, **settings: float) -> float:
    """Print a line; return the share of labels that neither the earlier rule nor the end has."""
    run = compared(where, name, **settings)
    line = "{:18s} {:18s} {:5d} {:5d} {:8.2f} {:8.2f}".format(where, name, *run["rounds"], *run["seconds"])
    line += f" {run['items']:9,d} {run['differ']:7d}"
    if "off" in run:
        line += "{:9d}{:9d}{:9d} {:9.1e}".format(*run["off"], run["neither"], run["largest"])
    flags = [f" ({when} not converged)" for when, done in zip(("old", "new"), run["converged"], strict=True) if not done]
    print(line, *flags, flush=True)
    return run.get("neither", 0) / run["items"]


def _iterates(settings: dict[str, Any]) -> bool:
    return {"tol", "init"} <= set(settings) or settings.get("sweeps", 1) > 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--methods", default="")
    parser.add_argument("--simulated", action="store_true", help="only the simulated crowd")
    parser.add_argument("--tol", type=float, default=None)
    asked = parser.parse_args()
    # What starts from a posterior, and what visits items more than once.
    iterative = [name for name in label_methods() if _iterates(crowdwise.make(name).get_params())]
    methods = asked.methods.split(",") if asked.methods else iterative
    settings = {} if asked.tol is None else {"tol": asked.tol}
    heads = (
        ("old", 5),
        ("new", 5),
        ("old s", 8),
        ("new s", 8),
        ("items", 9),
        ("old-new", 7),
        ("old-end", 8),
        ("new-end", 8),
        ("neither", 8),
        ("largest", 9),
    )
    print(f"{'set':18s} {'method':18s}", *(f"{head:>{width}s}" for head, width in heads))
    worst = (0.0, "", "")
    for where in [] if asked.simulated else asked.sets or SETS:
        for name in methods:
            if label_methods()[name].suits(votes_of(where).n_classes):
                worst = max(worst, (compare(where, name, **settings), where, name), key=lambda found: found[0])
    if not asked.simulated:
        print(f"most labels that neither the earlier rule nor the end has: {10_000 * worst[0]:.2f} of 10,000", *worst[1:])
    if asked.simulated or not asked.sets:
        for name in AT_SCALE if not asked.methods else methods:
            compare(CROWD, name, **settings)
