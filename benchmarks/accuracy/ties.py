"""How ties of the majority vote are broken: at random, by class shares (the rule), by those who agree more, or by a model.

python -m benchmarks run ties [SET ...]
"""

from __future__ import annotations

import sys

import numpy as np

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise import Annotations

BENCHMARK = Benchmark(
    "How should ties of the majority vote be broken?",
    sections=("ties",),
    data=("labelled",),
    renders=("",),
    quick="dog",
    small={"SEEDS": 1},
)

RUNS = Records("ties")

SETS = [
    "adult", "bluebird", "cf", "cf_amt", "cifar10n", "dog", "labelme", "possent", "product", "rte", "sentence_polarity",
    "sp_amt", "temp", "web", "wsd",
]  # fmt: skip
SEEDS, FEW = 5, 2


def main() -> None:
    names = sys.argv[1:] or SETS
    parts = []
    for few in (True, False):
        what = f"{FEW} votes per item, drawn at random, {SEEDS} seeds" if few else "All votes"
        parts.append(f"\n**{what}**: percent of items with a tie, then percent of right labels.\n")
        rows, means = [], []
        for name in names:
            found = [measured(name, seed) for seed in (range(SEEDS) if few else (None,))]
            rows.append([name, *(interval([row[c] for row in found], 100, 1) for c in found[0])])
            means.append([np.mean([row[c] for row in found]) for c in found[0]])
        rows.append(["*mean*", *(f"{100 * value:.1f}" for value in np.mean(means, axis=0))])
        parts.append(table(["set", *found[0]], rows))
    if names == SETS:  # a part of a table is no table
        put("ties", "\n".join([provenance("python -m benchmarks run ties", RUNS), *parts]))


@RUNS.each
def measured(name: str, seed: int | None) -> dict[str, float]:
    """On all votes, or on few of every item."""
    votes, truth = labelled(name)
    return scores(votes if seed is None else thinned(votes, seed), truth)


def thinned(votes: Annotations, seed: int) -> Annotations:
    """So many votes of every item, drawn at random."""
    order = np.lexsort((np.random.default_rng(seed).random(votes.n_votes), votes.item))
    place = np.empty(votes.n_votes, np.int64)
    place[order] = np.arange(votes.n_votes) - votes.item_ptr[:-1][votes.item[order]]
    return votes.take_votes(place < FEW)


def scores(votes: Annotations, truth: np.ndarray) -> dict[str, float]:
    """Share of ties, and of right labels by every rule."""
    every = np.arange(votes.n_items)
    counts = np.zeros((votes.n_items, votes.n_classes))
    np.add.at(counts, (votes.item, votes.label), 1)
    tied = counts >= counts.max(axis=1, keepdims=True)
    known = (truth >= 0) & (counts.sum(axis=1) > 0)
    right = {"at random": tied[every, truth] / tied.sum(axis=1)}
    right["class shares"] = crowdwise.MajorityVote().fit(votes).result_.codes == truth
    heard = np.zeros_like(counts)
    np.add.at(heard, (votes.item, votes.label), agreement(votes, counts)[votes.annotator])
    right["who agrees more"] = np.where(tied, heard, -1).argmax(axis=1) == truth
    for method in ("wawa", "consensus"):
        right[method] = crowdwise.make(method).fit(votes).result_.codes == truth
    return {"ties": float((tied.sum(axis=1) > 1)[known].mean())} | {
        name: float(hit[known].mean()) for name, hit in right.items()
    }


def agreement(votes: Annotations, counts: np.ndarray) -> np.ndarray:
    """How often an annotator's votes are what most of the others say (ties split), with one vote like all, [A]."""
    rows = np.arange(votes.n_votes)
    others = counts[votes.item]
    others[rows, votes.label] -= 1
    leading = others >= others.max(axis=1, keepdims=True)
    met = others.sum(axis=1) > 0
    share = (leading[rows, votes.label] / leading.sum(axis=1))[met]
    agreed, n = (np.bincount(votes.annotator[met], weight, votes.n_annotators) for weight in (share, None))
    return (agreed + share.mean()) / (n + 1)
