"""Belief propagation beside mean field under a wrong prior of annotators and extreme spammers.

    python -m benchmarks run belief_propagation            # 50 seeds, written to its page
    python -m benchmarks run belief_propagation --seeds 5

The inference experiments of Kim et al. (2022), Robust deep learning from crowds with belief propagation,
without features: 1,000 items, 750 annotators, 3 votes per item and 4 per annotator, accuracies from
Beta(2, 1); extreme spammers answer every item at random. Models assume Beta(2, a2).
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "Is belief propagation better than mean field under a wrong prior and spammers?",
    sections=("belief propagation",),
    renders=("",),
    quick="--seeds 1",
)

RUNS = Records("belief_propagation")
N_ITEMS, PER_ITEM, PER_ANNOTATOR = 1000, 3, 4
METHODS = ("majority", "kos", "mean-field", "belief-propagation")
# name, Beta of the truth, spammers, Beta of the model
SETTINGS = [
    ("true prior", (2.0, 1.0), 0, (2.0, 1.0)),
    ("true prior, hammers and adversaries", (0.2, 0.1), 0, (0.2, 0.1)),
    *((f"one spammer, model Beta(2, {wrong:g})", (2.0, 1.0), 1, (2.0, wrong)) for wrong in (0.8, 1.0, 1.2, 1.4, 1.6)),
    *((f"{n} spammers, model Beta(2, 1.4)", (2.0, 1.0), n, (2.0, 1.4)) for n in (2, 3)),
]


def draw(seed: int, truth_prior: tuple[float, float], n_spammers: int) -> tuple[crowdwise.Annotations, np.ndarray]:
    """Votes on a random regular graph (redrawn where an annotator would meet an item twice) and the truth."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(N_ITEMS), PER_ITEM)
    n_annotators = N_ITEMS * PER_ITEM // PER_ANNOTATOR
    annotator = rng.permutation(np.repeat(np.arange(n_annotators), PER_ANNOTATOR))
    while True:
        key = item * n_annotators + annotator
        _, first = np.unique(key, return_index=True)
        twice = np.setdiff1d(np.arange(len(key)), first)
        if len(twice) == 0:
            break
        for e in twice:
            other = rng.integers(len(key))
            annotator[[e, other]] = annotator[[other, e]]
    truth = rng.integers(0, 2, N_ITEMS)
    accuracy = np.append(rng.beta(*truth_prior, n_annotators), np.full(n_spammers, 0.5))
    item = np.concatenate([item, np.tile(np.arange(N_ITEMS), n_spammers)])
    annotator = np.concatenate([annotator, n_annotators + np.repeat(np.arange(n_spammers), N_ITEMS)])
    right = rng.random(len(item)) < accuracy[annotator]
    label = np.where(right, truth[item], 1 - truth[item])
    return crowdwise.Annotations.from_arrays(item, annotator, label, items=range(N_ITEMS), classes=[0, 1]), truth


@RUNS.each
def accuracies(seed: int, truth_prior: tuple[float, float], n_spammers: int, model: tuple[float, float]) -> list[float]:
    right, wrong = model
    votes, truth = draw(seed, truth_prior, n_spammers)
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    found = []
    for name in METHODS:
        made = crowdwise.make(name)
        if "annotator_prior" in made.get_params():
            made.set_params(annotator_prior=f"beta:{right},{wrong}")
        q = made.fit(votes).posterior_
        # A tie counts as half: the paper's accuracy is that of a fair coin there.
        found.append(float(np.mean(np.where(np.abs(q[:, 0] - 0.5) < 1e-9, 0.5, q.argmax(axis=1) == truth))))
    return found


def interval(values: np.ndarray) -> str:
    """Mean, its 99 % interval (normal) and the worst seed, in percent."""
    half = 2.576 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{100 * values.mean():.1f} ± {100 * half:.1f} ({100 * values.min():.1f})"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=50)
    given = options.parse_args()
    rows = []
    for name, *setting in SETTINGS:
        found = np.array([accuracies(seed, *setting) for seed in range(given.seeds)])
        gain = found[:, METHODS.index("belief-propagation")] - found[:, METHODS.index("mean-field")]
        half = 2.576 * gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else float("nan")
        rows.append([name, *(interval(column) for column in found.T), f"{100 * gain.mean():+.1f} ± {100 * half:.1f}"])
        print(*rows[-1], sep=" | ", flush=True)
    text = [
        provenance(f"python -m benchmarks run belief_propagation --seeds {given.seeds}", RUNS),
        "\nThe inference settings of Kim et al. (2022) without features: 1,000 items, 750 annotators, 3 votes per item, 4 per "
        "annotator, accuracies from Beta(2, 1) unless said otherwise; a spammer answers all items at random. Accuracy in "
        f"percent: mean over {given.seeds} seeds with its 99 % interval, and the worst seed in brackets; the last column is "
        "the paired difference.\n",
        table(["setting", *METHODS, "belief propagation - mean field"], rows),
    ]
    put("belief propagation", "\n".join(text))
