"""The robustness study of Kim et al. (2022) with one spammer and a wrong prior, under the paper's kind of network.

    python -m benchmarks run deep_convolution [--seeds N]

Four convolutions (kernel 3; 32, 32, 64 and 64 channels; the norm of the batch after the first), two layers of 128 and a ceiling
of 0.9, as in the paper's supplement. The images are smaller than there, so edges are padded, and two of the four maxima over
pairs are left out. Batches and learning rate are the library's own: a step of the whole set is one step in an epoch, and all
methods would starve.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.papers.deep_robustness import FROM_FIELD, GOLD, MISMATCH, NETWORK, build, draw
from benchmarks.records import Records
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Does a convolutional network change how robust deepBP is?",
    sections=("deep convolution",),
    data=("mnist",),
    packages=("torch",),
    renders=("",),
    quick="--seeds 1",
    small={"EPOCHS": {"epochs": 1}, "METHODS": ["deep-bp"], "SIZES": (12, 9, 8)},
)

RUNS = Records("deep_convolution")
# Training images, annotators and new images, as in the other studies.
SIZES = (1000, 750, 2000)
METHODS = (GOLD, "crowd-layer-mw", "bayes-dgc", FROM_FIELD, "deep-mf", "deep-bp")
# One run serves every prior of the model.
PRIORLESS = (GOLD, "crowd-layer-mw")
# Of the model's prior Beta(2, a); the truth is Beta(2, 1) with one extreme spammer.
WRONG = (1.0, 1.4)
EPOCHS: dict[str, Any] = NETWORK


def convolutional() -> Any:
    """Four convolutions on images of 14 x 14 grey levels."""
    from torch import nn

    def block(inputs: int, outputs: int, *more: nn.Module) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1), *more, nn.ReLU()]

    return nn.Sequential(
        nn.Unflatten(1, (1, 14, 14)),
        *block(1, 32, nn.BatchNorm2d(32)),
        *block(32, 32),
        nn.MaxPool2d(2),
        *block(32, 64),
        *block(64, 64),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *(nn.Linear(64 * 9, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)),
    )


@RUNS.each
def run(method: str, a: float, seed: int) -> dict[str, float]:
    import torch

    setting = MISMATCH[a]
    data = draw(setting, seed, *SIZES)
    torch.manual_seed(seed)
    own = {**EPOCHS, "network": convolutional()}
    model = build(method, setting, seed).set_params(
        **({"classifier": SoftNetwork(**own, random_state=seed)} if method == GOLD else own)
    )
    model.fit(data.X / 255, data.votes.classes[data.truth] if method == GOLD else data.votes)
    found = {"test": accuracy(model.predict_proba(data.X_test / 255), data.truth_test)}
    return found if method == GOLD else found | {"labels": accuracy(model.posterior_, data.truth)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=5)
    seeds = range(options.parse_args().seeds)
    runs = {(m, a): [run(m, WRONG[0] if m in PRIORLESS else a, s) for s in seeds] for m in METHODS for a in WRONG}

    def cell(method: str, a: float, score: str) -> str:
        values = [one[score] for one in runs[method, a] if score in one]
        return f"{interval(values, 100, 1)} ({100 * np.min(values):.1f})" if values else "-"

    header = ["method", *(f"{words}, model Beta(2, {a:g})" for words in ("training labels", "new images") for a in WRONG)]
    rows = [[m, *(cell(m, a, score) for score in ("labels", "test") for a in WRONG)] for m in METHODS]
    about = (
        "\nA convolutional network of four layers; digits 4 and 9 in small noisy images, 1,000 of them with three votes each, "
        f"truth Beta(2, 1) and one extreme spammer. Accuracy in percent; seeds: {len(seeds)}; mean ± half width of the 95% "
        "interval (worst seed). Crowd layer and true labels know no prior: one run stands in both columns.\n\n"
    )
    put(
        "deep convolution",
        provenance(f"python -m benchmarks run deep_convolution --seeds {len(seeds)}", RUNS) + about + table(header, rows),
    )
