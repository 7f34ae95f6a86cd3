"""Every classifier on every set with features: accuracy on new items, recovered labels, NLL, ECE, collapsed runs.

    python -m benchmarks run learn [SET ...]        (labelme and rte: five seeds; the others three, see SEEDS)
    python -m benchmarks run learn rte --only "auto-classifier;raykar, gaussian"    (measured, and shown with the others)
    python -m benchmarks run learn --relatives     (four relatives beside those they come from, four sets and one vote per item)

No method sees a true label, except the row "gold". "chosen" is the method whose five-fold cross-validated
likelihood of held-out votes is best: what a user without any truth would pick.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS, FeatureSet
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from benchmarks.running import seconds
from crowdwise.estimator.registry import classifiers
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.trust.metrics import accuracy, ece, log_loss

BENCHMARK = Benchmark(
    "Which classifier learns best from votes, on seven sets with features?",
    sections=(
        "learn labelme",
        "learn cifar10n",
        "learn cifar10n_images",
        "learn sentence_polarity",
        "learn rte",
        "learn convarg_pairs",
        "learn ner_mturk",
        "learn relatives",
    ),
    data=("features",),
    packages=("torch",),
    renders=("labelme", "cifar10n", "cifar10n_images", "sentence_polarity", "rte", "convarg_pairs", "ner_mturk", "--relatives"),
    quick="labelme --only raykar",
)

CLASSIFIERS = classifiers()

SEEDS = {"labelme": 5, "rte": 5, "sentence_polarity": 3, "cifar10n": 3, "convarg_pairs": 3, "ner_mturk": 3}
SEEDS["cifar10n_images"] = 3
# Networks on images take minutes here: the ones that differ most in kind.
ON_IMAGES = ["gold", "two-stage majority", "aggnet", "crowd-layer-mw", "ccem", "geocrowdnet-f"]
EPOCHS_ON_IMAGES = 12
# A run collapsed if it is this far below two stages with majority vote.
COLLAPSE = 0.10
# Settings that a user would try too.
VARIANTS = {"raykar, gaussian": {"classifier": "gaussian"}}
# Fewer seeds where a run takes long; and not tried in the choice without gold, which takes five fits each.
SLOW = {"svgpcr-nf": 3, "gpnetcr": 3, "dalc": 3, "auto-classifier": 3}
# Name -> most items on which it is tried, because a run takes many minutes on more; gp_honest has svgpcr on all sets.
MOST_ITEMS = dict.fromkeys(("gold, svgp", "svgpcr-nf", "gpnetcr"), 5_000)
MOST_ITEMS |= dict.fromkeys(("svgpcr", "dalc", "bayes-dgc", "deep-mf", "deep-bp"), 20_000)
# These take the cube of the items.
MOST_ITEMS |= dict.fromkeys(("vgpcr", "rodr14"), 2_000)
TWO_CLASSES = ("vgpcr", "rodr14", "rff", "vff")
# Published relatives, those they are measured beside, and on what.
RELATIVES = ["two-stage majority", "aggnet", "ccem", "conal", "mbem", "annot-mix", "union-net"]
RELATIVES_ON, RELATIVES_SEEDS = ["labelme", "labelme, one vote per item", "rte", "sentence_polarity", "convarg_pairs"], 3
RUNS = Records("learn")


@lru_cache(2)
def loaded(name: str, seed: int) -> FeatureSet:
    """A set, perhaps with one of the votes on every item, drawn at random."""
    known, _, once = name.partition(", ")
    data = SETS[known](seed)
    return one_vote(data, seed) if once else data


@RUNS.each
def size_of(name: str) -> dict[str, Any]:
    data = loaded(name, 0)
    votes, shape = data.votes, "x".join(map(str, data.X.shape[1:]))
    sizes = {"items": votes.n_items, "annotators": votes.n_annotators, "votes": votes.n_votes, "classes": votes.n_classes}
    return sizes | {"shape": shape, "tested": len(data.truth_test)}


def entries(name: str) -> list[str]:
    if name.endswith("_images"):
        return ON_IMAGES
    size = size_of(name)
    skipped = {"svgp"}  # not a crowd method: see "gold, svgp"
    if size["classes"] != 2:
        skipped |= set(TWO_CLASSES)
    skipped |= {name for name, most in MOST_ITEMS.items() if size["items"] > most}
    tried = ["gold", "gold, svgp", "two-stage majority", *CLASSIFIERS, *VARIANTS]
    return [name for name in tried if name not in skipped]


def build(entry: str, seed: int, images: bool):
    settings = {"random_state": seed}
    network = {"epochs": EPOCHS_ON_IMAGES, "refit": False, "patience": 5} if images else {}
    if entry == "gold, svgp":
        return crowdwise.make("svgp", **settings)
    if entry in ("gold", "two-stage majority", "two-stage"):
        aggregator = "dawid-skene" if entry == "two-stage" else "majority"
        return crowdwise.make("two-stage", aggregator=aggregator, classifier=SoftNetwork(**network, **settings), **settings)
    name = entry.partition(",")[0]
    known = crowdwise.make(name).get_params()
    return crowdwise.make(name, **VARIANTS.get(entry, {}), **{k: v for k, v in (network | settings).items() if k in known})


@RUNS.each
def run(name: str, entry: str, seed: int) -> dict[str, float]:
    data = loaded(name, seed)
    model = build(entry, seed, name.endswith("_images"))
    rows, votes = data.X, data.votes
    if entry.startswith("gold"):
        known = np.flatnonzero(data.truth >= 0)
        rows, votes = data.X[known], data.votes.classes[data.truth[known]]
    started = seconds()
    model.fit(rows, votes)
    took = seconds() - started
    proba = model.predict_proba(data.X_test)
    return {
        "test": accuracy(proba, data.truth_test),
        "labels": float("nan") if entry.startswith("gold") else accuracy(model.posterior_, data.truth),
        "nll": log_loss(proba, data.truth_test),
        "ece": ece(proba, data.truth_test),
        "seconds": took,
    }


@RUNS.each
def held_out(name: str, entry: str, seed: int) -> float:
    """Cross-validated likelihood of held-out votes, per vote."""
    data, total = loaded(name, seed), 0.0
    folds = np.random.default_rng(seed).permutation(len(data.X)) % 5
    for fold in range(5):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        model = build(entry, seed, False).fit(data.X[inside], data.votes[inside])
        total += model.score(data.X[outside], data.votes[outside]) * data.votes[outside].n_votes
    return total / data.votes.n_votes


def one_vote(data: FeatureSet, seed: int) -> FeatureSet:
    """The same items with one of their votes each, drawn at random."""
    votes = data.votes
    order = np.random.default_rng(seed).permutation(votes.n_votes)
    _, first = np.unique(votes.item[order], return_index=True)
    kept = np.zeros(votes.n_votes, bool)
    kept[order[first]] = True
    return replace(data, votes=votes.take_votes(kept))


def relatives() -> None:
    """A table of its own, of fewer seeds than those of all methods."""
    header = ["set", "method", "test accuracy", "recovered labels", "test NLL", "test ECE"]
    rows = []
    for name in RELATIVES_ON:
        for entry in RELATIVES:
            rows.append([name, entry, *cells([run(name, entry, seed) for seed in range(RELATIVES_SEEDS)])])
    about = f"\n{RELATIVES_SEEDS} seeds; mean ± half width of the 95% interval over seeds, which of three is wide.\n\n"
    put("learn relatives", provenance("python -m benchmarks run learn --relatives", RUNS) + about + table(header, rows))


def cells(runs: list[dict[str, float]]) -> list[str]:
    shown = (("test", 100, 1), ("labels", 100, 1), ("nll", 1, 3), ("ece", 1, 3))
    return [interval([r[key] for r in runs], scale, digits) for key, scale, digits in shown]


def rows_of(results: dict[str, list[dict[str, float]]]) -> list[list[str]]:
    """A run collapses where it is far below two stages with majority vote."""
    base, rows = np.mean([r["test"] for r in results["two-stage majority"]]), []
    for entry, runs in results.items():
        collapsed = sum(r["test"] < base - COLLAPSE for r in runs)
        rows.append([entry, *cells(runs), f"{collapsed} of {len(runs)}", f"{np.mean([r['seconds'] for r in runs]):.1f}"])
    return rows


def main() -> None:
    given = sys.argv[1:]
    if "--relatives" in given:
        relatives()
        return
    only = given.pop(given.index("--only") + 1).split(";") if "--only" in given else None
    for name in [name for name in given if not name.startswith("--")] or SETS:
        results = {
            entry: [run(name, entry, seed) for seed in range(min(SLOW.get(entry, SEEDS[name]), SEEDS[name]))]
            for entry in only or entries(name)
        }
        if only:
            print(name, {entry: cells(runs) for entry, runs in results.items()}, flush=True)
            continue
        rows = rows_of(results)
        if name == "labelme":
            tried = [entry for entry in entries(name)[3:] if entry not in SLOW]
            winner = max(tried, key=lambda entry: held_out("labelme", entry, 0))
            rows.append([f"*chosen without gold: {winner}* (one seed)", *rows[list(results).index(winner)][1:]])
        size = size_of(name)
        about = (
            f"\n**{name}**: {size['items']:,} training items ({size['shape']}), {size['annotators']:,} annotators, "
            f"{size['votes']:,} votes, K={size['classes']}; {size['tested']:,} test items; {SEEDS[name]} seeds; mean ± half "
            f"width of the 95% interval over seeds ({', '.join(SLOW)}: at most {max(SLOW.values())} seeds).\n"
        )
        head = ["method", "test accuracy", "recovered labels", "test NLL", "test ECE", "collapsed", "processor seconds"]
        put(f"learn {name}", provenance(f"python -m benchmarks run learn {name}", RUNS) + about + "\n" + table(head, rows))
