"""Tables of gp_ligo.py: scores, differences, cost, classes, flows, overlap."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from benchmarks.gp import gravity_spy
from benchmarks.gp.gp_ligo_run import ENOUGH, EPOCHS, LENGTHS, METHODS
from benchmarks.gp.gravity_spy import CLASSES
from benchmarks.page import interval, table

# Method -> its runs.
Results = dict[str, list[dict[str, Any]]]

# Differences are taken to this one, of flows to svgpcr with as many inducing points.
REFERENCE = "svgpcr M=50"
# A run has arrived when its test accuracy stays within this of the last.
ARRIVED = 0.003
# Heading: name in a run, factor, digits.
MARKS = {
    "NLL": ("nll", 1, 3),
    "Brier": ("brier", 1, 4),
    "ECE": ("ece", 1, 3),
    "accuracy": ("accuracy", 100, 2),
    "AUC": ("auc", 100, 2),
    "mean probability of the true class": ("likelihood", 100, 2),
    "recovered": ("labels", 100, 2),
    "matrix error": ("matrix error", 100, 2),
}
SCORES = {heading: mark for heading, mark in MARKS.items() if heading not in ("recovered", "matrix error")}
BY_CLASS = (
    "svgpcr M=10", "svgpcr M=50", "svgpcr M=100", "svgpcr-nf L=9 M=50", "gpnetcr M=10", "gpnetcr M=50",
    "aggnet", "crowd-layer-vw", "crowd-layer-vwb", "crowd-layer-mw",
)  # fmt: skip


def cell(runs: list[dict[str, Any]], mark: tuple[str, float, int]) -> str:
    name, times, digits = mark
    return interval([one[name] for one in runs], times, digits)


def pairs(runs: list[dict[str, Any]], base: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Runs beside those of the base with the same seed, hence the same data."""
    of = {one["seed"]: one for one in base}
    return [(one, of[one["seed"]]) for one in runs if one["seed"] in of]


def gaps(runs: list[dict[str, Any]], base: list[dict[str, Any]], marks: dict[str, tuple[str, float, int]]) -> list[str]:
    """Cells of the differences seed by seed; dashes where there are fewer than two."""
    both = pairs(runs, base)
    if len(both) < 2:
        return ["-"] * len(marks)
    return [interval([one[name] - other[name] for one, other in both], times, digits) for name, times, digits in marks.values()]


def differences(results: Results) -> list[str]:
    """Methods minus the reference, by seeds that both have, where these are two or more."""
    base = results.get(REFERENCE, [])
    rows = [
        [entry, str(len(pairs(runs, base))), *gaps(runs, base, SCORES)]
        for entry, runs in results.items()
        if entry != REFERENCE and len(pairs(runs, base)) > 1
    ]
    about = f"**Differences to {REFERENCE}**, taken seed by seed on the same data.\n"
    return [about, table(["method", "pairs", *SCORES], rows) + "\n"] if rows else []


def arrival(one: dict[str, Any]) -> float:
    """Seconds after which test accuracy stays within ARRIVED of the last epoch's; NaN where no curve was taken."""
    if not one["curve"]:
        return float("nan")
    time, accuracy = np.array(one["curve"]).T
    away = np.flatnonzero(np.abs(accuracy - accuracy[-1]) > ARRIVED)
    return float(time[away[-1] + 1 if len(away) else 0])


def cost(results: Results) -> list[str]:
    rows = []
    for entry, runs in results.items():
        arrived = [arrival(one) for one in runs] if METHODS[entry][0] in EPOCHS else [float("nan")]
        taken = Counter(one["taken"] for one in runs if one["taken"])
        rows.append(
            [
                entry,
                str(len(runs)),
                f"{np.mean([one['epochs'] for one in runs]):.0f}",
                ", ".join(f"{name} {number}" for name, number in taken.most_common()) or "-",
                cell(runs, ("seconds", 1, 0)),
                interval(arrived, 1, 0),
                cell(runs, ("predicting", 1000, 0)),
                f"{max(one['memory'] for one in runs):,}",
            ]
        )
    within = f"within {100 * ARRIVED:.1f} (s)"
    about = (
        "**Cost**: epochs (of the networks: until early stopping, plus those of the refit); which likelihood the processes "
        "took in how many runs; processor seconds of training on one thread, with those of trying both likelihoods; seconds "
        f"until test accuracy stays within {100 * ARRIVED:.1f} points of the last epoch's; milliseconds to predict all test "
        "items; the largest peak of memory beyond data and libraries.\n"
    )
    head = ["method", "runs", "epochs", "likelihood", "training (s)", within, "prediction (ms)", "memory (MB)"]
    return [about, table(head, rows) + "\n"]


def by_class(results: Results) -> list[str]:
    shown = [entry for entry in BY_CLASS if entry in results]
    share = gravity_spy.Shape().shares()[1]
    parts = []
    for name in ("accuracy", "likelihood") if shown else ():
        rows = []
        for k in np.argsort(-share, kind="stable"):
            means = [np.mean([one[f"{name} by class"][k] for one in results[entry]]) for entry in shown]
            rows.append([CLASSES[k], f"{share[k] / share.sum():.1%}", *(f"{100 * mean:.1f}" for mean in means)])
        rows.append(["*all*", "", *(f"{100 * np.mean([one[name] for one in results[e]]):.1f}" for e in shown)])
        title = {"accuracy": "Accuracy", "likelihood": "Mean probability of the true class,"}[name]
        parts.append(f"**{title} by class** (%; mean over seeds).\n")
        parts.append(table(["class", "share in the test", *shown], rows) + "\n")
    return parts


def tables(results: Results) -> str:
    rows = []
    for entry, runs in results.items():
        paper = " / ".join(value for value in METHODS[entry][2] if value) or "-"
        rows.append([entry, str(len(runs)), *(cell(runs, mark) for mark in MARKS.values()), paper])
    crowd = [one for runs in results.values() for one in runs if "counted error" in one]
    floor = f"{100 * np.mean([one['counted error'] for one in crowd]):.2f}" if crowd else "-"
    parts = [
        "**Test items**, proper scores first: negative log-likelihood (NLL) and Brier score, lower is better; ECE; accuracy "
        "(%); AUC (%; mean over pairs of classes); the mean probability of the true class (%), which the paper calls "
        "likelihood. That one is an improper score: a model that is unsure scores most, in expectation, by claiming to be "
        "certain. Then training labels recovered (%), and the mean absolute error of the entries of the confusion matrices "
        f"(hundredths; volunteers with at least {ENOUGH} votes; rows weigh as much as their class in training). Counting votes "
        f"by the true class would err by {floor}: votes are finite, and items between two classes are often taken for the "
        "other one, which the true matrices, of what a volunteer sees, do not hold. The "
        "last column is the paper's accuracy / likelihood on the true set, other data.\n",
        table(["method", "runs", *MARKS, "paper"], rows) + "\n",
        *differences(results),
        *cost(results),
        *by_class(results),
    ]
    return "\n".join(parts)


# -- single questions ---------------------------------------------------------------------------------

FEW = {heading: MARKS[heading] for heading in ("NLL", "accuracy", "mean probability of the true class")}


# SVGPCR-NF by length, then with fewer and more inducing points, beside SVGPCR.
FLOWS = (
    REFERENCE, *(f"svgpcr-nf L={layers} M=50" for layers in LENGTHS),
    "svgpcr M=10", "svgpcr-nf L=9 M=10", "svgpcr M=100", "svgpcr-nf L=9 M=100",
)  # fmt: skip


def flows_table(results: Results) -> str:
    """Differences are to SVGPCR with as many inducing points and the same seeds."""
    rows = []
    for entry in FLOWS:
        if entry not in results:
            continue
        runs, plain = results[entry], f"svgpcr M={entry.partition('M=')[2]}"
        less = ["-"] * len(FEW) if entry == plain else gaps(runs, results.get(plain, []), FEW)
        taken = Counter(one["taken"] for one in runs).most_common()
        rows.append([entry, str(len(runs)), *(cell(runs, mark) for mark in FEW.values()), *less,
                     ", ".join(f"{name} {number}" for name, number in taken),
                     cell(runs, ("seconds", 1, 0)), cell(runs, ("predicting", 1000, 0))])  # fmt: skip
    head = ["method", "runs", *FEW, *(f"{name}, minus svgpcr's with this M" for name in FEW)]
    return table([*head, "likelihood", "training (s)", "prediction (ms)"], rows) + "\n"


def overlap_table(found: dict[float, Results]) -> str:
    """Scores, and differences to the reference, by overlap."""
    marks = {heading: MARKS[heading] for heading in ("NLL", "Brier", "accuracy")}
    rows = []
    for overlap, results in found.items():
        base = results.get(REFERENCE, [])
        for entry, runs in results.items():
            less = ["-"] * len(marks) if entry == REFERENCE else gaps(runs, base, marks)
            rows.append([f"{overlap:g}", entry, str(len(runs)), *(cell(runs, mark) for mark in marks.values()), *less])
    return table(["overlap", "method", "runs", *marks, *(f"{name}, minus {REFERENCE}'s" for name in marks)], rows) + "\n"
