"""What each part of the automatic choice is worth: other scores, rules and checks on the fits that `auto` has kept.

python -m benchmarks run auto              # first
python -m benchmarks run auto_variants     # prints; the table of docs/methods/auto.md

Checks that `auto` had once, and lost for what is measured here: *renamed* leaves out candidates whose classes agree better with
majority vote under other names, or that overrule it on a tenth of the votes without predicting those better; *levels* leaves
out richer models of annotators where half of the votes come from annotators with few votes.
"""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
from scipy.optimize import linear_sum_assignment

import crowdwise
from benchmarks.accuracy.auto import CROWDS, FOLDS, SEEDS, drawn_or_read, fitted
from benchmarks.accuracy.real_data import SETS
from benchmarks.declaration import Benchmark
from crowdwise.estimator.registry import METHODS
from crowdwise.kernels.numerics import generator
from crowdwise.trust.choice.candidates import CANDIDATES, FALLBACK, rank_of
from crowdwise.trust.choice.operations import keep_affordable, operations_of
from crowdwise.trust.choice.scoring import HeldOut, cross_fitted, tempered_score
from crowdwise.trust.choice.selection import Row, simplest
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "What is each part of the automatic choice worth?",
    data=("labelled",),
    small={"SETS": ["dog"], "CROWDS": []},
    no_quick="reads the fits that auto keeps",
)

SCORES = {"as it is": tempered_score, "no gamma": cross_fitted, "no EM": partial(tempered_score, rounds=0)}
# Score, whether the default is preferred, standard errors, renamed, levels.
AS_IT_IS = ("as it is", True, 1, False, False)
COMBINATIONS = list(product(SCORES, (True, False), (0, 1, 2), (False, True), (False, True)))


def measured(name: str) -> dict[tuple, float]:
    """Accuracy of the choice by every combination, and of the candidates alone by their names."""
    votes, truth = drawn_or_read(name)
    held = HeldOut(votes, FOLDS, int(generator(0).integers(2**31)))
    rows = [Row(method) for method in CANDIDATES]
    keep_affordable(rows, {m: FOLDS * operations_of(m, votes) for m in CANDIDATES}, crowdwise.Auto().operations)
    runs = {row.method: fitted(name, row.method, votes, held) for row in rows if row.eligible}
    found = {method: accuracy(run["post"], truth) for method, run in runs.items()}
    labels = {method: run["shares"].argmax(axis=1) for method, run in runs.items()}
    for score, judge in SCORES.items():
        log_prob = {method: judge(held.terms, run["shares"].astype(float)) for method, run in runs.items()}
        poor = {True: renamed(labels, log_prob, votes.n_classes), False: set()}
        for combination in (one for one in COMBINATIONS if one[0] == score):
            _, preferred, errors, by_names, by_level = combination
            out = poor[by_names] | ({m for m in runs if METHODS[m].level > level(votes)} if by_level else set())
            left = [Row(m, rank(m, votes, preferred), log_prob=log_prob[m]) for m in runs if m not in out]
            found[combination] = found[left[simplest(left, held.terms.item, errors)[0]].method]
    return found


def rank(method: str, votes: crowdwise.Annotations, preferred: bool) -> int:
    return rank_of("dawid-skene" if method == FALLBACK and not preferred else method, votes.n_classes)


def renamed(labels: dict[str, np.ndarray], log_prob: dict[str, np.ndarray], n_classes: int) -> set[str]:
    plain, out = labels["majority"], set()
    for method in set(labels) - {"majority"}:
        table = np.bincount(labels[method] * n_classes + plain, minlength=n_classes**2).reshape(n_classes, n_classes)
        gain = table[linear_sum_assignment(-table)].sum() - np.trace(table)
        other = labels[method] != plain
        better = log_prob[method] - log_prob["majority"]
        if gain > 0.01 * len(plain) or (other.mean() > 0.1 and better[other].mean() <= 0):
            out.add(method)
    return out


def level(votes: crowdwise.Annotations) -> int:
    typical = float(np.median(votes.votes_per_annotator[votes.annotator]))
    if typical < 3:
        return 0
    return 3 if typical >= 2 * votes.n_classes else 2 if typical >= votes.n_classes else 1


def main() -> None:
    sets = [measured(name) for name in SETS]
    crowds = [measured(f"{label}#{seed}") for label in CROWDS for seed in range(SEEDS)]

    def mean(key: object, found: list[dict]) -> float:
        return 100 * float(np.mean([one[key] for one in found]))

    shown = [AS_IT_IS, ("no gamma", *AS_IT_IS[1:]), ("no EM", *AS_IT_IS[1:]), ("as it is", False, 1, False, False),
             ("as it is", True, 1, True, False), ("as it is", True, 1, False, True), "consensus", "majority"]  # fmt: skip
    for key in shown:
        least = 100 * min(one[key] - one["majority"] for one in sets)
        print(key, f"sets {mean(key, sets):.2f} crowds {mean(key, crowds):.2f}, least beside majority vote {least:+.1f}")
    left_out = []
    for number, one in enumerate(sets):
        others = sets[:number] + sets[number + 1 :]
        left_out.append(one[max(COMBINATIONS, key=lambda key: mean(key, others))])
    print(
        f"best of {len(COMBINATIONS)} combinations on the other sets: {100 * float(np.mean(left_out)):.2f} on the set left out"
    )
    for name, one in zip(SETS, sets, strict=True):
        print(name, "renamed costs", f"{100 * (one[AS_IT_IS] - one[shown[4]]):.1f}")
