"""The tutorial's experiments with machines as annotators, and a crowd of the size of its ImageNet-15N.

    python -m benchmarks run machine_annotators [--seeds N]

End-to-end learning from classifiers that are right in 15 to 85 of 100 images, on MNIST; labels from fifteen classifiers that
answered everything, on scikit-learn's digits and on sets with the class shares of Shuttle and CoverType; a simulated crowd with
100 annotators and 15 classes that resemble each other.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.papers.machine_crowds import Crowd, Size, machines, similar_classes, weak_digits
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.trust.crowd.dependence import find
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Do the tutorial's methods hold with machines as annotators?",
    sections=("machine annotators",),
    data=("mnist",),
    packages=("torch",),
    renders=("",),
    quick="--seeds 1",
    small={
        "CROWDS": [2], "N_HELD": 40, "ANSWERED": 0.9, "SPAN": [0.0, 1.01], "NETWORK": {"epochs": 1}, "SIMULATED": {"items": 60},
        "SETS": {"digits": [0, 100]}, "AGGREGATED": ["majority", "group-vote"], "LEARNED": ["two-stage majority", "ccem"],
    },
)  # fmt: skip

RUNS = Records("machine_annotators")
NETWORK: dict[str, Any] = {}
GOLD = "true labels"
LEARNED = (
    "two-stage majority", "two-stage dawid-skene", "ccem", "trace-reg", "geocrowdnet-f", "geocrowdnet-w", "coinnet", "maxmig",
    "crowd-layer-mw",
)  # fmt: skip
# Annotators; images that they are trained on; share of the others that each answers; their accuracies.
CROWDS, N_HELD, ANSWERED, SPAN = (5, 15), 3000, 0.1, (0.15, 0.85)
AGGREGATED = ("majority", "dawid-skene", "group-vote", "group-dawid-skene", "consensus")
# Items, and rows that each classifier is trained on.
SETS = {"shuttle-like": (58_000, 500), "covertype-like": (58_101, 500), "digits": (0, 100)}
SLIDES = {"shuttle-like": (98.82, 97.54, 98.93, 99.46), "covertype-like": (75.0, 48.46, 74.49, 74.09)}
SIMULATED: dict[str, Any] = {}


def learned(method: str, crowd: Crowd, seed: int) -> dict[str, float]:
    """Share of right labels of items and of new ones, with the built-in network."""
    if method.startswith("two-stage") or method == GOLD:
        network = SoftNetwork(**NETWORK, random_state=seed)
        model = crowdwise.make("two-stage", aggregator=method.split()[-1] if method != GOLD else "majority", classifier=network)
    else:
        model = crowdwise.make(method, **NETWORK, random_state=seed)
    model.fit(crowd.X, crowd.votes.classes[crowd.truth] if method == GOLD else crowd.votes)
    return {
        "labels": accuracy(model.posterior_, crowd.truth),
        "new": accuracy(model.predict_proba(crowd.X_test), crowd.truth_test),
    }


def described(crowd: Crowd) -> dict[str, float]:
    votes = crowd.votes
    return {"items": votes.n_items, "votes": votes.n_votes, "right": float(crowd.right.mean()),
            "lowest": float(crowd.right.min()), "highest": float(crowd.right.max())}  # fmt: skip


def learned_table(name: str, draw: Callable[[int], Crowd], seeds: int) -> tuple[list[str], dict[str, float], dict[str, list]]:
    """Means of what crowds are like, and by method the runs of all seeds."""
    runs: dict[str, list[dict[str, float]]] = {}
    about = [RUNS.once(json.dumps([name, "crowd", seed]), lambda s=seed: described(draw(s))) for seed in range(seeds)]
    for method in (*LEARNED, GOLD):
        runs[method] = [
            RUNS.once(json.dumps([name, method, seed]), lambda m=method, s=seed: learned(m, draw(s), s))
            for seed in range(seeds)
        ]
    return list(runs), {key: float(np.mean([one[key] for one in about])) for key in about[0]}, runs


def cells(runs: list[dict[str, float]], method: str) -> list[str]:
    labels = "-" if method == GOLD else interval([run["labels"] for run in runs], 100, 1)
    return [labels, interval([run["new"] for run in runs], 100, 1)]


def weak_table(seeds: int) -> tuple[str, str]:
    rows, header, told = [[name] for name in (*LEARNED, GOLD)], ["method"], []
    for n in CROWDS:
        draw: Callable[[int], Crowd] = lambda seed, n=n: weak_digits(n, N_HELD, seed, ANSWERED, SPAN)  # noqa: E731
        names, about, runs = learned_table(f"weak {n}", draw, seeds)
        header += [f"{n} classifiers: labels", f"{n} classifiers: new images"]
        for row, name in zip(rows, names, strict=True):
            row += cells(runs[name], name)
        told.append(
            f"{n} classifiers, right in {100 * about['lowest']:.0f} to {100 * about['highest']:.0f} of 100 images, "
            f"{about['votes']:,.0f} votes on {about['items']:,.0f} images"
        )
    return table(header, rows), "; ".join(told)


def similar_table(seeds: int) -> tuple[str, str]:
    draw: Callable[[int], Crowd] = lambda seed: similar_classes(Size(**SIMULATED), seed)  # noqa: E731
    names, about, runs = learned_table("similar", draw, seeds)
    rows = [[name, *cells(runs[name], name)] for name in names]
    for method in AGGREGATED:
        if "group" not in method:
            alone = [
                RUNS.once(json.dumps(["similar", method, seed]), lambda m=method, s=seed: aggregated(m, draw(s)))
                for seed in range(seeds)
            ]
            rows.append([f"{method}, without features", interval(alone, 100, 1), "-"])
    return table(["method", "labels", "new items"], rows), f"{100 * (1 - about['right']):.2f}"


def aggregated(method: str, crowd: Crowd) -> float:
    return accuracy(crowdwise.make(method).fit(crowd.votes).posterior_, crowd.truth)


def fused(name: str, seed: int) -> dict[str, Any]:
    """Share of right labels by method, of each classifier, and the sizes of the groups that were found."""
    votes, truth = machines(name, *SETS[name], seed)
    right = np.bincount(votes.annotator, votes.label == truth[votes.item]) / votes.votes_per_annotator
    found: dict[str, Any] = {"items": votes.n_items, "classifiers": right.tolist()}
    found["groups"] = sorted((len(group.members) for group in find(votes).groups), reverse=True)
    return found | {method: accuracy(crowdwise.make(method).fit(votes).posterior_, truth) for method in AGGREGATED}


def fused_table(seeds: int) -> str:
    rows = []
    for name in SETS:
        runs = [RUNS.once(json.dumps(["fused", name, seed]), lambda n=name, s=seed: fused(n, s)) for seed in range(seeds)]
        mean, best = ([edge(run["classifiers"]) for run in runs] for edge in (np.mean, np.max))
        sizes = "; ".join(", ".join(map(str, run["groups"])) or "none" for run in runs)
        rows.append([name, f"{runs[0]['items']:,}", interval(mean, 100, 1), interval(best, 100, 1),
                     *(interval([run[method] for run in runs], 100, 2) for method in AGGREGATED), sizes])  # fmt: skip
        if name in SLIDES:
            rows.append([f"*slides, {name[:-5]}*", "", "", "", *(f"{value:.2f}" for value in SLIDES[name]), "", ""])
    return table(["set", "items", "mean classifier", "best", *AGGREGATED, "groups found, by seed"], rows)


def why(name: str, seed: int) -> dict[str, float]:
    """Share of right labels from the classifiers' votes and from votes redrawn independently from their confusion matrices."""
    votes, truth = machines(name, *SETS[name], seed)
    rng, n_classes = np.random.default_rng(seed), votes.n_classes
    confusion = np.full((votes.n_annotators, n_classes, n_classes), 1e-3)
    np.add.at(confusion, (votes.annotator, truth[votes.item], votes.label), 1.0)
    confusion /= confusion.sum(axis=2, keepdims=True)
    log_k = np.log(np.bincount(truth, minlength=n_classes) + 1e-3)
    drawn = (rng.random((votes.n_votes, 1)) > confusion[votes.annotator, truth[votes.item]].cumsum(axis=1)[:, :-1]).sum(axis=1)
    found = {}
    for way, label in (("votes", votes.label), ("redrawn", drawn)):
        score = np.repeat(log_k[None], votes.n_items, axis=0)
        np.add.at(score, votes.item, np.log(confusion[votes.annotator, :, label]))
        found[f"{way} true matrices"] = float((score.argmax(axis=1) == truth).mean())
        given = Annotations.from_arrays(
            votes.item, votes.annotator, label, items=range(votes.n_items), classes=range(n_classes)
        )
        for method in ("majority", "dawid-skene", "consensus"):
            found[f"{way} {method}"] = accuracy(crowdwise.make(method).fit(given).posterior_, truth)
    return found


def why_table(seeds: int) -> str:
    rows = []
    for name in (name for name in SETS if name in SLIDES):
        runs = [RUNS.once(json.dumps(["why", name, seed]), lambda n=name, s=seed: why(n, s)) for seed in range(seeds)]
        for way, words in (("votes", "as they are"), ("redrawn", "redrawn")):
            keys = [f"{way} {method}" for method in ("majority", "dawid-skene", "consensus", "true matrices")]
            rows.append([f"{name}, {words}", *(interval([run[key] for run in runs], 100, 2) for key in keys)])
    return table(["votes", "majority", "dawid-skene", "consensus", "true matrices"], rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    seeds = options.parse_args().seeds
    (weak, told), (similar, error), size = weak_table(seeds), similar_table(seeds), Size(**SIMULATED)
    together, cause = fused_table(seeds), why_table(seeds)
    text = f"""{provenance("python -m benchmarks run machine_annotators", RUNS)}
Accuracy in percent, mean ± half width of the 95% interval over {seeds} seeds. A seed draws data, annotators and votes again.

**Learning from weak classifiers.** MNIST, 14 x 14 pixels: 20,000 images, of which {N_HELD:,} train a pool of classifiers
(nearest neighbour, discriminant analysis, naive Bayes, logistic regression, trees; on few images and pixels). Annotators are
drawn from it so that accuracies spread over {100 * SPAN[0]:.0f} to {100 * SPAN[1]:.0f} %; each answers a random
{100 * ANSWERED:.0f} % of the other images, and images without an answer are left out: {told} (means over seeds). The slides
have 57,000 images and do not say how many annotators. Methods have their default settings and the built-in network.

{weak}

**Fifteen classifiers that answer everything.** Five kinds as above, each trained on three parts of a small training set
({SETS["digits"][1]} rows each for digits, 500 otherwise). Shuttle-like and CoverType-like sets are Gaussian clusters by
`make_classification` with the class shares of those sets (nine features and well separated, twenty and overlapping); the
slides' own sets have 58,000 and 581,012 items. *Groups found* are the sizes of groups with at least two members.

{together}

Why the plain vote is ahead of models there: the classifiers err on the same items. The same votes, and votes redrawn one by one
from each classifier's confusion matrix against the truth; *true matrices* is the best label that independent classifiers with
these very matrices and class shares would allow.

{cause}

**A crowd of the size of ImageNet-15N.** {size.items:,} items, {size.classes} classes, {size.annotators} annotators, simulated:
{size.per_item} votes per item, which are wrong in {error} % on average over annotators (slides: 42.68 %), mostly for one of a
few similar classes that all annotators share; {100 * size.unclear:.0f} % of the items are answered at random.
{size.features} features, Gaussian clusters; {size.tested:,} new items. The slides show curves without numbers, and do not say
how many votes an item has.

{similar}
"""
    put("machine annotators", text)
