"""The automatic choice on every labelled set: what it chose, how accurate it is, and what the best candidate would have been.

    python -m benchmarks run auto [SET ...]

Fits are kept in benchmarks/.runs/auto, one file per set and candidate (class probabilities in single precision), so that an
interrupted command resumes where it stopped and another score is measured in minutes; delete a file to fit again. The choice
is made of them by the functions that `auto` consists of. No fit sees a true label.
"""

from __future__ import annotations

import re
import sys

import numpy as np

import crowdwise
import crowdwise.data.simulate
import crowdwise.errors
import crowdwise.io
from benchmarks.accuracy.real_data import SETS
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import KEPT, Records
from crowdwise.kernels.numerics import generator
from crowdwise.trust.choice.candidates import CANDIDATES, rank_of
from crowdwise.trust.choice.decision import decide
from crowdwise.trust.choice.operations import keep_affordable, operations_of
from crowdwise.trust.choice.scoring import HeldOut, tempered_score
from crowdwise.trust.choice.selection import Row
from crowdwise.trust.choice.trial import try_all
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "How close does the automatic choice come to the best label method of every set?",
    sections=("auto",),
    data=("labelled",),
    renders=("",),
    quick="dog",
)

FITS, RUNS = KEPT / "auto", Records("auto")
SEEDS = 3
FOLDS = 5
CROWDS: dict[str, dict[str, object]] = {
    "one-coin": {"annotators": "one-coin"},
    "two-coin, K=2": {"annotators": "two-coin", "n_classes": 2},
    "dirichlet": {"annotators": "dirichlet"},
    "dirichlet, K=6, 10 votes": {"annotators": "dirichlet", "n_classes": 6, "votes_per_item": 10},
    "dirichlet, 2 to 3 votes": {"annotators": "dirichlet", "votes_per_item": (2, 3)},
    "dirichlet, rare classes": {"annotators": "dirichlet", "class_prior": [0.8, 0.15, 0.05]},
    "hammer-spammer": {"annotators": "hammer-spammer"},
    "constant spammers, 40%": {"annotators": {"one-coin": 0.6, "constant-spammer": 0.4}},
    "adversaries, 25%": {"annotators": {"one-coin": 0.75, "cyclic-adversary": 0.25}},
    "colluders, 20%": {"annotators": {"one-coin": 0.8, "colluder": 0.2}},
    "hard items": {"annotators": "one-coin", "difficulty": 1.0},
    "400 annotators": {"annotators": "dirichlet", "n_annotators": 400, "activity": "power-law"},
}


def drawn_or_read(name: str) -> tuple[crowdwise.Annotations, np.ndarray]:
    """Votes and true labels of a set, or of a crowd such as "dirichlet#2": its second seed."""
    label, _, seed = name.partition("#")
    if label in CROWDS:
        drawn = crowdwise.simulate.simulate(**({"n_items": 1000} | CROWDS[label]), random_state=int(seed))
        return drawn.votes, drawn.truth
    return labelled(name)


def fitted(name: str, method: str, votes: crowdwise.Annotations, held: HeldOut) -> dict[str, np.ndarray]:
    """Class probabilities of the items of held-out votes, [H, K], and of all items, [N, K]: kept, or fitted now."""
    file = FITS / f"{re.sub('[ ]', '_', re.sub('[,%]', '', name))}@{method}.npz"
    if not file.exists():
        whole = crowdwise.make(method).fit(votes).result_.model_posterior
        shares = np.zeros((len(held.terms.item), votes.n_classes), np.float32)
        for number in range(FOLDS):
            part = crowdwise.make(method).fit(held.part(number)).result_
            own = held.terms.fold == number
            shares[own] = part.model_posterior[held.terms.item[own]]
        FITS.mkdir(parents=True, exist_ok=True)
        np.savez(file, shares=shares, post=whole.astype(np.float32))
    return dict(np.load(file))


@RUNS.each
def measure(name: str, standard_errors: float = 1.0) -> dict[str, object]:
    votes, truth = drawn_or_read(name)
    # The folds of `auto` with its default seed.
    held = HeldOut(votes, FOLDS, int(generator(0).integers(2**31)))
    rows = [Row(method, rank_of(method, votes.n_classes)) for method in CANDIDATES]
    needed = {row.method: FOLDS * operations_of(row.method, votes) for row in rows}
    keep_affordable(rows, needed, crowdwise.Auto().operations)
    runs = {row.method: fitted(name, row.method, votes, held) for row in rows if row.eligible}
    try_all(rows, lambda method, number: runs[method]["shares"][held.terms.fold == number], held.terms, tempered_score)
    decision, stack = (decide(rows, held.terms.item, standard_errors=standard_errors, stack=stack) for stack in (False, True))
    return {
        "chosen": decision.chosen,
        "auto": accuracy(runs[decision.chosen]["post"], truth),
        "stack": accuracy(np.sum([weight * runs[method]["post"] for method, weight in stack.weights.items()], axis=0), truth),
        "alone": {method: accuracy(run["post"], truth) for method, run in runs.items()},
        "operations": sum(needed[method] for method in runs),
    }


def simulated(label: str) -> dict[str, object]:
    """The same as `measure`, averaged over seeds; every choice is kept."""
    found = [measure(f"{label}#{seed}") for seed in range(SEEDS)]
    mean = {key: float(np.mean([one[key] for one in found])) for key in ("auto", "stack", "operations")}
    alone = {method: float(np.mean([one["alone"][method] for one in found])) for method in found[0]["alone"]}
    return mean | {"alone": alone, "chosen": ", ".join(dict.fromkeys(one["chosen"] for one in found))}


def main() -> None:
    asked = sys.argv[1:] or [*SETS, *CROWDS]
    runs = {}
    for name in asked:
        runs[name] = simulated(name) if name in CROWDS else measure(name)
        print(name, runs[name], flush=True)
    if sys.argv[1:]:
        return
    about = (
        f"Accuracy in percent; candidates: {', '.join(CANDIDATES)}, as far as the default budget of operations allows (`ebcc` "
        f"is skipped on {', '.join(name for name in runs if 'ebcc' not in runs[name]['alone'])}). *Best alone* is the "
        "candidate that turns out best in that row judged by the truth; in the last row, the one that is best on average. "
        "*auto - best* of the last row is the mean of those above it. The stack is `stack=True`.\n"
    )
    parts = [provenance("python -m benchmarks run auto", RUNS), about]
    for title, names in (("real sets", SETS), (f"simulated crowds, {SEEDS} seeds each", list(CROWDS))):
        parts += [f"**{len(names)} {title}.** {summary(runs, names)}\n", body(runs, names), ""]
    put("auto", "\n".join(parts))


def means(runs: dict, names: list[str]) -> dict[str, float]:
    """Of the candidates that were affordable everywhere."""
    everywhere = [method for method in CANDIDATES if all(method in runs[name]["alone"] for name in names)]
    return {method: float(np.mean([runs[name]["alone"][method] for name in names])) for method in everywhere}


def summary(runs: dict, names: list[str]) -> str:
    alone = means(runs, names)
    first = max(alone, key=lambda method: alone[method])
    said = ["alone, on average: " + ", ".join(f"{method} {100 * mean:.2f}" for method, mean in alone.items())]
    for key in ("auto", "stack"):
        mean = float(np.mean([runs[name][key] for name in names]))
        behind = np.mean([max(runs[name]["alone"].values()) - runs[name][key] for name in names])
        least = min((runs[name][key] - runs[name]["alone"]["majority"], name) for name in names)
        said.append(
            f"{key}: {100 * (mean - alone[first]):+.2f} points beside the best single candidate on average ({first}), "
            f"{-100 * behind:+.2f} beside the best of every row, and at worst {100 * least[0]:+.1f} beside majority vote "
            f"({least[1]})"
        )
    return "; ".join(said) + "."


def body(runs: dict, names: list[str]) -> str:
    rows = []
    for name in names:
        found, alone = runs[name], runs[name]["alone"]
        best = max(alone, key=alone.get)
        rows.append(
            [name, found["chosen"], f"{100 * found['auto']:.1f}", f"{100 * alone['majority']:.1f}",
             f"{best} {100 * alone[best]:.1f}", f"{100 * (found['auto'] - alone[best]):+.1f}",
             f"{100 * (found['auto'] - alone['majority']):+.1f}", f"{100 * found['stack']:.1f}", f"{found['operations']:.1e}"]
        )  # fmt: skip
    alone = means(runs, names)
    first = max(alone, key=lambda method: alone[method])
    auto, stack, operations = (float(np.mean([runs[name][key] for name in names])) for key in ("auto", "stack", "operations"))
    behind = float(np.mean([runs[name]["auto"] - max(runs[name]["alone"].values()) for name in names]))
    rows.append(
        ["*mean*", "", f"{100 * auto:.2f}", f"{100 * alone['majority']:.2f}", f"{first} {100 * alone[first]:.2f}",
         f"{100 * behind:+.2f}", f"{100 * (auto - alone['majority']):+.2f}", f"{100 * stack:.2f}", f"{operations:.1e}"]
    )  # fmt: skip
    head = ["votes", "chosen", "auto", "majority", "best alone", "auto - best", "auto - majority", "stack", "operations"]
    return table(head, rows)
