"""How far the confidence of `consensus` is off on real data, and what the calibrations, label sets and decisions make of it.

    python -m benchmarks run calibration [SET ...]

Without gold: the models as they are, experience with other crowds, and votes of dependent annotators counted for less as well;
all judged on all gold. With gold: fitted to a random half of it and judged on the other, five times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.accuracy.real_data import SETS
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.estimator.outcome import Result
from crowdwise.trust.calibration import (
    ConformalSets,
    Dirichlet,
    EffectiveVotes,
    Isotonic,
    Temperature,
    select,
)
from crowdwise.trust.calibration.calibrating import calibrate
from crowdwise.trust.metrics import brier, ece, ece_interval, log_loss

BENCHMARK = Benchmark(
    "How far off is the confidence of the default, and what do calibration and label sets make of it?",
    sections=("calibration",),
    data=("labelled",),
    renders=("",),
    quick="dog",
    small={"SPLITS": 1},
)

RUNS = Records("calibration")
METHOD = "consensus"
SPLITS = 5
ALPHA = 0.1
RATES = (0.01, 0.05, 0.1)
# Large sets with cheap settings: fewer folds of the votes, fewer resamples.
LARGE = {"cifar10n", "ner_mturk"}
MEASURES: dict[str, Callable[[Any, Any], float]] = {"ECE": ece, "log-loss": log_loss, "Brier": brier}
FITS = {"temperature": Temperature.fit, "dirichlet": Dirichlet.fit, "isotonic": Isotonic.fit}
SCORES: dict[str, dict[str, Any]] = {"LAC": {}, "APS": {"score": "aps"}, "LAC by class": {"by_class": True}}


@RUNS.each
def measured(name: str) -> dict[str, Any]:
    """Everything about one set, as plain numbers."""
    votes, truth = labelled(name)
    truth = truth.astype(np.int64)
    result = crowdwise.make(METHOD).fit(votes).result_
    effective = EffectiveVotes.fit(result)
    posteriors = {
        "none": result.model_posterior,
        "experience": result.posterior,
        "groups": calibrate(result, "groups").result.posterior,
    }
    resamples = 100 if name in LARGE else 1000
    return {
        "n_gold": int((truth >= 0).sum()),
        "best": Temperature.fit(result.posterior, truth).value,
        "n_groups": effective.n_groups,
        "free": {
            way: {measure: of(q, truth) for measure, of in MEASURES.items()}
            | {"interval": ece_interval(q, truth, n_resamples=resamples)}
            for way, q in posteriors.items()
        },
        "accepted": {
            way: [chosen(result, q, truth, rate) for rate in RATES] for way, q in posteriors.items() if way != "groups"
        },
        "splits": [split(result, truth, seed) for seed in range(SPLITS)],
    }


def chosen(result: Result, q: np.ndarray, truth: np.ndarray, rate: float) -> list[float]:
    """Without gold: share accepted and error of the accepted where the truth is known, with the number of these."""
    accept = select(q.max(axis=1), rate).accept
    wrong = (q.argmax(axis=1) != truth)[accept & (truth >= 0)]
    return [float(accept.mean()), float(wrong.sum()), len(wrong)]


def split(result: Result, truth: np.ndarray, seed: int) -> dict[str, Any]:
    """Half of the gold to fit to, half to judge by."""
    rng = np.random.default_rng(seed)
    known = rng.permutation(np.flatnonzero(truth >= 0))
    half, rest = truth.copy(), known[len(known) // 2 :]
    half[rest] = -1
    q, z = result.posterior, truth[rest]
    maps = {way: fit(q, half).apply(q[rest]) for way, fit in FITS.items()}
    out: dict[str, Any] = {
        "gold": {way: {name: of(p, z) for name, of in MEASURES.items()} for way, p in ({"none": q[rest]} | maps).items()}
    }
    out["sets"] = {}
    for name, options in SCORES.items():
        held = ConformalSets.fit(q, half, ALPHA, **options).sets(q[rest])
        covered = held[np.arange(len(z)), z]
        classes = [covered[z == k].mean() for k in np.unique(z) if (z == k).sum() >= 20]
        out["sets"][name] = [float(covered.mean()), float(held.sum(axis=1).mean()), float(min(classes, default=np.nan))]
    wrong = np.where(half >= 0, q.argmax(axis=1) != half, -1)
    out["accepted"] = []
    for rate in RATES:
        accept = select(q.max(axis=1), rate, wrong).accept
        errors = (q.argmax(axis=1) != truth)[rest][accept[rest]]
        out["accepted"].append([float(accept.mean()), float(errors.sum()), len(errors)])
    return out


# -- the page ----------------------------------------------------------------------------------


def page(runs: dict[str, Any], names: list[str]) -> str:
    parts = (part(runs, names) for part in (free, gold, sets, accepted))
    return "\n".join([provenance("python -m benchmarks run calibration", RUNS), *parts])


def free(runs: dict[str, Any], names: list[str]) -> str:
    ways = ("none", "experience", "groups")
    rows = []
    for name in names:
        run = runs[name]
        low, high = zip(*(run["free"][way]["interval"] for way in ways[:2]), strict=True)
        rows.append(
            [f"{name} ({run['n_gold']:,} gold)", f"{run['best']:.2f}", str(run["n_groups"])]
            + [f"{run['free'][way]['ECE']:.3f} ({low[i]:.3f} to {high[i]:.3f})" for i, way in enumerate(ways[:2])]
            + [f"{run['free']['groups']['ECE']:.3f}"]
            + [f"{run['free'][way][measure]:.3f}" for measure in ("log-loss", "Brier") for way in ways]
        )
    means = [np.mean([runs[n]["free"][way][m] for n in names]) for m in MEASURES for way in ways]
    rows.append(["*mean*", "", "", *(f"{mean:.3f}" for mean in means)])
    header = ["set", "T of experience by all gold", "groups", *(f"{m}, {way}" for m in MEASURES for way in ways)]
    text = (
        f"\n**Without gold** ({METHOD}; `none` the model, `experience` the default, `groups` the same with votes of "
        "dependent annotators counted for less; judged on all gold; ECE with its 95% bootstrap interval).\n\n"
    )
    return text + table(header, rows)


def gold(runs: dict[str, Any], names: list[str]) -> str:
    ways = ("none", *FITS)
    parts = []
    for measure in MEASURES:
        rows = [[n, *(interval([s["gold"][w][measure] for s in runs[n]["splits"]], 1, 3) for w in ways)] for n in names]
        means = [np.mean([np.mean([s["gold"][w][measure] for s in runs[n]["splits"]]) for n in names]) for w in ways]
        rows.append(["*mean*", *(f"{mean:.3f}" for mean in means)])
        parts.append(f"\n*{measure}*\n\n" + table(["set", *ways], rows))
    text = (
        f"\n\n**With gold** (fitted to a random half, judged on the other; mean of {SPLITS} splits and the half width of its "
        "95% interval over splits, which share items).\n"
    )
    return text + "\n".join(parts)


def sets(runs: dict[str, Any], names: list[str]) -> str:
    rows = []
    for name in names:
        row = [name]
        for score in SCORES:
            values = np.array([s["sets"][score] for s in runs[name]["splits"]])
            worst = "" if score == "APS" else f", worst class {100 * values[:, 2].mean():.0f}"
            row.append(f"{interval(values[:, 0].tolist(), 100, 1)}{worst}; {values[:, 1].mean():.2f}")
        rows.append(row)
    means = [np.mean([np.mean([s["sets"][c][0] for s in runs[n]["splits"]]) for n in names]) for c in SCORES]
    rows.append(["*mean*", *(f"{100 * mean:.1f}" for mean in means)])
    text = (
        f"\n\n**Conformal label sets** at {100 * (1 - ALPHA):.0f}%: coverage in percent on the half of the gold that did not "
        "choose the threshold; then labels per set. Worst class: of those with 20 judged items at least.\n\n"
    )
    return text + table(["set", *SCORES], rows)


def accepted(runs: dict[str, Any], names: list[str]) -> str:
    rows = []
    totals: dict[tuple[str, int], list[bool]] = {}
    for name in names:
        row = [name]
        for place, rate in enumerate(RATES):
            for way in ("none", "experience"):
                share, errors, n = runs[name]["accepted"][way][place]
                row.append(f"{100 * share:.0f}: {_rate(errors, n)}")
                totals.setdefault((way, place), []).append(n > 0 and errors / n > rate)
            splits = np.array([s["accepted"][place] for s in runs[name]["splits"]])
            row.append(f"{100 * splits[:, 0].mean():.0f}: {_rate(splits[:, 1].sum(), splits[:, 2].sum())}")
            over = [n > 0 and errors / n > rate for _, errors, n in splits]
            totals.setdefault(("gold", place), []).extend(over)
        rows.append(row)
    ways = ("none", "experience", "gold")
    over = [totals[way, place] for place in range(len(RATES)) for way in ways]
    rows.append(["*above the rate*", *(f"{sum(flags)} of {len(flags)}" for flags in over)])
    header = ["set", *(f"{100 * rate:.0f}%, {way}" for rate in RATES for way in ways)]
    text = (
        "\n\n**Accepted without review** at a stated rate of errors: percent of the items accepted, then percent of wrong "
        "labels among the accepted where the truth is known. `none` believes the model, `experience` is the default; "
        "`gold` takes half of the gold to decide (risk 5%) and is judged on the other half, five times.\n\n"
    )
    return text + table(header, rows)


def _rate(errors: float, n: float) -> str:
    return f"{100 * errors / n:.1f}" if n else "-"


def main() -> None:
    names = sys.argv[1:] or SETS
    text = page({name: measured(name) for name in names}, names)
    if names == SETS:
        put("calibration", text)
    else:  # a part of a table is no table
        print(text)
