"""How the error of fused labels falls with the number of annotators, the first theorem of the tutorial (Ibrahim et al. 2025).

    python -m benchmarks run fusion_error [--seeds N]

The best fusion knows all confusion matrices and class shares; its error is at most alpha exp(-beta M) for M annotators.
"""

from __future__ import annotations

import argparse

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Does the error of fused labels fall exponentially with the number of annotators?",
    sections=("fusion error",),
    renders=("",),
    quick="--seeds 1",
    small={"SIZES": (2, 4), "N_ITEMS": 200},
)

RUNS = Records("fusion_error")
SIZES = (5, 10, 15, 20, 25, 30)
N_ITEMS, N_CLASSES = 20_000, 4
# Annotators are right as often as in the sweeps of spammers, as far as these are honest.
RIGHT = (0.4, 0.7)


@RUNS.each
def errors(n_annotators: int, seed: int) -> dict[str, float]:
    """Share of wrong labels by method; the crowd of a seed is drawn once, and more annotators join it."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(N_CLASSES, size=N_ITEMS)
    right = rng.uniform(*RIGHT, size=(max(SIZES), 1, 1))[:n_annotators]
    wrong = (1 - right) / (N_CLASSES - 1)
    confusion = wrong + (right - wrong) * np.eye(N_CLASSES)
    drawn = [(rng.random((N_ITEMS, 1)) > own[truth].cumsum(axis=1)[:, :-1]).sum(axis=1) for own in confusion]
    votes = crowdwise.Annotations.from_matrix(np.column_stack(drawn), annotators=range(n_annotators), classes=range(N_CLASSES))
    score = np.zeros((N_ITEMS, N_CLASSES))
    np.add.at(score, votes.item, np.log(confusion[votes.annotator, :, votes.label]))
    found = {"best fusion": float((score.argmax(axis=1) != truth).mean())}
    return found | {m: 1 - accuracy(crowdwise.make(m).fit(votes).posterior_, truth) for m in ("dawid-skene", "majority")}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=10)
    seeds = range(options.parse_args().seeds)
    runs = {m: [errors(m, seed) for seed in seeds] for m in SIZES}
    methods = list(runs[SIZES[0]][0])
    rows = [[str(m), *(interval([one[method] for one in runs[m]], 100, 2) for method in methods)] for m in SIZES]
    # The slope of log error, from the fewest to the most annotators.
    slopes = []
    for method in methods:
        first, last = (np.mean([one[method] for one in runs[m]]) for m in (SIZES[0], SIZES[-1]))
        slopes.append(f"{np.log(first / last) / (SIZES[-1] - SIZES[0]):.3f} ({method})")
    about = (
        f"\nWrong labels in percent; {N_ITEMS:,} items, {N_CLASSES} classes, annotators right in {RIGHT[0]:g} to {RIGHT[1]:g} "
        f"of their votes, everybody votes on everything; {len(seeds)} seeds, mean ± half width of the 95% interval. Best "
        "fusion knows the matrices.\n\n"
    )
    text = table(["annotators", *methods], rows) + f"\n\nβ, the fall of log error per annotator: {', '.join(slopes)}."
    put("fusion error", provenance(f"python -m benchmarks run fusion_error --seeds {len(seeds)}", RUNS) + about + text)
