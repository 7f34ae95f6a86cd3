"""Methods that take two classes only, on the binary sets, beside majority vote and Dawid-Skene.

python -m benchmarks run binary
"""

from __future__ import annotations

from time import perf_counter

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from crowdwise.estimator.registry import label_methods
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "How do the methods for two classes do on the sets with two classes?",
    sections=("binary",),
    data=("bluebird", "possent", "product", "rte", "sentence_polarity", "sp_amt", "temp"),
    small={"SETS": ["bluebird"]},
)

METHODS = label_methods()

SETS = ["bluebird", "possent", "product", "rte", "sentence_polarity", "sp_amt", "temp"]


def main() -> None:
    methods = ["majority", "dawid-skene", *(name for name, method in METHODS.items() if method.needs == "votes of two classes")]
    rows, slowest = [], 0.0
    for name in SETS:
        votes, truth = labelled(name)
        scores = []
        for method in methods:
            started = perf_counter()
            scores.append(accuracy(crowdwise.make(method).fit(votes).posterior_, truth))
            slowest = max(slowest, perf_counter() - started)
        rows.append([name, *(f"{100 * score:.1f}" for score in scores)])
    means = [f"{sum(float(row[k]) for row in rows) / len(rows):.2f}" for k in range(1, len(methods) + 1)]
    text = [
        provenance("python -m benchmarks run binary"),
        f"\nAccuracy in percent; the slowest fit took {slowest:.1f} s.\n",
        table(["set", *methods], [*rows, ["*mean*", *means]]),
    ]
    put("binary", "\n".join(text))
