"""Figure 5 of Kim et al. (2022), robustness on recorded votes, with sentences in place of faces.

    python -m benchmarks run deep_recorded [--seeds N]

The paper's votes on 500 faces cannot be had. In their place stand those on 500 sentences of films by 203 people, four of each
as in the paper; sentences without a vote are left out. Noise in the features stands for blur; extreme spammers answer all
sentences at random. Priors are the paper's: Beta(1, 0.5) under noise, Beta(2, 1.3) under spammers.
"""

from __future__ import annotations

import argparse
from functools import cache

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import FeatureSet, sentence_polarity
from benchmarks.page import interval, provenance, put, table
from benchmarks.papers.deep_robustness import DEEP, GOLD, LABEL_ONLY, Setting, build
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Is deepBP robust on recorded votes, against noise in features and extreme spammers?",
    sections=("deep recorded",),
    data=("sentence_polarity",),
    packages=("torch",),
    renders=("",),
    quick="--seeds 1",
    small={"N_ITEMS": 30, "NOISES": (0.0,), "SPAMMERS": (1,), "METHODS": ("majority", "deep-bp")},
)

RUNS = Records("deep_recorded")
N_ITEMS, PER_ANNOTATOR = 500, 4
# In standard deviations of a feature; extreme spammers.
NOISES, SPAMMERS = (0.0, 0.5, 1.0, 2.0), (0, 1, 2, 4)
METHODS = (*LABEL_ONLY, *(method for method in DEEP if "," not in method))


@cache
def sentences() -> FeatureSet:
    return sentence_polarity(0)


def draw(noise: float, spammers: int, seed: int) -> FeatureSet:
    """Sentences that somebody has voted on after votes are thinned; with the same seed, nothing else differs."""
    whole, rng = sentences(), np.random.default_rng(seed)
    part = whole.votes[np.sort(rng.permutation(whole.votes.n_items)[:N_ITEMS])]
    order = rng.permutation(part.n_votes)
    annotator = part.annotator[order]
    by = np.argsort(annotator, kind="stable")
    first = np.searchsorted(annotator[by], annotator[by])
    kept = order[by[np.arange(len(by)) - first < PER_ANNOTATOR]]
    item, who, label = part.item[kept], part.annotator[kept], part.label[kept]
    voted = np.unique(item)
    item = np.searchsorted(voted, item)
    for number in range(spammers):
        item = np.append(item, np.arange(len(voted)))
        who = np.append(who, np.full(len(voted), part.n_annotators + number))
        label = np.append(label, rng.integers(2, size=len(voted)))
    votes = Annotations.from_arrays(item, who, label, classes=[0, 1])
    place = np.array(part.items)[voted].astype(int)
    known = np.searchsorted(np.array(whole.votes.items).astype(int), place)
    spread, draws = whole.X.std(axis=0), np.random.default_rng([seed, 1])

    def noisy(X: np.ndarray) -> np.ndarray:
        return (X + noise * spread * draws.standard_normal(X.shape)).astype(np.float32)

    return FeatureSet(noisy(whole.X[known]), votes, whole.truth[known], noisy(whole.X_test), whole.truth_test)


@RUNS.each
def run(method: str, noise: float, spammers: int, prior: list[float], seed: int) -> dict[str, float]:
    data = draw(noise, spammers, seed)
    model = build(method, Setting((2, 1), (prior[0], prior[1])), seed)
    if method in LABEL_ONLY:
        return {"labels": accuracy(model.fit(data.votes).posterior_, data.truth)}
    model.fit(data.X, data.votes.classes[data.truth] if method == GOLD else data.votes)
    found = {"test": accuracy(model.predict_proba(data.X_test), data.truth_test)}
    return found if method == GOLD else found | {"labels": accuracy(model.posterior_, data.truth)}


@RUNS.each
def size(seed: int) -> list[int]:
    """Sentences and votes."""
    votes = draw(0.0, 0, seed).votes
    return [votes.n_items, votes.n_votes]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=5)
    seeds = range(options.parse_args().seeds)
    studies = {
        "noise": [(noise, 0, [1, 0.5]) for noise in NOISES],
        "extreme spammers": [(0.0, spammers, [2, 1.3]) for spammers in SPAMMERS],
    }

    def shown(study: str, score: str) -> str:
        rows = []
        for method in (*METHODS, GOLD):
            if (score == "labels" and method == GOLD) or (score == "test" and method in LABEL_ONLY):
                continue
            # True labels know neither votes nor prior.
            settings = [(noise, 0, [2, 1]) if method == GOLD else (noise, n, prior) for noise, n, prior in studies[study]]
            rows.append([method, *(interval([run(method, *s, k)[score] for k in seeds], 100, 1) for s in settings)])
        return table(["method", *(f"{study} {noise or n:g}" for noise, n, _ in studies[study])], rows)

    sizes = np.mean([size(seed) for seed in seeds], axis=0)
    parts = [
        provenance(f"python -m benchmarks run deep_recorded --seeds {len(seeds)}", RUNS)
        + f"\nSentence polarity: {sizes[0]:.0f} sentences and {sizes[1]:.0f} votes, at most {PER_ANNOTATOR} of each annotator; "
        "new sentences are the set's test part. Accuracy in percent, mean ± half width of the 95% interval over "
        f"{len(seeds)} seeds.",
    ]
    for study in studies:
        parts += [f"**{study}: labels**", shown(study, "labels"), f"**{study}: new sentences**", shown(study, "test")]
    put("deep recorded", "\n\n".join(parts))


if __name__ == "__main__":
    main()
