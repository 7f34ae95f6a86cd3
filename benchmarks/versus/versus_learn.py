"""The crowd layer (MW) of crowdwise, crowd-kit and scikit-activeml on the same data, network, optimiser and epochs.

    make bench-learn

crowd-kit offers the layer; its users write the loop. Here it is the ordinary one: a DataLoader over (row, annotator,
label). scikit-activeml takes a matrix of items x annotators. Runs take turns in one process.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from importlib.metadata import version
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

import crowdwise
from benchmarks.classifiers.learn_synthetic_crowd import blobs
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "Does the crowd layer learn the same elsewhere, and how fast?",
    sections=("learn versus",),
    packages=("torch", "crowdkit", "skactiveml"),
    renders=("",),
)

RUNS = Records("versus_learn")
WIDTH, K = 128, 10


class Setting(NamedTuple):
    """How much of what."""

    items: int
    features: int
    annotators: int
    batch: int
    epochs: int
    seeds: int = 3


SETTINGS = (
    Setting(20_000, 64, 100, 256, 10),
    Setting(20_000, 64, 500, 256, 10),
    Setting(200_000, 256, 100, 1024, 3, seeds=2),
    Setting(200_000, 256, 200, 1024, 3, seeds=2),
    Setting(200_000, 256, 500, 1024, 3, seeds=2),
)


class Network(nn.Module):
    """The same for all three."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, WIDTH), nn.ReLU(), nn.Linear(WIDTH, K))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def ours(X, votes, seed, setting):
    model = crowdwise.CrowdLayer(
        network=partial(Network, setting.features), epochs=setting.epochs, batch_size=setting.batch, validation=0.0,
        init="identity", head_learning_rate=1e-3, weight_decay=0.0, random_state=seed, precision="float32",
    )  # fmt: skip
    started = perf_counter()
    model.fit(X, votes)
    return perf_counter() - started, model.predict


def crowd_kit(X, votes, seed, setting):
    from crowdkit.learning import CrowdLayer
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    network, layer = Network(setting.features), CrowdLayer(K, votes.n_annotators, conn_type="mw")
    optimiser = torch.optim.Adam([*network.parameters(), *layer.parameters()], 1e-3)
    started = perf_counter()
    rows = TensorDataset(
        torch.from_numpy(X[votes.item]),
        torch.from_numpy(votes.annotator.astype(np.int64)),
        torch.from_numpy(votes.label.astype(np.int64)),
    )
    for _ in range(setting.epochs):
        for x, annotator, label in DataLoader(rows, batch_size=setting.batch, shuffle=True):
            loss = nn.functional.cross_entropy(layer(network(x).softmax(1), annotator), label)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    seconds = perf_counter() - started
    return seconds, lambda rows: network(torch.from_numpy(rows)).argmax(1).detach().numpy()


def activeml(X, votes, seed, setting):
    from skactiveml.classifier.multiannotator import CrowdLayerClassifier

    torch.manual_seed(seed)
    matrix = np.full((votes.n_items, votes.n_annotators), np.nan)
    matrix[votes.item, votes.annotator] = votes.label
    model = CrowdLayerClassifier(
        Network(setting.features), n_annotators=votes.n_annotators, classes=list(range(K)), random_state=seed,
        neural_net_param_dict={
            "max_epochs": setting.epochs, "batch_size": setting.batch, "lr": 1e-3, "optimizer": torch.optim.Adam, "verbose": 0,
            "iterator_train__shuffle": True,
        },
    )  # fmt: skip
    started = perf_counter()
    model.fit(X, matrix)
    return perf_counter() - started, model.predict


FITS = {"crowdwise": ours, "crowd-kit": crowd_kit, "scikit-activeml": activeml}
# Once for all libraries.
drawn = lru_cache(1)(blobs)


@cache
def warm(library: str) -> None:
    """Imports and compiled loops are loaded before the clock starts."""
    small = Setting(2_000, 64, 20, 256, 1)
    X, votes, _, _ = blobs(0, n=small.items, width=small.features, annotators=small.annotators)
    FITS[library](X, votes, 0, small)


@RUNS.each
def measured(library: str, seed: int, **sizes: int) -> dict[str, Any]:
    """Seconds of a whole fit, accuracy on test items, and the version."""
    warm(library)
    setting = Setting(**sizes)
    X, votes, X_test, y_test = drawn(seed, n=setting.items, width=setting.features, annotators=setting.annotators)
    seconds, predict = FITS[library](X, votes, seed, setting)
    right = float((np.asarray(predict(X_test)) == y_test).mean())
    return {"seconds": seconds, "accuracy": right, "version": version(library)}


def main() -> None:
    rows = []
    for setting in SETTINGS:
        sizes = setting._asdict()
        turns = [{name: measured(name, seed, **sizes) for name in FITS} for seed in range(sizes.pop("seeds"))]
        for name in FITS:
            runs = [turn[name] for turn in turns]
            times = [turn[name]["seconds"] / turn["crowdwise"]["seconds"] for turn in turns]
            cells = [f"{setting.items:,} x {setting.features}", f"{setting.annotators}", f"{setting.batch:,}"]
            cells.append(name if name == "crowdwise" else f"{name} {runs[-1]['version']}")
            cells += [interval([run["accuracy"] for run in runs], 100, 1), f"{np.median([run['seconds'] for run in runs]):.1f}"]
            rows.append([*cells, f"{np.median(times):.1f}"])
    text = (
        provenance("make bench-learn", RUNS)
        + f"\n10 votes per item, K={K}; one hidden layer of {WIDTH}, Adam 1e-3, {SETTINGS[0].epochs} epochs (the larger sets "
        f"{SETTINGS[-1].epochs}), identity start; {SETTINGS[0].seeds} seeds (the larger sets {SETTINGS[-1].seeds}); median "
        "seconds of a whole fit.\n\n"
        + table(["items x features", "annotators", "batch", "library", "test accuracy", "seconds", "times ours"], rows)
    )
    put("learn versus", text)
