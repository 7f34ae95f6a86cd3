"""What the check for shared errors costs beside one fit of the default and of dawid-skene, for votes of many shapes.

    python -m benchmarks run check_cost [--most 10000000]

Crowds are simulated with independent annotators, `--most` is the largest number of votes. Processor seconds, the least of three
runs (of one where a fit takes more than five seconds).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from time import process_time

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.data.simulate import simulate
from crowdwise.trust.crowd.dependence import find

BENCHMARK = Benchmark(
    "Does the check for shared errors cost at most one fit?",
    sections=("check cost",),
    renders=("",),
    quick="--most 10000",
    small={"CLASSES": [2], "PER_ITEM": [3]},
)

RUNS = Records("check_cost")
FITS = ("consensus", "dawid-skene")
VOTES = (10_000, 100_000, 1_000_000, 10_000_000)
CLASSES, PER_ITEM = (2, 15), (3, 20)
# Items up to which fifteen classes are fitted: beyond, one fit takes minutes.
MOST_OF_MANY_CLASSES = 100_000


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--most", type=int, default=VOTES[-1])
    given = arguments.parse_args()
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    rows, ratios = [], []
    for shape in shapes(given.most):
        check, *fits, alarm = compared(*shape)
        ratios.append([check / max(fit, 1e-9) for fit in fits])
        numbers = [f"{number:,}" for number in shape]
        seconds, shares = [f"{one:.4f}" for one in (check, *fits)], [f"{ratio:.2f}" for ratio in ratios[-1]]
        rows.append([*numbers, *seconds, *shares, "yes" if alarm else "no"])
        print(*rows[-1], sep="  ", flush=True)
    header = ["votes", "classes", "per item", "annotators", "check, s", *(f"{name}, s" for name in FITS)]
    header += [*(f"check / {name}" for name in FITS), "alarm"]
    above = [sum(ratio > 1 for ratio in of_one) for of_one in zip(*ratios, strict=True)]
    text = f"""{provenance(f"python -m benchmarks run check_cost --most {given.most}", RUNS)}

**What the check costs**, in processor seconds, beside one fit of the default and one of dawid-skene: more than the fit of the
default in {above[0]} of {len(ratios)} shapes, more than that of dawid-skene in {above[1]}.

{table(header, rows)}
"""
    put("check cost", text)


def shapes(most: int) -> Iterator[tuple[int, int, int, int]]:
    """Votes, classes, votes per item, annotators."""
    for n_votes in VOTES:
        for n_classes in CLASSES:
            for per_item in PER_ITEM:
                for n_annotators in (20, n_votes // 100, n_votes // 20):
                    small_enough = n_classes <= 2 or n_votes // per_item <= MOST_OF_MANY_CLASSES
                    if per_item <= n_annotators <= 100_000 and n_votes <= most and small_enough:
                        yield n_votes, n_classes, per_item, n_annotators


@cache
def loaded() -> None:
    """Imports and the loading of compiled code do not count."""
    for size in (50, 20_000):
        drawn = simulate(size, random_state=0).votes
        find(drawn)
        for name in FITS:
            crowdwise.make(name).fit(drawn)


@RUNS.each
def compared(n_votes: int, n_classes: int, per_item: int, n_annotators: int) -> list[float]:
    """Seconds of the check and of the fits, and whether the check speaks."""
    loaded()
    votes = simulate(n_votes // per_item, n_annotators, n_classes, per_item, random_state=0).votes
    fits = [least_seconds(partial(crowdwise.make(name).fit, votes)) for name in FITS]
    # What was found is remembered with the votes, so every run has its own copy.
    return [least_seconds(lambda: find(replace(votes))), *fits, bool(find(votes))]


def least_seconds(run: Callable[[], object]) -> float:
    seconds: list[float] = []
    while len(seconds) < 3 and max(seconds, default=0.0) < 5:
        started = process_time()
        run()
        seconds.append(process_time() - started)
    return min(seconds)
