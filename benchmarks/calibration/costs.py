"""What labels that are expected to cost least cost in truth, with and without items left unlabelled, beside the most probable.

    python -m benchmarks run costs

Costs of mistakes are drawn, 10 times for every set: from one to ten times the cheapest, alike on the scale of logarithms. They
are scaled so that a mistake costs 1 on average, and no label costs a fifth of that. No fit sees a true label.
"""

from __future__ import annotations

import warnings

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.estimator.costs import Costs

BENCHMARK = Benchmark(
    "Do labels that are expected to cost least cost less?",
    sections=("costs",),
    data=("labelled",),
    renders=("",),
    small={"SETS": ["dog"], "SEEDS": 2},
)

RUNS = Records("costs")
SETS = [
    "adult", "bluebird", "cf", "cf_amt", "cifar10n", "convarg_pairs", "dog", "labelme", "possent", "product", "rte",
    "sentence_polarity", "sp_amt", "temp", "web", "wsd",
]  # fmt: skip
METHODS = ("majority", "dawid-skene", "consensus")
SEEDS, DEAREST, ABSTAIN = 10, 10.0, 0.2


def main() -> None:
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    parts = []
    for method in METHODS:
        runs = {name: measured(name, method, SEEDS) for name in SETS}
        means = {column: [np.mean(run[column]) for run in runs.values()] for column in runs[SETS[0]]}
        rows = [row(name, run) for name, run in runs.items()]
        if len(SETS) > 1:
            rows.append(row("*mean of the sets*", means))
        header = ["set", "most probable", "least expected cost", "saved", "as expected", "no label, %", "then", "saved"]
        parts.append(f"\n**{method}**\n\n{table(header, rows)}\n")
    about = (
        f"\nCost per 100 items, where a mistake costs 1 on average and the dearest up to {DEAREST:.0f} times the cheapest; "
        f"{SEEDS} draws of such costs per set, ± half a 95% interval over draws (of the mean: over sets). *As expected*: what "
        f"the posterior says that the cheapest labels cost. With no label at {ABSTAIN}: share of items left without one, what "
        "all items then cost, and what that saves beside the most probable labels.\n"
    )
    put("costs", provenance("python -m benchmarks run costs", RUNS) + about + "".join(parts))


def row(name: str, run: dict[str, list[float]]) -> list[str]:
    """Costs of the three decisions, and what the last two save."""
    plain = np.array(run["plain"])
    saved = [plain - np.array(run[way]) for way in ("cheapest", "abstaining")]
    cells = [plain, run["cheapest"], saved[0], run["expected"], run["unlabelled"], run["abstaining"], saved[1]]
    return [name, *(interval(cell, 100, 1) for cell in cells)]


@RUNS.each
def measured(name: str, method: str, seeds: int) -> dict[str, list[float]]:
    """By draw of costs: those of the most probable labels, of the cheapest (in truth, as expected), and with items left out."""
    votes, truth = labelled(name)
    result = crowdwise.make(method).fit(votes).result_
    known = (truth >= 0) & (votes.votes_per_item > 0)
    found: dict[str, list[float]] = {key: [] for key in ("plain", "cheapest", "expected", "unlabelled", "abstaining")}
    for seed in range(seeds):
        matrix = drawn(votes.n_classes, np.random.default_rng(seed))
        codes, expected = Costs.of(matrix, votes.classes).decide(result.posterior[known])
        left, _ = Costs.of(matrix, votes.classes, ABSTAIN).decide(result.posterior[known])
        found["plain"].append(float(matrix[truth[known], result.codes[known]].mean()))
        found["cheapest"].append(float(matrix[truth[known], codes].mean()))
        found["expected"].append(float(expected.mean()))
        found["unlabelled"].append(float((left < 0).mean()))
        found["abstaining"].append(float(np.where(left < 0, ABSTAIN, matrix[truth[known], left]).mean()))
    return found


def drawn(n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Costs of mistakes, 1 on average."""
    matrix = np.exp(rng.uniform(0, np.log(DEAREST), size=(n_classes, n_classes)))
    np.fill_diagonal(matrix, 0)
    return matrix * n_classes * (n_classes - 1) / matrix.sum()
