"""What learning end to end saves beside EM with the same network, the claim on time of Li, Huang and Chen (2021).

    python -m benchmarks run deep_time [--seeds N]

The tasks of deep_tenths with all votes. EM as earlier papers have it trains the network to its end in every round;
aggnet takes a round before every epoch, and bayes-dgc has no rounds. All have one layer of 100 units and no early stopping.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

import numpy as np
import torch

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.papers.deep_fraction import TASKS, judged
from benchmarks.papers.deep_tenths import loaded
from benchmarks.records import Records
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.methods.classify.start import start_posterior
from crowdwise.parts.annotators.model import DirichletConfusion

BENCHMARK = Benchmark(
    "Does training end to end save time beside EM, as BayesDGC's paper says?",
    sections=("deep time",),
    data=("labelme", "cifar10n", "ner_mturk", "rte", "sentence_polarity"),
    packages=("torch",),
    renders=("",),
    quick="--seeds 1",
    small={"CHOSEN": ["labelme: coast"], "EPOCHS": 2, "ROUNDS": 2},
)

RUNS = Records("deep_time")
CHOSEN = list(TASKS)
EPOCHS, ROUNDS = 40, 20
FULL = "EM, a training per round"
METHODS = ("bayes-dgc", "aggnet", FULL)
# The prior of annotators in the paper: right, wrong.
PRIOR = (5.0, 2.0)


def by_rounds(X: np.ndarray, votes: crowdwise.Annotations, network: dict[str, Any]) -> tuple[np.ndarray, int]:
    """EM until no label changes: matrices from the labels, a network trained on them, labels from both; and how many rounds."""
    labels = start_posterior(votes, "majority").copy()
    prior = np.where(np.eye(votes.n_classes, dtype=bool), *PRIOR)[None]
    annotators = DirichletConfusion.start(prior, votes.n_annotators)
    for rounds in range(1, ROUNDS + 1):  # noqa: B007 - the number of rounds is an answer
        annotators = annotators.update(votes, labels)
        claimed = SoftNetwork(**network, init=labels.copy()).fit(X, votes).predict_proba(X)
        before = labels.argmax(axis=1)
        annotators.infer(votes, np.log(claimed), np.empty(0, np.int16), labels)
        if (labels.argmax(axis=1) == before).all():
            break
    return labels, rounds


@RUNS.each
def run(method: str, name: str, seed: int) -> dict[str, float]:
    torch.set_num_threads(1)
    task = loaded(name)
    votes = task.part(100, seed)
    network: dict[str, Any] = {"hidden": 100, "dropout": 0.0, "epochs": EPOCHS, "validation": 0, "random_state": seed}
    # What is loaded and compiled once is not counted.
    crowdwise.make("aggnet" if method == FULL else method, **network | {"epochs": 1}).fit(task.X, votes)
    started = process_time()
    if method == FULL:
        labels, rounds = by_rounds(task.X, votes, network)
    else:
        labels, rounds = crowdwise.make(method, **network).fit(task.X, votes).posterior_, 0
    return {"seconds": process_time() - started, "rounds": rounds} | judged(labels[:, 1], task.truth)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    seeds = range(options.parse_args().seeds)
    runs = {(name, method): [run(method, name, s) for s in seeds] for name in CHOSEN for method in METHODS}

    def mean(name: str, method: str, score: str, scale: float, digits: int) -> str:
        return interval([one[score] for one in runs[name, method]], scale, digits)

    rows = [
        [
            name,
            *(mean(name, method, "seconds", 1, 1) for method in METHODS),
            mean(name, FULL, "rounds", 1, 1),
            *(mean(name, method, "accuracy", 100, 1) for method in METHODS),
        ]
        for name in CHOSEN
    ]
    header = ["task", *(f"seconds: {m}" for m in METHODS), "rounds of EM", *(f"labels: {m}" for m in METHODS)]
    about = (
        f"\nBinary tasks as above, all votes; one layer of 100 units, {EPOCHS} epochs without early stopping, one thread. "
        f"*{FULL}*: every round trains a new network for {EPOCHS} epochs on the labels, until no label changes or "
        f"{ROUNDS} rounds are over. Processor seconds, and accuracy of the labels in percent (first k); {len(seeds)} seeds, "
        "mean ± half width of the 95% interval.\n\n"
    )
    put(
        "deep time",
        provenance(f"python -m benchmarks run deep_time --seeds {len(seeds)}", RUNS) + about + table(header, rows),
    )
