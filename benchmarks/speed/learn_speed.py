"""The cost of a crowd epoch: every head against the same network trained on plain labels, and memory.

    python -m benchmarks run learn_speed

200,000 rows of 256 features, ten votes per item by 200 annotators, ten classes. The plain loop slices tensors and
uses the same network, optimiser and batch size. All runs of a round follow each other, so that a busy machine slows
them alike; the table has the median ratio of the rounds after a warm-up.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.networks import build_network, default_spec
from crowdwise.engines.gradient.plan import Plan
from crowdwise.engines.gradient.rows import rows_of
from crowdwise.engines.gradient.trainer import Trainer
from crowdwise.estimator.registry import classifiers
from crowdwise.methods.classify.dalc import DALC
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.variational import VariationalClassifier
from crowdwise.parts.heads.batch import VoteList

BENCHMARK = Benchmark(
    "What does an epoch of every head cost beside plain training?",
    sections=("learn speed",),
    packages=("torch",),
    renders=("",),
    small={"ROWS": 500, "ROUNDS": 1, "SIZES": (256,), "MEMORY_OF": ()},
)

RUNS = Records("learn_speed")
CLASSIFIERS = classifiers()

MEMORY_OF, SIZES = (100, 1000, 10_000), (256, 1024)
ROWS, WIDTH, K, VOTES, ROUNDS = 200_000, 256, 10, 10, 3
CPU = torch.device("cpu")


def data(n_rows: int, n_annotators: int) -> tuple[np.ndarray, Annotations]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, WIDTH)).astype(np.float32)
    # Ten different annotators per item: a random start, then steps that cannot meet.
    step = n_annotators // VOTES
    who = (rng.integers(n_annotators, size=(n_rows, 1)) + step * np.arange(VOTES)) % n_annotators
    votes = Annotations(
        item_ptr=np.arange(0, n_rows * VOTES + 1, VOTES),
        annotator=np.sort(who, axis=1).ravel().astype(np.int32),
        label=rng.integers(K, size=n_rows * VOTES).astype(np.int16),
        items=np.arange(n_rows),
        annotators=np.arange(n_annotators),
        classes=np.arange(K),
    )
    return X, votes


def plain_epoch(X: torch.Tensor, y: torch.Tensor, spec: dict, size: int) -> float:
    network = build_network(spec).train()
    optimiser = torch.optim.Adam(network.parameters(), 1e-3, fused=True)
    started = perf_counter()
    order = torch.randperm(len(X))
    for index in order.split(size):
        loss = torch.nn.functional.cross_entropy(network(X[index]), y[index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return perf_counter() - started


def crowd_epoch(name: str, X: np.ndarray, votes: Annotations, edges: VoteList, size: int) -> float:
    estimator = crowdwise.make(name, hidden=None, dropout=None)  # the same network for all
    rows = rows_of(X, torch.float32)
    n = votes.n_classes
    start = Start(torch.full((len(X), n), 1 / n), torch.full((votes.n_annotators, n, n), 1 / n), False, torch.float32)
    network, _ = estimator._network(rows, start)  # the one of `spec`: both are the default for these rows
    head = estimator._head(votes, replace(start, network=network))
    plan = Plan(
        epochs=1, batch_size=size, learning_rate=1e-3, head_learning_rate=1e-2, weight_decay=0.0, optimiser="adam",
        scheduler="none", clip=None, patience=1, earliest=0, seed=0, device=CPU,
    )  # fmt: skip
    trainer = Trainer(network, head, rows, edges, plan, train=torch.arange(len(X)))
    started = perf_counter()
    # Epoch 20: after every warm-up, so that the penalties count.
    head.begin_epoch(20, trainer.log_prob)
    trainer._epoch(20)
    return perf_counter() - started


def networks() -> list[str]:
    """Not those that take turns with inference over the whole crowd (see deep_bp_speed.py)."""
    networks = {name: method.cls for name, method in CLASSIFIERS.items() if issubclass(method.cls, NeuralClassifier)}
    return [name for name, kind in networks.items() if not issubclass(kind, VariationalClassifier | DALC)]


@RUNS.each
def ratios(size: int, heads: list[str]) -> tuple[float, dict[str, list[float]]]:
    """Median seconds of an epoch on plain labels, and those of every head as its multiples, round by round."""
    X, votes = data(ROWS, 200)
    edges = VoteList(votes, torch.float32, CPU)
    spec = default_spec("mlp", rows_of(X, torch.float32), K, None)
    tensor, y = torch.from_numpy(X), torch.from_numpy(votes.label[::VOTES].astype(np.int64))
    plain, found = [], {name: [] for name in heads}
    for turn in range(ROUNDS + 1):
        base = plain_epoch(tensor, y, spec, size)
        for name in found:
            seconds = crowd_epoch(name, X, votes, edges, size)
            if turn:  # the first round warms up
                found[name].append(seconds / base)
        if turn:
            plain.append(base)
    return float(np.median(plain)), found


@RUNS.each
def peak(n_annotators: int) -> int:
    """Peak memory in MB of one epoch of ccem in a process of its own."""
    code = f"import benchmarks.speed.learn_speed as s; s.one_epoch({n_annotators})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def one_epoch(n_annotators: int) -> None:
    X, votes = data(50_000, n_annotators)
    edges = VoteList(votes, torch.float32, CPU)
    crowd_epoch("ccem", X, votes, edges, 1024)
    # Not `getrusage`, which on Linux tells the peak of the parent where that was more.
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")))


def main() -> None:
    measured = {size: ratios(size, networks()) for size in SIZES}
    rows = [["*plain labels (seconds per epoch)*", *(f"{measured[size][0]:.2f}" for size in SIZES)]]
    for name in networks():
        rows.append([name, *(f"{np.median(measured[size][1][name]):.2f}" for size in SIZES)])
    memory = {n: peak(n) for n in MEMORY_OF}
    text = (
        provenance("python -m benchmarks run learn_speed", RUNS)
        + f"\n{ROWS:,} rows x {WIDTH} features, {VOTES} votes per item, 200 annotators, K={K}; the default MLP; seconds of an "
        f"epoch as a multiple of the same network's on plain labels (after a warm-up; rounds measured: {ROUNDS}, median).\n\n"
        + table(["head", *(f"batches of {size}" for size in SIZES)], rows)
        + "\n\nPeak memory of a ccem epoch over 50,000 rows and 500,000 votes, in MB: "
        + ", ".join(f"{mb:,} with {n:,} annotators" for n, mb in memory.items())
        + f" (items x annotators would be {50_000 * 10_000 * 4 // 10**6:,} MB at 10,000; confusion matrices, their gradient "
        f"and Adam's two moments take {4 * 10_000 * K * K * 4 // 10**6} MB).\n"
    )
    put("learn speed", text)
