"""The crowd layer (MW) of crowdwise, crowd-kit and scikit-activeml on the same data, network, optimiser and epochs.

    make bench-learn

crowd-kit offers the layer; its users write the loop. Here it is the ordinary one: a DataLoader over (row, annotator,
label). scikit-activeml takes a matrix of items x annotators. Runs take turns in one process.
"""

from __future__ import annotations

import warnings
from importlib.metadata import version
from time import perf_counter

import numpy as np
import torch
from learn_synthetic_crowd import blobs
from page import interval, provenance, put, table
from torch import nn

import crowdwise

EPOCHS, BATCH, SEEDS, WIDTH, K = 10, 256, 2, 128, 10


class Network(nn.Module):
    """The same for all three."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, K))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def ours(X, votes, seed):
    model = crowdwise.CrowdLayerMW(
        network=Network, epochs=EPOCHS, batch_size=BATCH, validation=0.0, init="identity", head_learning_rate=1e-3,
        weight_decay=0.0, random_state=seed, precision="float32",
    )  # fmt: skip
    started = perf_counter()
    model.fit(X, votes)
    return perf_counter() - started, model.predict


def crowd_kit(X, votes, seed):
    from crowdkit.learning import CrowdLayer
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    network, layer = Network(), CrowdLayer(K, votes.n_annotators, conn_type="mw")
    optimiser = torch.optim.Adam([*network.parameters(), *layer.parameters()], 1e-3)
    started = perf_counter()
    rows = TensorDataset(
        torch.from_numpy(X[votes.item]),
        torch.from_numpy(votes.annotator.astype(np.int64)),
        torch.from_numpy(votes.label.astype(np.int64)),
    )
    for _ in range(EPOCHS):
        for x, annotator, label in DataLoader(rows, batch_size=BATCH, shuffle=True):
            loss = nn.functional.cross_entropy(layer(network(x).softmax(1), annotator), label)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    seconds = perf_counter() - started
    return seconds, lambda rows: network(torch.from_numpy(rows)).argmax(1).detach().numpy()


def activeml(X, votes, seed):
    from skactiveml.classifier.multiannotator import CrowdLayerClassifier

    torch.manual_seed(seed)
    matrix = np.full((votes.n_items, votes.n_annotators), np.nan)
    matrix[votes.item, votes.annotator] = votes.label
    model = CrowdLayerClassifier(
        Network, n_annotators=votes.n_annotators, classes=list(range(K)), random_state=seed,
        neural_net_param_dict={
            "max_epochs": EPOCHS, "batch_size": BATCH, "lr": 1e-3, "optimizer": torch.optim.Adam, "verbose": 0,
            "iterator_train__shuffle": True,
        },
    )  # fmt: skip
    started = perf_counter()
    model.fit(X, matrix)
    return perf_counter() - started, model.predict


def main() -> None:
    rivals = {
        "crowdwise": ours,
        f"crowd-kit {version('crowd-kit')}": crowd_kit,
        f"scikit-activeml {version('scikit-activeml')}": activeml,
    }
    rows = []
    for annotators in (100, 500):
        seconds, accuracy = {name: [] for name in rivals}, {name: [] for name in rivals}
        for seed in range(SEEDS):
            X, votes, X_test, y_test = blobs(seed, annotators=annotators)
            for name, fit in rivals.items():
                took, predict = fit(X, votes, seed)
                seconds[name].append(took)
                accuracy[name].append(float((np.asarray(predict(X_test)) == y_test).mean()))
                print(annotators, seed, name, round(took, 2), round(accuracy[name][-1], 4), flush=True)
        base = np.median(seconds["crowdwise"])
        for name in rivals:
            median = np.median(seconds[name])
            rows.append([name, f"{annotators}", interval(accuracy[name], 100, 1), f"{median:.1f}", f"{median / base:.1f}"])
    text = (
        provenance("make bench-learn")
        + f"\n20,000 items x 64 features, 10 votes per item, K={K}; one hidden layer of {WIDTH}, Adam 1e-3, {EPOCHS} epochs, "
        f"batches of {BATCH}, identity start; {SEEDS} seeds; median seconds of a fit.\n\n"
        + table(["library", "annotators", "test accuracy", "seconds", "times ours"], rows)
    )
    put("learn versus", text)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
