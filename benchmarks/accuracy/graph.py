"""graph-dawid-skene: labels that are smooth on a graph, edges that mean nothing, some in between, and a million edges.

    python -m benchmarks run graph

Two votes per item by 20 annotators, right in 40 to 80 % of cases, three classes, a grid of 60 x 60 items, five seeds. The
processor time of a million edges is that of one core; iterations are counted, because time depends on the machine.
"""

from __future__ import annotations

import os
import warnings
from time import process_time
from typing import Any

os.environ.setdefault("CROWDWISE_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise import Annotations, GraphDawidSkene, make, nearest_edges
from crowdwise.errors import CrowdwiseWarning

BENCHMARK = Benchmark(
    "Do labels get better where neighbours on a graph tend to agree?",
    sections=("graph",),
    renders=("",),
    small={"SEEDS": [0], "SIDE": 8},
    leaves_out=("a_million_edges",),
)

SEEDS, SIDE, CLASSES, ANNOTATORS = range(5), 60, 3, 20
METHODS = ("majority", "dawid-skene", "consensus")
RUNS = Records("graph")


def grid(side: int) -> NDArray[Any]:
    """Neighbours to the right and below, [E, 2]."""
    place = np.arange(side * side).reshape(side, side)
    ends = [(place[:, :-1], place[:, 1:]), (place[:-1], place[1:])]
    return np.concatenate([np.stack([first.ravel(), second.ravel()], axis=1) for first, second in ends])


def smooth(side: int, rng: np.random.Generator) -> NDArray[Any]:
    """Classes in large patches: the highest of three smooth random surfaces."""
    row, column = np.indices((side, side)) / side
    surface = np.zeros((CLASSES, side, side))
    for wave in surface:
        for _ in range(6):
            across, down, phase = rng.normal(0, 1.5), rng.normal(0, 1.5), rng.uniform(0, 2 * np.pi)
            wave += np.cos(2 * np.pi * (across * row + down * column) + phase)
    return surface.argmax(axis=0).ravel()


def potts(side: int, coupling: float, rng: np.random.Generator, rounds: int = 200) -> NDArray[Any]:
    """Classes drawn from a Potts field by Gibbs sampling."""
    row, column = np.indices((side, side))
    field = rng.integers(0, CLASSES, (side, side))
    for turn in range(2 * rounds):
        alike = np.zeros((side, side, CLASSES))
        for k in range(CLASSES):
            padded = np.pad((field == k).astype(float), 1)
            alike[..., k] = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        drawn = (coupling * alike + rng.gumbel(size=alike.shape)).argmax(axis=2)
        field = np.where((row + column) % 2 == turn % 2, drawn, field)
    return field.ravel()


def votes_on(truth: NDArray[Any], rng: np.random.Generator, votes_per_item: int = 2) -> Annotations:
    """Votes of annotators of very different quality."""
    right = rng.uniform(0.4, 0.8, ANNOTATORS)
    item = np.repeat(np.arange(len(truth)), votes_per_item)
    annotator = np.argsort(rng.random((len(truth), ANNOTATORS)), axis=1)[:, :votes_per_item].ravel()
    wrong = (truth[item] + rng.integers(1, CLASSES, len(item))) % CLASSES
    label = np.where(rng.random(len(item)) < right[annotator], truth[item], wrong)
    return Annotations.from_arrays(item, annotator, label, items=range(len(truth)), classes=range(CLASSES))


def cases(seed: int) -> dict[str, tuple[NDArray[Any], Any]]:
    """Truth and edges by name."""
    rng = np.random.default_rng(seed)
    edges, patches = grid(SIDE), smooth(SIDE, rng)
    shuffled = rng.permutation(patches)
    near = patches[:, None] + rng.normal(0, 1, (len(patches), 8))
    mixed = edges.copy()
    foreign = rng.random(len(edges)) < 0.5
    mixed[foreign, 1] = (mixed[foreign, 0] + rng.integers(1, len(patches), int(foreign.sum()))) % len(patches)
    return {
        "smooth patches, grid": (patches, edges),
        "the same, half of the edges random": (patches, mixed),
        "the same, 5 nearest of 8 noisy features": (patches, nearest_edges(near, range(len(patches)))),
        "Potts field, coupling 1.2, grid": (potts(SIDE, 1.2, rng), edges),
        "Potts field, coupling 0.9, grid": (potts(SIDE, 0.9, rng), edges),
        "Potts field, coupling 0.6, grid": (potts(SIDE, 0.6, rng), edges),
        "edges that mean nothing": (shuffled, edges),
    }


@RUNS.each
def measured(seed: int) -> dict[str, dict[str, float]]:
    """By case: accuracies, and what the model says of itself."""
    found = {}
    for name, (truth, edges) in cases(seed).items():
        votes = votes_on(truth, np.random.default_rng(seed + 100))
        own = {method: float((make(method).fit(votes).labels_ == truth).mean()) for method in METHODS}
        for inference in ("mean-field", "bp"):
            model = GraphDawidSkene(edges=edges, inference=inference).fit(votes)
            own[inference] = float((model.labels_ == truth).mean())
        found[name] = own | {"coupling": model.coupling_, "confidence": float(model.result_.confidence.mean())}
    return found


def accuracies() -> str:
    """Accuracy in percent and the coupling that was found, with intervals over seeds."""
    runs = [measured(seed) for seed in SEEDS]
    found = {name: {key: [run[name][key] for run in runs] for key in runs[0][name]} for name in runs[0]}
    header = ["labels and edges", *METHODS, "graph, mean field", "graph, bp", "its confidence", "its coupling"]
    keys = [*METHODS, "mean-field", "bp", "confidence"]
    rows = [
        [name, *(interval(own[key], 100, 1) for key in keys), interval(own["coupling"], 1, 2)] for name, own in found.items()
    ]
    return table(header, rows)


@RUNS.each
def large(inference: str) -> dict[str, float]:
    """Sweeps and processor time on one core, for a grid of half a million items."""
    side = 708
    rng = np.random.default_rng(0)
    truth, edges = smooth(side, rng), grid(side)
    votes = votes_on(truth, rng)
    begun = process_time()
    model = GraphDawidSkene(edges=edges, inference=inference, tol=1e-4).fit(votes)
    sizes = {"edges": len(edges), "votes": votes.n_votes, "rounds": model.n_iter_, "seconds": process_time() - begun}
    return sizes | {"right": float((model.labels_ == truth).mean())}


def a_million_edges() -> str:
    rows = []
    for inference in ("mean-field", "bp"):
        run = large(inference)
        sizes = f"{run['edges']:,}", f"{run['votes']:,}", f"{run['rounds']}"
        rows.append([inference, *sizes, f"{run['seconds']:.0f}", f"{100 * run['right']:.1f}"])
    return table(["inference", "edges", "votes", "iterations", "processor seconds", "accuracy"], rows)


def main() -> None:
    warnings.simplefilter("ignore", CrowdwiseWarning)
    found = f"{accuracies()}\n\nA million edges (`tol=1e-4`, one core):\n\n{a_million_edges()}"
    put("graph", f"{provenance('python -m benchmarks run graph', RUNS)}\n{found}")
