"""Every label-only method on every labelled set: accuracy, log-loss, calibration and time.

python -m benchmarks run real_data [SET ...]
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from crowdwise.estimator.registry import label_methods
from crowdwise.trust.metrics import accuracy, ece, log_loss

BENCHMARK = Benchmark(
    "Which label method is right most often on 17 real crowds, how good is its confidence, and how long does it take?",
    sections=("real data",),
    data=("labelled",),
    quick="dog",
    small={"METHODS_ANY": ["majority", "dawid-skene", "consensus"]},
)

METHODS = label_methods()

SETS = [
    "adult", "bluebird", "cf", "cf_amt", "cifar10n", "convarg_pairs", "dog", "labelme", "ner_mturk", "possent", "product",
    "rte", "sentence_polarity", "sp_amt", "temp", "web", "wsd",
]  # fmt: skip

# Methods for any number of classes: the table has one column each.
METHODS_ANY = [name for name, method in METHODS.items() if method.suits(3) and method.family != "ordinal"]


def main() -> None:
    names = sys.argv[1:] or SETS
    scores: dict[str, dict[str, tuple[float, float, float, float]]] = {}
    sizes, widths = {}, {}
    for name in names:
        votes, truth = labelled(name)
        sizes[name] = (votes.n_items, votes.n_annotators, votes.n_classes, votes.n_votes, int((truth >= 0).sum()))
        scores[name] = {}
        for method in METHODS_ANY:
            started = perf_counter()
            posterior = crowdwise.make(method).fit(votes).posterior_
            seconds = perf_counter() - started
            scores[name][method] = (
                accuracy(posterior, truth), log_loss(posterior, truth), ece(posterior, truth), seconds,
            )  # fmt: skip
            if method == "dawid-skene":
                widths[name] = half_width(posterior, truth)
        print(name, {m: round(s[0], 4) for m, s in scores[name].items()}, flush=True)
    methods = METHODS_ANY
    parts = [provenance("python -m benchmarks run real_data")]
    parts.append(
        "\n**Accuracy in percent** (repeated identical votes removed; ties credited 1/#tied; the best of a row in bold; "
        "± is the half width of the 95% bootstrap interval of dawid-skene over items, 1,000 resamples, seed 0).\n"
    )
    rows = []
    for name in names:
        best = max(round(100 * scores[name][m][0], 1) for m in methods)
        cells = [f"{100 * scores[name][m][0]:.1f}" for m in methods]
        size = sizes[name]
        rows.append(
            [f"{name} ({size[0]:,} items, {size[1]:,} annotators, K={size[2]}, {size[3]:,} votes, {size[4]:,} gold)"]
            + [f"**{c}**" if float(c) == best else c for c in cells]
            + [f"±{100 * widths[name]:.1f}"]
        )
    rows.append(["*mean*"] + [f"{100 * np.mean([scores[n][m][0] for n in names]):.2f}" for m in methods] + [""])
    parts.append(table(["set", *methods, "±"], rows))
    for index, title in ((1, "Log-loss"), (2, "ECE, equal-mass bins")):
        parts.append(f"\n**{title}** (lower is better).\n")
        body = [[name, *(f"{scores[name][m][index]:.3f}" for m in methods)] for name in names]
        body.append(["*mean*", *(f"{np.mean([scores[n][m][index] for n in names]):.3f}" for m in methods)])
        parts.append(table(["set", *methods], body))
    parts.append("\n**Seconds to fit.**\n")
    parts.append(table(["set", *methods], [[n, *(f"{scores[n][m][3]:.2f}" for m in methods)] for n in names]))
    put("real data", "\n".join(parts))


def half_width(posterior: np.ndarray, truth: np.ndarray) -> float:
    rng = np.random.default_rng(0)
    known = np.flatnonzero(truth >= 0)
    draws = [rng.choice(known, len(known)) for _ in range(1000)]
    low, high = np.quantile([accuracy(posterior[d], truth[d]) for d in draws], [0.025, 0.975])
    return float(high - low) / 2
