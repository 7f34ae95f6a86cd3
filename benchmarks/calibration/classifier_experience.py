"""How sure labels of classifiers with features may be: one exponent for all of them, on the six sets with features.

    python -m benchmarks run classifier_experience

As `experience.py` does for methods without features: every classifier is fitted with three seeds, without true labels, to a
set's rows and votes, and the log-loss of q^(1 / votes^gamma) against the true labels of the same items is kept for a grid of
gamma. The exponent is the gamma with the smallest mean over sets (of means over classifiers and seeds); it is estimated again
without each set in turn. `crowdwise.estimator.experience` ships it for all of them. How far crowds lie apart comes from a
second grid, of factors on that temperature: the standard deviation of the log of each set's best one. A second table is of
new rows with votes: a fifth of the rows, drawn at random, labelled from features and votes by fits to the others. Runs are kept
in benchmarks/records/classifier_experience.jsonl; what is there is not measured again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from statistics import NormalDist
from time import process_time
from typing import Any

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS, FeatureSet
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.estimator.experience import FEATURES_EXPONENT, FEATURES_TEMPERATURE_SD
from crowdwise.kernels.numerics import tempered
from crowdwise.trust.metrics import ece

BENCHMARK = Benchmark(
    "How sure may labels of classifiers be?",
    sections=("classifier experience",),
    data=("features",),
    packages=("torch",),
    renders=("",),
    small={"NAMES": ("labelme",), "SEEDS": [0], "METHODS": ("raykar",), "ON_NEW_ROWS": ("raykar",)},
)

NAMES = ("labelme", "rte", "sentence_polarity", "cifar10n", "convarg_pairs", "ner_mturk")
METHODS = ("raykar", "crowd-em", "ccem", "crowd-layer-mw", "bayes-dgc", "svgpcr")
ON_NEW_ROWS = ("raykar", "crowd-em", "ccem", "bayes-dgc")
# They take many minutes on tens of thousands of rows.
SLOW = {("svgpcr", "ner_mturk"), ("bayes-dgc", "ner_mturk"), ("crowd-layer-mw", "ner_mturk")}
SEEDS = range(3)
GRID = np.round(np.arange(-0.3, 2.001, 0.02), 2)
# Logs of factors on the temperature that the shipped exponent gives.
WARMER = np.round(np.arange(-1.5, 2.001, 0.05), 2)
KEPT = Records("classifier_experience")

Runs = dict[tuple[str, str], dict[str, Any]]


def made(method: str, seed: int) -> Any:
    model = crowdwise.make(method, confidence="model")
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    # The likelihood that svgpcr mostly chooses, instead of three fits.
    return model.set_params(likelihood="softmax") if method == "svgpcr" else model


def fitted(method: str, data: FeatureSet, seed: int) -> dict[str, Any]:
    started = process_time()
    result = made(method, seed).fit(data.X, data.votes).result_
    return judged(result.posterior, result.votes, data.truth) | {"seconds": process_time() - started}


def predicted(method: str, data: FeatureSet, seed: int) -> dict[str, Any]:
    order = np.random.default_rng(seed).permutation(len(data.X))
    new, old = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
    model = made(method, seed).fit(data.X[old], data.votes[old])
    return judged(model.predict_proba(data.X[new], data.votes[new]), data.votes[new], data.truth[new])


def judged(posterior: np.ndarray, votes: crowdwise.Annotations, truth: np.ndarray) -> dict[str, Any]:
    """What a posterior is worth under every exponent of the grid."""
    known = np.flatnonzero(truth >= 0)
    z, mass = np.asarray(truth[known], np.int64), np.maximum(votes.weight_per_item, 1)
    under = [tempered(posterior, mass**gamma)[known] for gamma in GRID]
    warmer = [tempered(posterior, mass**FEATURES_EXPONENT * np.exp(factor))[known] for factor in WARMER]

    def losses(of: list[np.ndarray]) -> list[float]:
        return [float(-np.log(np.maximum(q[np.arange(len(z)), z], 1e-15)).mean()) for q in of]

    return {
        "accuracy": float((posterior[known].argmax(axis=1) == z).mean()),
        "losses": losses(under),
        "eces": [ece(q, z) for q in under],
        "confidences": [float(q.max(axis=1).mean()) for q in under],
        "warmer losses": losses(warmer),
        "warmer confidences": [float(q.max(axis=1).mean()) for q in warmer],
        "votes": float(np.mean(votes.votes_per_item)),
    }


def runs_of(methods: tuple[str, ...], measure: Callable[[str, FeatureSet, int], dict[str, Any]], *how: str) -> Runs:
    """The means over seeds, by set and classifier."""
    kept, found = KEPT.read(), {}
    for name, seed in product(NAMES, SEEDS):
        data = None
        for method in methods:
            if (method, name) in SLOW:
                continue
            key = json.dumps([name, method, seed, *how])
            if key not in kept:
                KEPT.refuse_to_measure(key)
                data = SETS[name](seed) if data is None else data
                kept[key] = measure(method, data, seed)
                KEPT.add(key, kept[key])
                print(key, kept[key]["accuracy"], flush=True)
            found.setdefault((name, method), []).append(kept[key])
    return {where: {key: np.mean([run[key] for run in runs], axis=0) for key in runs[0]} for where, runs in found.items()}


def at(gamma: float) -> int:
    return int(np.abs(GRID - gamma).argmin())


def over_sets(found: Runs, key: str) -> np.ndarray:
    """Means over classifiers, a row per set."""
    return np.array([np.mean([run[key] for (where, _), run in found.items() if where == name], axis=0) for name in NAMES])


def left_out(losses: np.ndarray) -> list[float]:
    """The best exponent without each set in turn."""
    return [float(GRID[np.delete(losses, i, axis=0).mean(axis=0).argmin()]) for i in range(len(losses))]


def exponents(found: Runs) -> str:
    rows = []
    for method in (*METHODS, "all alike"):
        of = {name: found[name, method]["losses"] for name in NAMES if (name, method) in found}
        if method == "all alike":
            of = dict(zip(NAMES, over_sets(found, "losses"), strict=True))
        losses = np.array(list(of.values()))
        without = left_out(losses)
        each = [f"{GRID[int(np.argmin(of[name]))]:.2f}" if name in of else "-" for name in NAMES]
        best = GRID[losses.mean(axis=0).argmin()]
        rows.append([method, f"{best:.2f}", f"{min(without):.2f} to {max(without):.2f}", *each])
    return table(["classifier", "exponent", "without one set", *NAMES], rows)


def worth(found: Runs, without: list[float]) -> str:
    shipped = at(FEATURES_EXPONENT)

    def cells(run: dict[str, Any], other: int) -> list[str]:
        shares = [run["accuracy"], run["confidences"][at(0)], run["confidences"][shipped]]
        values = [run[key][i] for key in ("eces", "losses") for i in (at(0), shipped, other)]
        return [f"{100 * share:.1f}" for share in shares] + [f"{value:.3f}" for value in values]

    rows = [
        [name, method, f"{found[name, method]['votes']:.1f}", *cells(found[name, method], at(gamma))]
        for name, gamma in zip(NAMES, without, strict=True)
        for method in METHODS
        if (name, method) in found
    ]
    mean = {key: over_sets(found, key) for key in ("accuracy", "eces", "losses", "confidences")}
    for key in ("eces", "losses"):
        # What every set has under the exponent of the others stands in one more column.
        apart = mean[key][np.arange(len(NAMES)), [at(gamma) for gamma in without]]
        mean[key] = np.column_stack([mean[key], apart])
    rows.append(["mean over sets", "", "", *cells({key: value.mean(axis=0) for key, value in mean.items()}, -1)])
    head = ["set", "classifier", "votes per item", "labels right", "model expects", "believed expects"]
    head += [f"{of}{how}" for of in ("ECE", "log-loss") for how in (" of the model", "", ", set left out")]
    return table(head, rows)


def ranges(found: Runs) -> str:
    """How far crowds lie apart, and on how many sets the true share lies in the range that comes of it."""
    best = WARMER[over_sets(found, "warmer losses").argmin(axis=1)]
    right, confidences = over_sets(found, "accuracy"), over_sets(found, "warmer confidences")

    def held(sd: float, i: int) -> bool:
        return bool(right[i] >= confidences[i, int(np.abs(WARMER - NormalDist(0, sd).inv_cdf(0.9)).argmin())])

    # Around the shipped exponent, not around the mean of these sets.
    without = [float(np.sqrt(np.mean(np.delete(best, i) ** 2))) for i in range(len(NAMES))]
    each = ", ".join(f"{value:+.2f}" for value in best)
    return (
        f"Crowds lie apart: the logs of the sets' best factors on the temperature are {each}, with a standard deviation of "
        f"{np.sqrt(np.mean(best**2)):.2f} ({min(without):.2f} to {max(without):.2f} without one set); shipped: "
        f"{FEATURES_TEMPERATURE_SD:.2f}. The printed range, nine of ten crowds, held on "
        f"{sum(held(FEATURES_TEMPERATURE_SD, i) for i in range(len(NAMES)))} of {len(NAMES)} sets, and with the deviation of "
        f"the other five on {sum(held(sd, i) for i, sd in enumerate(without))}."
    )


def on_new_rows(found: Runs) -> str:
    shipped = at(FEATURES_EXPONENT)
    rows = []
    for (name, method), run in found.items():
        rows.append([name, method, f"{100 * run['accuracy']:.1f}"])
        rows[-1] += [f"{run[key][i]:.3f}" for key in ("eces", "losses") for i in (at(0), shipped)]
    mean = {key: over_sets(found, key).mean(axis=0) for key in ("eces", "losses")}
    rows.append(["mean over sets", "", ""] + [f"{mean[key][i]:.3f}" for key in ("eces", "losses") for i in (at(0), shipped)])
    return table(["set", "classifier", "labels right", "ECE of the model", "ECE", "log-loss of the model", "log-loss"], rows)


def main() -> None:
    found, new = runs_of(METHODS, fitted), runs_of(ON_NEW_ROWS, predicted, "new rows")
    losses = over_sets(found, "losses")
    without = left_out(losses)
    gaps = 100 * np.abs(over_sets(found, "confidences") - over_sets(found, "accuracy")[:, None])
    apart = np.mean([row[at(gamma)] for row, gamma in zip(gaps, without, strict=True)])
    best_of_new = GRID[over_sets(new, "losses").mean(axis=0).argmin()]
    about = (
        f"\n\nShipped for all: {FEATURES_EXPONENT:.2f}. Means over {len(SEEDS)} seeds. *Believed* has the shipped exponent, "
        "which was chosen with these sets in view; *set left out* the one that is best for all classifiers on the other five "
        "sets, and is the fair figure. Expected and true share of right labels are "
        f"{gaps[:, at(0)].mean():.1f} points apart on a set by the model, {gaps[:, at(FEATURES_EXPONENT)].mean():.1f} as "
        f"believed and {apart:.1f} with the set left out. {ranges(found)}\n\n"
    )
    more = (
        "\n\nNew rows with votes: a fifth of the rows, of which the classifier saw neither features nor votes. The exponent "
        f"that would be best for them is {best_of_new:.2f}.\n\n"
    )
    text = provenance("python -m benchmarks run classifier_experience", KEPT) + "\n" + exponents(found)
    put("classifier experience", text + about + worth(found, without) + more + on_new_rows(new))
