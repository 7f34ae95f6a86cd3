"""How sure labels may be: the exponent of every label-only method, and what confidence is then worth on every labelled set.

    python -m benchmarks run experience [--methods A,B] [--sets S,T]

For every set and method the model's posterior is fitted once, without true labels, and the log-loss of q^(1 / votes^gamma)
against the true labels is kept for a grid of gamma. The exponent of a method is the gamma with the smallest mean over sets;
it is estimated again without each set in turn. What `crowdwise.estimator.experience` ships is .10 larger (see there), and
never below 0. Columns of the second table are measured with the shipped exponents.
"""

from __future__ import annotations

import argparse
import warnings
from time import perf_counter
from typing import Any

import numpy as np

import crowdwise
import crowdwise.io
from benchmarks.accuracy.real_data import SETS
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.estimator.judgement import calibrated, exponent_of
from crowdwise.estimator.registry import label_methods
from crowdwise.trust.calibration.selection import select
from crowdwise.trust.metrics import accuracy, ece

BENCHMARK = Benchmark(
    "How sure may labels of each method be, and is confidence then right?",
    sections=("experience",),
    data=("labelled",),
    renders=("",),
    quick="--methods consensus --sets dog,rte",
)

RUNS = Records("experience")
GRID = np.round(np.arange(-0.3, 2.001, 0.01), 2)
RATE = 0.05
# Pairs that take more than several minutes each; the exponent then rests on the other sets.
SLOW = {
    ("ebcc", "ner_mturk"), ("minimax-entropy", "ner_mturk"), ("minimax-entropy", "cifar10n"), ("ebcc", "cifar10n"),
    ("belief-propagation", "ner_mturk"), ("tensor-admm", "ner_mturk"), ("tensor-admm", "adult"), ("tensor-admm", "cifar10n"),
    ("group-dawid-skene", "ner_mturk"), ("cbcc", "ner_mturk"), ("sym-nmf", "ner_mturk"), ("glad", "ner_mturk"),
}  # fmt: skip


@RUNS.each
def measured(where: str, name: str) -> dict[str, Any] | None:
    """A method on a set; None where the method refuses it."""
    votes, truth = labelled(where)
    truth = truth.astype(np.int64)
    started = perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = crowdwise.make(name).fit(votes).result_
    except crowdwise.errors.CrowdwiseError:
        return None
    seconds = perf_counter() - started
    judged = np.flatnonzero(truth >= 0)
    z = truth[judged]

    def under(exponent: float) -> np.ndarray:
        return calibrated(result.model_posterior, votes, result.annotators, result.class_prior, exponent)[judged]

    losses = [float(-np.log(np.maximum(under(gamma)[np.arange(len(z)), z], 1e-15)).mean()) for gamma in GRID]
    believed = under(exponent_of(name))
    wrong = result.codes[judged] != z
    confidence = believed[np.arange(len(z)), result.codes[judged]]
    accepted = select(confidence, RATE).accept
    in_nine_of_ten = result.confidence_in(0.9)[judged]
    assured = select(in_nine_of_ten, RATE).accept
    return {
        "seconds": seconds,
        "accuracy": float(1 - wrong.mean()),
        "majority": accuracy(crowdwise.make("majority").fit(votes).posterior_, truth),
        "losses": losses,
        "exponent": exponent_of(name),
        "log_loss": float(-np.log(np.maximum(believed[np.arange(len(z)), z], 1e-15)).mean()),
        "ece": ece(believed, z),
        "model_ece": ece(result.model_posterior[judged], z),
        "accepted": float(accepted.mean()),
        "error": float(wrong[accepted].mean()) if accepted.any() else None,
        "range": float(1 - in_nine_of_ten[accepted].mean()) if accepted.any() else None,
        "assured": float(assured.mean()),
        "assured_error": float(wrong[assured].mean()) if assured.any() else None,
    }


def exponents(runs: dict[str, dict[str, Any]], name: str) -> tuple[float, float, float, int, list[float]]:
    """The best exponent over sets, its range when one is left out, the number of sets, and the best of every set."""
    losses = np.array([of[name]["losses"] for of in runs.values() if name in of])
    best = float(GRID[losses.mean(axis=0).argmin()])
    without = [float(GRID[np.delete(losses, i, axis=0).mean(axis=0).argmin()]) for i in range(len(losses))] or [best]
    return best, min(without), max(without), len(losses), [float(GRID[row.argmin()]) for row in losses]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="")
    parser.add_argument("--sets", default="")
    asked = parser.parse_args()
    methods = asked.methods.split(",") if asked.methods else [n for n in label_methods() if n != "auto"]
    runs: dict[str, dict[str, Any]] = {}
    for where in asked.sets.split(",") if asked.sets else SETS:
        for name in methods:
            if (name, where) not in SLOW and label_methods()[name].suits(classes_of(where)):
                found = measured(where, name)
                if found is not None:
                    runs.setdefault(where, {})[name] = found
    if not asked.methods and not asked.sets:  # a part of a table is no table
        report(runs)


@RUNS.each
def classes_of(where: str) -> int:
    return labelled(where)[0].n_classes


def report(runs: dict[str, dict[str, Any]]) -> None:
    names = [name for name in label_methods() if any(name in of for of in runs.values())]
    rows = []
    for name in names:
        best, low, high, n_sets, each = exponents(runs, name)
        quartiles = np.quantile(each, [0.25, 0.75])
        shipped = exponent_of(name)
        rows.append([name, f"{best:.2f}", f"{low:.2f} to {high:.2f}", f"{quartiles[0]:.2f} to {quartiles[1]:.2f}",
                     str(n_sets), f"{shipped:.2f}"])  # fmt: skip
    head = ["method", "exponent", "without one set", "quartiles of sets", "sets", "shipped"]
    text = provenance("python -m benchmarks run experience", RUNS) + "\n" + table(head, rows)
    text += "\n\n" + consensus_table(runs)
    put("experience", text)


def consensus_table(runs: dict[str, dict[str, Any]]) -> str:
    """What the shipped confidence of `consensus` is worth, set by set."""
    done = {where: of["consensus"] for where, of in runs.items() if "consensus" in of}

    def percent(value: float | None, digits: int = 1) -> str:
        return "-" if value is None else f"{100 * value:.{digits}f}"

    def row(where: str, found: dict[str, Any], gamma: str) -> list[str]:
        parts = [percent(found[key]) for key in ("accuracy", "majority")]
        parts += [f"{found[key]:.3f}" for key in ("log_loss", "ece", "model_ece")]
        parts += [gamma, percent(found["accepted"], 0), percent(found["error"]), percent(found["range"])]
        return [where, *parts, percent(found["assured"], 0), percent(found["assured_error"])]

    rows = [row(where, found, f"{GRID[int(np.argmin(found['losses']))]:.2f}") for where, found in done.items()]
    for label, middle in (("mean", np.mean), ("median", np.median)):
        keys = [key for key, value in next(iter(done.values())).items() if not isinstance(value, list)]
        all_of = {key: [found[key] for found in done.values() if found[key] is not None] for key in keys}
        rows.append(row(label, {key: float(middle(values)) for key, values in all_of.items()}, ""))
    judged = [found for found in done.values() if found["error"] is not None]
    within = sum(found["error"] <= found["range"] for found in judged)
    head = ["set", "accuracy", "majority", "log-loss", "ECE", "ECE of the model", "best exponent", "accepted", "wrong",
            "nine of ten below", "accepted at assurance .9", "wrong of these"]  # fmt: skip
    losses = np.array([found["losses"] for found in done.values()])
    rest = [np.delete(losses, i, axis=0) for i in range(len(losses))]
    above = [np.quantile(GRID[part.argmin(axis=1)], 0.9) - GRID[part.mean(axis=0).argmin()] for part in [losses, *rest]]
    about = (
        f"`consensus` with the shipped exponent, shares in percent. Accepted: as many labels, surest first, as have an "
        f"expected error of {100 * RATE:g} %; *nine of ten below* is the printed range, which held on {within} of "
        f"{len(judged)} sets. The 90th percentile of the sets' exponents lies {above[0]:.3f} above the common one; without one "
        f"of the sets between {min(above[1:]):.3f} and {max(above[1:]):.3f}. "
        "These sets were in view when the model was developed.\n\n"
    )
    return about + table(head, rows)
