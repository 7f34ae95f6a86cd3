"""Every label-only method on every labelled set: accuracy, log-loss, calibration and time.

python -m benchmarks run real_data [SET ...]
"""

from __future__ import annotations

import sys
from time import process_time
from typing import Any

import numpy as np

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.estimator.registry import label_methods
from crowdwise.trust.calibration.calibrating import by_experience
from crowdwise.trust.metrics import accuracy, ece, log_loss

BENCHMARK = Benchmark(
    "Which label method is right most often on 17 real crowds, how good is its confidence, and how long does it take?",
    sections=("real data",),
    data=("labelled",),
    renders=("",),
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


RUNS = Records("real_data")


def run(name: str, method: str) -> dict[str, float]:
    """One fit; of dawid-skene also how wide its interval is."""
    votes, truth = labelled(name)
    started = process_time()
    # Its own probabilities: confidence by experience settles ties by the class shares.
    result = crowdwise.make(method, confidence="model").fit(votes).result_
    found = {"seconds": process_time() - started, "accuracy": accuracy(result.posterior, truth)}
    posterior = by_experience(result).posterior
    found |= {"log-loss": log_loss(posterior, truth), "ece": ece(posterior, truth)}
    return found | ({"half width": half_width(posterior, truth)} if method == "dawid-skene" else {})


def size(name: str) -> dict[str, int]:
    votes, truth = labelled(name)
    found = {"items": votes.n_items, "annotators": votes.n_annotators, "classes": votes.n_classes, "votes": votes.n_votes}
    return found | {"gold": int((truth >= 0).sum())}


def main() -> None:
    names = sys.argv[1:] or SETS
    sizes: dict[str, Any] = {}
    scores: dict[str, dict[str, Any]] = {}
    for name in names:
        sizes[name] = RUNS.once(f"{name} / size", lambda name=name: size(name))
        scores[name] = {m: RUNS.once(f"{name} / {m}", lambda name=name, m=m: run(name, m)) for m in METHODS_ANY}
        print(name, {m: round(s["accuracy"], 4) for m, s in scores[name].items()}, flush=True)
    if names != SETS:  # a part of a table is no table
        return
    methods = METHODS_ANY
    parts = [provenance("python -m benchmarks run real_data", RUNS)]
    parts.append(
        "\n**Accuracy in percent** (repeated identical votes removed; ties credited 1/#tied; the best of a row in bold; "
        "± is the half width of the 95% bootstrap interval of dawid-skene over items, 1,000 resamples, seed 0).\n"
    )
    rows = []
    for name in names:
        best = max(round(100 * scores[name][m]["accuracy"], 1) for m in methods)
        cells = [f"{100 * scores[name][m]['accuracy']:.1f}" for m in methods]
        of = sizes[name]
        rows.append(
            [
                f"{name} ({of['items']:,} items, {of['annotators']:,} annotators, K={of['classes']}, {of['votes']:,} votes, "
                f"{of['gold']:,} gold)"
            ]
            + [f"**{c}**" if float(c) == best else c for c in cells]
            + [f"±{100 * scores[name]['dawid-skene']['half width']:.1f}"]
        )
    rows.append(["*mean*"] + [f"{100 * np.mean([scores[n][m]['accuracy'] for n in names]):.2f}" for m in methods] + [""])
    parts.append(table(["set", *methods, "±"], rows))
    for mark, title in (("log-loss", "Log-loss"), ("ece", "ECE, equal-mass bins")):
        parts.append(f"\n**{title}** (lower is better).\n")
        body = [[name, *(f"{scores[name][m][mark]:.3f}" for m in methods)] for name in names]
        body.append(["*mean*", *(f"{np.mean([scores[n][m][mark] for n in names]):.3f}" for m in methods)])
        parts.append(table(["set", *methods], body))
    parts.append("\n**Processor seconds of a fit.**\n")
    parts.append(table(["set", *methods], [[n, *(f"{scores[n][m]['seconds']:.2f}" for m in methods)] for n in names]))
    put("real data", "\n".join(parts))


def half_width(posterior: np.ndarray, truth: np.ndarray) -> float:
    rng = np.random.default_rng(0)
    known = np.flatnonzero(truth >= 0)
    draws = [rng.choice(known, len(known)) for _ in range(1000)]
    low, high = np.quantile([accuracy(posterior[d], truth[d]) for d in draws], [0.025, 0.975])
    return float(high - low) / 2
