"""Methods that take two classes only, on the binary sets, beside majority vote and Dawid-Skene.

python -m benchmarks run binary
"""

from __future__ import annotations

from functools import partial
from time import process_time

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.estimator.registry import label_methods
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "How do the methods for two classes do on the sets with two classes?",
    sections=("binary",),
    data=("bluebird", "possent", "product", "rte", "sentence_polarity", "sp_amt", "temp"),
    renders=("",),
    small={"SETS": ["bluebird"]},
)

METHODS = label_methods()
KEPT = Records("binary")

SETS = ["bluebird", "possent", "product", "rte", "sentence_polarity", "sp_amt", "temp"]


def run(name: str, method: str) -> dict[str, float]:
    votes, truth = labelled(name)
    started = process_time()
    posterior = crowdwise.make(method, confidence="model").fit(votes).posterior_
    return {"accuracy": accuracy(posterior, truth), "seconds": process_time() - started}


def main() -> None:
    methods = ["majority", "dawid-skene", *(name for name, method in METHODS.items() if method.needs == "votes of two classes")]
    rows, slowest = [], 0.0
    for name in SETS:
        runs = [KEPT.once(f"{name}, {method}", partial(run, name, method)) for method in methods]
        slowest = max(slowest, *(one["seconds"] for one in runs))
        rows.append([name, *(f"{100 * one['accuracy']:.1f}" for one in runs)])
    means = [f"{sum(float(row[k]) for row in rows) / len(rows):.2f}" for k in range(1, len(methods) + 1)]
    text = [
        provenance("python -m benchmarks run binary", KEPT),
        f"\nAccuracy in percent; the slowest fit took {slowest:.1f} s of the processor.\n",
        table(["set", *methods], [*rows, ["*mean*", *means]]),
    ]
    put("binary", "\n".join(text))
