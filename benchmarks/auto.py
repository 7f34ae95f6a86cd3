"""The automatic choice on every labelled set: what it chose, how accurate it is, and what the best candidate would have been.

    python benchmarks/auto.py [SET ...]

Runs are kept in benchmarks/.runs/auto.json, so that an interrupted command goes on where it stopped; delete the file, or a set
in it, to measure anew. No fit sees a true label. The score was settled with the results of the 17 sets in view; the simulated
crowds were drawn afterwards, as the check that those sets can no longer be.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from page import SHARED, provenance, put, table
from real_data import SETS

import crowdwise
import crowdwise.data.simulate
import crowdwise.errors
import crowdwise.io
from crowdwise.data.gold import encode_gold
from crowdwise.trust.choice.candidates import CANDIDATES
from crowdwise.trust.metrics import accuracy

RUNS = Path(__file__).parent / ".runs" / "auto.json"
SEEDS = 3
# Ample, so that the choice does not depend on what else the machine does; the seconds taken are in the table.
SECONDS = 900
# Drawn after the candidates, the score and the rule had been settled.
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


def run(name: str) -> dict[str, object]:
    folder = SHARED / name
    votes = crowdwise.read(next(folder.glob("annotations.csv*"))).deduplicate()
    return measure(votes, encode_gold(votes, crowdwise.io.read_gold(folder / "truth.csv")))


def measure(votes: crowdwise.Annotations, truth: np.ndarray) -> dict[str, object]:
    started = perf_counter()
    model = crowdwise.Auto(seconds=SECONDS).fit(votes)
    seconds = perf_counter() - started
    stack = crowdwise.Auto(seconds=SECONDS, stack=True).fit(votes)
    return {
        "chosen": model.chosen_,
        "reason": model.reason_,
        "seconds": seconds,
        "auto": accuracy(model.posterior_, truth),
        "stack": accuracy(stack.posterior_, truth),
        "weights": stack.weights_,
        "alone": {method: accuracy(crowdwise.make(method).fit(votes).posterior_, truth) for method in CANDIDATES},
        "choice": model.choice_.to_dicts(),
    }


def simulated(label: str) -> dict[str, object]:
    """The same as `run`, averaged over seeds; every choice is kept."""
    found = []
    for seed in range(SEEDS):
        drawn = crowdwise.simulate.simulate(**({"n_items": 1000} | CROWDS[label]), random_state=seed)
        found.append(measure(drawn.votes, drawn.truth))
    mean = {key: float(np.mean([one[key] for one in found])) for key in ("auto", "stack", "seconds")}
    alone = {method: float(np.mean([one["alone"][method] for one in found])) for method in CANDIDATES}
    return mean | {"alone": alone, "chosen": ", ".join(dict.fromkeys(one["chosen"] for one in found))}


def main() -> None:
    real = [name for name in sys.argv[1:] if name in SETS] or (SETS if not sys.argv[1:] else [])
    drawn = [name for name in sys.argv[1:] if name in CROWDS] or (list(CROWDS) if not sys.argv[1:] else [])
    runs = json.loads(RUNS.read_text()) if RUNS.exists() else {}
    for name in [*real, *drawn]:
        if name not in runs:
            runs[name] = run(name) if name in SETS else simulated(name)
            RUNS.parent.mkdir(exist_ok=True)
            RUNS.write_text(json.dumps(runs))
            print(name, {key: runs[name][key] for key in ("chosen", "auto", "stack", "alone", "seconds")}, flush=True)
    about = (
        f"Accuracy in percent; candidates: {', '.join(CANDIDATES)}. *Best alone* is the candidate that turns out best in "
        "that row with the truth at hand; in the last row, the one that is best on average. *auto - best* of the last row is "
        "the mean of those above it. The stack is `stack=True`. "
        f"No candidate was skipped: the budget was {SECONDS} s, where the default is 60.\n"
    )
    parts = [provenance("python benchmarks/auto.py"), about]
    for title, names in (("real sets", SETS), (f"simulated crowds, {SEEDS} seeds each", list(CROWDS))):
        done = [name for name in names if name in runs]
        if done:
            parts += [f"**{len(done)} {title}.** {summary(runs, done)}\n", body(runs, done), ""]
    put("auto", "\n".join(parts))


def means(runs: dict, names: list[str]) -> dict[str, float]:
    return {method: float(np.mean([runs[name]["alone"][method] for name in names])) for method in CANDIDATES}


def summary(runs: dict, names: list[str]) -> str:
    alone = means(runs, names)
    first = max(alone, key=lambda method: alone[method])
    said = []
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
             f"{100 * (found['auto'] - alone['majority']):+.1f}", f"{100 * found['stack']:.1f}", f"{found['seconds']:.1f}"]
        )  # fmt: skip
    alone = means(runs, names)
    first = max(alone, key=lambda method: alone[method])
    auto, stack, seconds = (float(np.mean([runs[name][key] for name in names])) for key in ("auto", "stack", "seconds"))
    behind = float(np.mean([runs[name]["auto"] - max(runs[name]["alone"].values()) for name in names]))
    rows.append(
        ["*mean*", "", f"{100 * auto:.2f}", f"{100 * alone['majority']:.2f}", f"{first} {100 * alone[first]:.2f}",
         f"{100 * behind:+.2f}", f"{100 * (auto - alone['majority']):+.2f}", f"{100 * stack:.2f}", f"{seconds:.1f}"]
    )  # fmt: skip
    head = ["votes", "chosen", "auto", "majority", "best alone", "auto - best", "auto - majority", "stack", "seconds"]
    return table(head, rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    main()
