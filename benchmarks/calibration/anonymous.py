"""How sure labels of anonymous votes may be: the exponent of `consensus` where nobody knows who voted.

    python -m benchmarks run anonymous [--sets S,T]

Every labelled set loses the names of its annotators; CIFAR-10H, whose votes are counts, is drawn down to 1 to 50 votes per
item (3,000 items, seed 0); and votes are simulated on items that differ: the shares of an item's votes are drawn around those
of its class (a Dirichlet distribution of concentration 6, three classes, 1,500 items, seed 1). The exponent is the one with the
smallest mean log-loss over the labelled sets alone, estimated again without each in turn. Columns are measured with the
exponent of named votes and with the one that `crowdwise.estimator.experience` ships for anonymous ones.
"""

from __future__ import annotations

import argparse
import warnings
from functools import cache
from typing import Any

import numpy as np
import polars as pl

import crowdwise
import crowdwise.io
from benchmarks.accuracy.real_data import SETS
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.anonymous import AnonymousVotes
from crowdwise.estimator.judgement import calibrated, exponent_of
from crowdwise.trust.metrics import ece

BENCHMARK = Benchmark(
    "How sure may labels be where nobody knows who voted?",
    sections=("anonymous",),
    data=("labelled", "cifar10h"),
    renders=("",),
    quick="--sets dog",
    small={"DRAWN": (3,), "SIMULATED": (3,)},
)

RUNS = Records("anonymous")
GRID = np.round(np.arange(0.0, 1.501, 0.01), 2)
# So many votes that one set takes many minutes; exponents rest on the others.
SLOW = ("ner_mturk", "cifar10n", "convarg_pairs")
DRAWN = (1, 2, 3, 5, 10, 20, 50)
SIMULATED = (1, 3, 5, 10, 30, 100)
BASE = np.array([[0.6, 0.25, 0.15], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])


def nameless(item: Any, label: Any, items: Any, classes: Any) -> AnonymousVotes:
    return AnonymousVotes.from_codes(item, np.arange(len(item)), label, items, np.arange(len(item)), classes)


def problem(name: str) -> tuple[AnonymousVotes, np.ndarray]:
    """Votes and true codes (-1 where unknown) of a set, or of the votes that are drawn."""
    if name in SETS:
        votes, truth = labelled(name)
        return nameless(votes.item, votes.label, votes.items, votes.classes), truth.astype(np.int64)
    return drawn()[name]


@cache
def drawn() -> dict[str, tuple[AnonymousVotes, np.ndarray]]:
    made = {}
    counts = pl.read_csv(SHARED / "cifar10h" / "counts.csv").drop("item").to_numpy()
    known = pl.read_csv(SHARED / "cifar10h" / "truth.csv")["label"].to_numpy().astype(np.int64)
    rng = np.random.default_rng(0)
    picked = rng.choice(len(counts), min(3000, len(counts)), replace=False)
    for n in DRAWN:
        votes = [rng.permutation(np.repeat(np.arange(10), counts[k]))[:n] for k in picked]
        item = np.repeat(np.arange(len(picked)), [len(each) for each in votes])
        of_all = nameless(item, np.concatenate(votes), np.arange(len(picked)), np.arange(10))
        made[f"cifar10h, {n} votes"] = of_all, known[picked]
    rng = np.random.default_rng(1)
    for n in SIMULATED:
        truth = rng.integers(0, 3, 1500)
        shares = np.array([rng.dirichlet(6 * BASE[k]) for k in truth])
        label = np.concatenate([rng.choice(3, n, p=share) for share in shares])
        item = np.repeat(np.arange(1500), n)
        made[f"simulated, {n} votes"] = nameless(item, label, np.arange(1500), np.arange(3)), truth
    return made


@RUNS.each
def measured(name: str) -> dict[str, Any]:
    votes, truth = problem(name)
    result = crowdwise.make("consensus").fit(votes).result_
    judged = np.flatnonzero(truth >= 0)
    z, rows = truth[judged], np.arange(len(judged))

    def under(exponent: float) -> np.ndarray:
        return calibrated(result.model_posterior, votes, result.annotators, result.class_prior, exponent)[judged]

    found: dict[str, Any] = {
        "votes": votes.n_votes / votes.n_items,
        "accuracy": float((result.codes[judged] == z).mean()),
        "said": [],
        "losses": [],
        "ece": [],
    }
    for gamma in GRID:
        believed = under(gamma)
        found["said"].append(float(believed.max(axis=1).mean()))
        found["losses"].append(float(-np.log(np.maximum(believed[rows, z], 1e-15)).mean()))
        found["ece"].append(float(ece(believed, z)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = asked.sets.split(",") if asked.sets else [name for name in SETS if name not in SLOW]
    wanted += [f"cifar10h, {n} votes" for n in DRAWN] + [f"simulated, {n} votes" for n in SIMULATED]
    report({name: measured(name) for name in wanted})


def report(runs: dict[str, Any]) -> None:
    real = [name for name in runs if name in SETS]
    losses = np.array([runs[name]["losses"] for name in real])
    best = float(GRID[losses.mean(axis=0).argmin()])
    without = [float(GRID[np.delete(losses, i, axis=0).mean(axis=0).argmin()]) for i in range(len(losses))]
    rows = [_row(name, found) for name, found in runs.items()]
    keys = ("votes", "accuracy", "said", "losses", "ece")
    rows.append(_row("mean of the sets", {key: np.mean([runs[name][key] for name in real], axis=0) for key in keys}))
    head = [
        "votes",
        "per item",
        "right",
        "said, as named",
        "said",
        "log-loss, as named",
        "log-loss",
        "ECE, as named",
        "ECE",
        "best exponent",
    ]
    text = provenance("python -m benchmarks run anonymous", RUNS)
    text += (
        f"\nBest exponent over {len(real)} sets: {best:.2f} ({min(without):.2f} to {max(without):.2f} without one of them); "
    )
    text += f"shipped: {exponent_of('consensus', anonymous=True):.2f}, for named votes {exponent_of('consensus'):.2f}.\n\n"
    put("anonymous", text + table(head, rows))


def _row(name: str, found: dict[str, Any]) -> list[str]:
    at = [int(np.argmin(np.abs(GRID - exponent_of("consensus", anonymous)))) for anonymous in (False, True)]
    pairs = [f"{found[key][k]:.3f}" for key in ("said", "losses", "ece") for k in at]
    return [name, f"{found['votes']:.0f}", f"{found['accuracy']:.3f}", *pairs, f"{GRID[int(np.argmin(found['losses']))]:.2f}"]
