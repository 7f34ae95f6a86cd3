"""auto-classifier beside every one of its candidates, on the six sets with features and a small one with ten classes.

    python -m benchmarks run auto_classifier [SET ...]

Nothing sees a true label. Runs are kept in benchmarks/records/auto_classifier.jsonl, so that an interrupted command continues.
"""

from __future__ import annotations

import json
import sys
from time import process_time

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS, FeatureSet
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.simulate import simulate
from crowdwise.trust.choice.classifiers import CANDIDATES
from crowdwise.trust.metrics import accuracy, ece, log_loss

BENCHMARK = Benchmark(
    "How close does the automatic choice come to the best classifier of every set?",
    sections=("auto classifier",),
    data=("features",),
    packages=("torch",),
    renders=("",),
    quick="labelme",
    small={"SEEDS": {"labelme": 1}},
)

SEEDS = {"small": 3, "labelme": 10, "rte": 3, "sentence_polarity": 3, "cifar10n": 3, "convarg_pairs": 3, "ner_mturk": 3}
CHOICE, PLAIN = "auto-classifier", "two-stage (aggregator=majority)"
KEPT = Records("auto_classifier")


def small(seed: int) -> FeatureSet:
    """Ten classes, three to four votes per item, 700 items: scikit-learn's digits under a simulated crowd of uneven skill."""
    from sklearn.datasets import load_digits

    X, truth = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(truth))
    X, truth = X[order].astype(np.float32), truth[order]
    crowd = {"n_annotators": 20, "n_classes": 10, "votes_per_item": (3, 4), "classes": list(range(10))}
    votes = simulate(truth=truth[:700], random_state=seed, **crowd).votes
    return FeatureSet(X[:700], votes, truth[:700], X[700:], truth[700:])


def run(method: str, settings: dict[str, object], data: FeatureSet, seed: int) -> dict[str, object]:
    model = crowdwise.make(method, **settings)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    started = process_time()
    model.fit(data.X, data.votes)
    seconds = process_time() - started
    proba = model.predict_proba(data.X_test)
    return {
        "test": accuracy(proba, data.truth_test),
        "nll": log_loss(proba, data.truth_test),
        "ece": ece(proba, data.truth_test),
        "labels": accuracy(model.posterior_, data.truth),
        "seconds": seconds,
        "chosen": getattr(model, "chosen_", ""),
    }


def runs_of(name: str) -> dict[str, list[dict[str, object]]]:
    """Runs by method, a seed through all methods before the next."""
    kept, found = KEPT.read(), {}
    entries = [(CHOICE, CHOICE, {}), *((c.label, c.method, c.settings) for c in CANDIDATES)]
    for seed in range(SEEDS[name]):
        data = None
        for label, method, settings in entries:
            key = json.dumps([name, label, seed])
            if key not in kept:
                KEPT.refuse_to_measure(key)
                data = ({"small": small} | SETS)[name](seed) if data is None else data
                kept[key] = run(method, settings, data, seed)
                KEPT.add(key, kept[key])
                print(
                    name, seed, label, {k: round(v, 3) if isinstance(v, float) else v for k, v in kept[key].items()}, flush=True
                )
            found.setdefault(label, []).append(kept[key])
    return found


def main() -> None:
    names = sys.argv[1:]
    rows, near, below, single = [], [], [], []
    for name in names or SEEDS:
        found = runs_of(name)
        mean = {label: 100 * float(np.mean([r["test"] for r in runs])) for label, runs in found.items()}
        best = max((c.label for c in CANDIDATES), key=lambda label: mean[label])
        labels = max((c.label for c in CANDIDATES), key=lambda label: np.mean([r["labels"] for r in found[label]]))
        near.append(mean[CHOICE] - mean[best])
        below.append((mean[CHOICE] - mean[PLAIN], name))
        own = found[CHOICE]
        single += [(100 * (a["test"] - b["test"]), name) for a, b in zip(own, found[PLAIN], strict=True)]
        chosen = ", ".join(dict.fromkeys(str(r["chosen"]) for r in own))
        rows.append([
            name, str(len(own)), chosen, interval([r["test"] for r in own], 100, 1), f"{best} {mean[best]:.1f}",
            f"{mean[PLAIN]:.1f}", interval([r["ece"] for r in own], 1, 3), interval([r["nll"] for r in own], 1, 3),
            interval([r["labels"] for r in own], 100, 1),
            f"{labels} {100 * np.mean([r['labels'] for r in found[labels]]):.1f}",
            f"{np.mean([r['seconds'] for r in own]):.0f}",
        ])  # fmt: skip
    (worst, where), (lowest, there) = min(below), min(single)
    text = (
        f"\nOver these sets, test accuracy is {np.mean(near):+.2f} points beside the best candidate of each set on average (at "
        f"worst {min(near):+.1f}), and at worst {worst:+.1f} beside two stages with majority vote ({where}); in a single run, "
        f"{lowest:+.1f} ({there}). *Best alone* has the best mean over the seeds, which nobody can know without true labels. "
        "Seconds are of the processor, comparison and fit.\n\n"
    )
    header = ["set", "seeds", "chosen", "test accuracy", "best alone", "two stages, majority", "test ECE", "test NLL", "labels"]
    header += ["best labels alone", "processor s"]
    put(
        "auto classifier",
        provenance(" ".join(["python -m benchmarks run auto_classifier", *names]), KEPT) + text + table(header, rows),
    )
