"""Do the Gaussian processes keep their promise? Probabilities on six real sets with features, and on two made-up ones.

The made-up ones have simulated crowds: features of pure noise, and scikit-learn's images of digits, which are easy, under votes
that are right in six of ten.

    python -m benchmarks run gp_honest [SET ...]

Nothing sees a true label. Runs are kept in benchmarks/records/gp_honest.jsonl, so that an interrupted command continues.
"""

from __future__ import annotations

import json
import sys
from time import process_time
from typing import Any

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS, FeatureSet
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.simulate import simulate
from crowdwise.trust.metrics import accuracy, calibration_bins, ece, ece_by_chance, log_loss, without_chance

BENCHMARK = Benchmark(
    "Are probabilities of Gaussian processes honest on eight sets?",
    sections=(
        "gp honest calibration",
        "gp honest noise",
        "gp honest digits",
        "gp honest labelme",
        "gp honest rte",
        "gp honest sentence_polarity",
        "gp honest cifar10n",
        "gp honest convarg_pairs",
        "gp honest ner_mturk",
    ),
    data=("features",),
    packages=("torch",),
    renders=("",),
    quick="labelme",
    small={"SEEDS": {"labelme": 1}, "NETWORKS": ("aggnet",)},
)

SEEDS = {
    "noise": 5,
    "digits": 5,
    "labelme": 5,
    "rte": 5,
    "sentence_polarity": 3,
    "cifar10n": 3,
    "convarg_pairs": 3,
    "ner_mturk": 1,
}
PAPERS = {
    "likelihood": "robust-max",
    "epsilon": "fixed",
    "annotator_prior": "dir:2,1",
    "class_shares": "free",
    "scaling": "columns",
}
PROCESSES = {
    "svgpcr": {},
    **{
        f"svgpcr, {likelihood}, {scaling}": {"likelihood": likelihood, "scaling": scaling}
        for likelihood in ("robust-max", "softmax")
        for scaling in ("columns", "together")
    },
    "svgpcr, the paper's": PAPERS,
}
NETWORKS = ("aggnet", "ccem", "crowd-layer-mw", "bayes-dgc", "geocrowdnet-f")
LABELS = "dawid-skene"
# Heading: name, factor, digits.
MARKS = {
    "test NLL": ("nll", 1, 3),
    "test ECE": ("ece", 1, 3),
    "of an honest one": ("chance", 1, 3),
    "without chance": ("debiased", 1, 3),
    "test accuracy": ("test", 100, 1),
    "labels": ("labels", 100, 1),
    "sure of them": ("sure", 100, 1),
}
# Errors of calibration that are aimed at: on four of the real sets, and on all.
AIMS = (0.06, 0.12)
KEPT = Records("gp_honest")


def noise(seed: int) -> FeatureSet:
    """Votes of a simulated crowd beside features that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    crowd = simulate(n_items=1000, n_annotators=20, n_classes=4, votes_per_item=4, random_state=seed)
    X, X_test = (rng.normal(size=(n, 20)).astype(np.float32) for n in (1000, 1000))
    return FeatureSet(X, crowd.votes, np.asarray(crowd.truth), X_test, rng.integers(0, 4, 1000))


def digits(seed: int) -> FeatureSet:
    """Images that are told apart with ease, beside votes that are not."""
    from sklearn.datasets import load_digits

    X, truth = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(truth))
    X, truth = X[order].astype(np.float32), truth[order]
    crowd = {"n_annotators": 20, "n_classes": 10, "votes_per_item": 3, "classes": list(range(10))}
    votes = simulate(truth=truth[600:], random_state=seed, **crowd).votes
    return FeatureSet(X[600:], votes, truth[600:], X[:600], truth[:600])


MADE_UP = {"noise": noise, "digits": digits}


def parts_of(name: str, seed: int) -> list[FeatureSet]:
    """A set, as a list of one; rte's 800 items in five ways, so that each of them is a test item once."""
    if name == "rte":
        return [SETS[name](seed, fold) for fold in range(5)]
    return [(MADE_UP | SETS)[name](seed)]


def run(entry: str, parts: list[FeatureSet], seed: int) -> dict[str, Any]:
    """Fits to the training items of all parts; all test items together are judged."""
    if entry == LABELS:
        labels = [accuracy(crowdwise.make(LABELS).fit(data.votes).posterior_, data.truth) for data in parts]
        return {"labels": float(np.mean(labels))}
    proba, found = [], []
    for data in parts:
        model = crowdwise.make(entry.partition(",")[0], random_state=seed, **PROCESSES.get(entry, {}))
        started = process_time()
        model.fit(data.X, data.votes)
        seconds, own = process_time() - started, model.posterior_
        proba.append(model.predict_proba(data.X_test))
        found.append((accuracy(own, data.truth), float(own.max(axis=1).mean()), seconds))
    labels, sure, seconds = np.mean(found, axis=0).tolist()
    judged = np.concatenate(proba), np.concatenate([data.truth_test for data in parts])
    return {
        "test": accuracy(*judged),
        "nll": log_loss(*judged),
        "ece": ece(*judged),
        "chance": ece_by_chance(*judged),
        # Mean confidence, accuracy and size of every bin: another error of calibration needs no new run.
        "bins": [part.tolist() for part in calibration_bins(*judged)],
        "labels": labels,
        "sure": sure,
        "seconds": seconds,
    }


def with_debiased(run: dict[str, float]) -> dict[str, float]:
    """A run with its calibration error without chance, if it has what that takes."""
    return run | {"debiased": without_chance(run["ece"], run["chance"])} if "chance" in run else run


def runs_of(name: str, kept: dict[str, Any]) -> tuple[dict[str, list[dict[str, float]]], list[FeatureSet]]:
    """All runs on a set by entry, from their records or measured now, and the set as its last seed has it."""
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(SEEDS[name]):
        parts = parts_of(name, seed)
        for entry in (LABELS, *PROCESSES, *NETWORKS):
            key = json.dumps([name, entry, PROCESSES.get(entry, {}), seed])
            if key not in kept:
                KEPT.refuse_to_measure(key)
                kept[key] = run(entry, parts, seed)
                KEPT.add(key, kept[key])
                said = {mark: round(value, 3) for mark, value in kept[key].items() if mark != "bins"}
                print(name, seed, entry, said, flush=True)
            found.setdefault(entry, []).append(with_debiased(kept[key]))
    return found, parts


def best_of(found: dict[str, list[dict[str, float]]]) -> str:
    """The network with the lowest mean NLL."""
    return min(NETWORKS, key=lambda entry: np.mean([r["nll"] for r in found[entry]]))


def sheet(found: dict[str, list[dict[str, float]]]) -> str:
    """The table of a set."""
    best, rows = best_of(found), []
    base = np.mean([r["nll"] for r in found[best]])
    for entry in (LABELS, *PROCESSES, best):
        runs = found[entry]
        cells = [interval([r[key] for r in runs], *how) if key in runs[0] else "" for key, *how in MARKS.values()]
        ratio = f"{np.mean([r['nll'] for r in runs]) / base:.2f}" if "nll" in runs[0] else ""
        time = f"{np.mean([r['seconds'] for r in runs]):.0f}" if "seconds" in runs[0] else ""
        rows.append([entry + (" (best network)" if entry == best else ""), cells[0], ratio, *cells[1:], time])
    first, *others = MARKS
    return table(["method", first, "of the best network's", *others, "processor s"], rows)


def aims(every: dict[str, tuple[dict[str, list[dict[str, float]]], int]]) -> str:
    """The calibration errors of the default on real sets, beside what was aimed at."""
    rows, reached = [], []
    for kind, words in (("ece", "Plain"), ("debiased", "Without chance")):
        means = [np.mean([r[kind] for r in found["svgpcr"]]) for found, _ in every.values()]
        within = [sum(mean <= most for mean in means) for most in AIMS]
        reached.append(f"{words}: {within[0]} of {len(means)} within {AIMS[0]}, {within[1]} within {AIMS[1]}.")
    for name, (found, n_test) in every.items():
        cells = [interval([r[kind] for r in found["svgpcr"]], 1, 3) for kind in ("ece", "chance", "debiased")]
        best = found[best_of(found)]
        cells += [interval([r[kind] for r in best], 1, 3) for kind in ("ece", "debiased")]
        rows.append([name, f"{n_test:,}", str(SEEDS[name]), *cells])
    head = ["set", "test items", "seeds", "ECE", "of an honest one", "without chance", "best network: ECE", "without chance"]
    aim = f"Aim: at most {AIMS[0]} on four of the six real sets, and at most {AIMS[1]} on all. "
    return "\n" + aim + " ".join(reached) + "\n\n" + table(head, rows)


def main() -> None:
    names, kept = sys.argv[1:], KEPT.read()
    every = {}
    for name in names or SEEDS:
        found, parts = runs_of(name, kept)
        n_test = sum(len(data.X_test) for data in parts)
        every[name] = found, n_test
        folds = f" in {len(parts)} parts" if len(parts) > 1 else ""
        about = f"\n**{name}**: {len(parts[0].X):,} training items, {n_test:,} test items{folds}, {SEEDS[name]} seeds.\n"
        put(f"gp honest {name}", provenance("python -m benchmarks run gp_honest", KEPT) + about + "\n" + sheet(found))
    if not names:
        real = {name: of for name, of in every.items() if name not in MADE_UP}
        put("gp honest calibration", provenance("python -m benchmarks run gp_honest", KEPT) + aims(real))
