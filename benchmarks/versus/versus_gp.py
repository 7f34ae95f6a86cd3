"""One training epoch of the sparse Gaussian processes of crowdwise, GPyTorch and GPflow, side by side on the same data.

    make bench-gp                                                  # N = 20,000, D = 256, K = 15, batch 500, float64
    .venv-bench-gp/bin/python -m benchmarks run versus_gp --items 2000 --rounds 2 --dry-run

Ours learn from votes (svgpcr) or labels (svgp), the others from labels: they have no crowd. Rivals are what their
documentation shows, except that they are spared its data loaders: batches are slices of one permutation. All start at
our inducing points and our length scale, with unit variance, and see standardised features. Everybody takes a turn in
every round, each time with another first; ratios are taken within rounds. The first epoch, which compiles, is not timed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any

# tensorflow-probability needs the Keras of its day.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import torch

import crowdwise.methods.classify.trained
from benchmarks import records
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.trainer import Trainer, seeded
from crowdwise.methods.classify.svgpcr import SVGP, SVGPCR
from crowdwise.parts.priors.logistic_gp import median_distance

BENCHMARK = Benchmark(
    "How long does an epoch take beside GPyTorch and GPflow?",
    sections=("gp versus",),
    packages=("torch", "gpytorch", "gpflow"),
    renders=("",),
    quick="--items 200 --rounds 1 --until 2 --inducing 10 --dry-run",
)

K, BATCH, ANNOTATORS, VOTES, TESTED = 15, 500, 50, 3, 4000
# Each library's rate for Adam: theirs from their documentation, ours (kernel and inducing points alone) our default.
THEIR_RATE = 0.01


class Data:
    """Classes of three Gaussians each in 16 dimensions, turned into many; votes that are right in 50 to 90% of cases."""

    def __init__(self, n_items: int, n_columns: int) -> None:
        rng = np.random.default_rng(0)
        inner = min(16, n_columns)
        centre = rng.normal(size=(3 * K, inner))
        part = rng.integers(3 * K, size=n_items + TESTED)
        turn = np.linalg.qr(rng.normal(size=(n_columns, inner)))[0]
        rows = (centre[part] + rng.normal(size=(len(part), inner))) @ turn.T + 0.1 * rng.normal(size=(len(part), n_columns))
        rows = (rows - rows[:n_items].mean(0)) / rows[:n_items].std(0)
        self.X, self.X_test = rows[:n_items], rows[n_items:]
        self.y, self.y_test = part[:n_items] % K, part[n_items:] % K
        who = np.argpartition(rng.random((n_items, ANNOTATORS)), VOTES, axis=1)[:, :VOTES]
        right = rng.random(who.shape) < rng.uniform(0.5, 0.9, ANNOTATORS)[who]
        label = np.where(right, self.y[:, None], rng.integers(K, size=who.shape))
        item = np.repeat(np.arange(n_items), VOTES)
        self.votes = Annotations.from_arrays(item, who.ravel(), label.ravel(), classes=list(range(K)))


class _Held(Exception):
    """Carries the trainer out of `fit`."""


class Ours:
    """A classifier of crowdwise, epoch by epoch: the trainer that its `fit` builds, before it runs."""

    def __init__(self, model: SVGPCR, data: Data, labels: object) -> None:
        class Held(Trainer):
            def run(self, progress: object = None) -> None:
                raise _Held(self)

        crowdwise.methods.classify.trained.Trainer, usual = Held, crowdwise.methods.classify.trained.Trainer
        try:
            model.fit(data.X, labels)
        except _Held as held:
            self.trainer: Trainer = held.args[0]
        finally:
            crowdwise.methods.classify.trained.Trainer = usual
        self.done = 0

    @property
    def process(self) -> torch.nn.Module:
        return self.trainer.network[1]

    def epoch(self) -> None:
        with seeded(0, self.done, 0, torch.device("cpu")):
            self.trainer.head.begin_epoch(self.done, self.trainer.log_prob)
            self.trainer._epoch(self.done)
        self.done += 1

    @torch.no_grad()
    def probability(self, rows: np.ndarray) -> np.ndarray:
        self.trainer.network.eval()
        return self.trainer.network(torch.from_numpy(rows)).softmax(1).numpy()


def ours(kind: type[SVGPCR], likelihood: str, data: Data, n_inducing: int) -> Ours:
    # Inducing points move from the first epoch on, as theirs do; the first, untimed one is the warm-up of svgpcr.
    model = kind(
        inducing=n_inducing,
        likelihood=likelihood,
        epsilon="fixed",
        batch_size=BATCH,
        warmup=1,
        frozen=0,
        precision="float64",
        scaling="columns",
    )
    return Ours(model, data, data.votes if kind is SVGPCR else data.y)


class GPyTorch:
    """K independent functions, a Cholesky factor each, softmax likelihood, Adam on everything."""

    def __init__(self, data: Data, inducing: np.ndarray, lengthscale: float, separate: bool) -> None:
        import gpytorch
        from gpytorch import variational

        batch = torch.Size([K] if separate else [])

        class Model(gpytorch.models.ApproximateGP):
            def __init__(self) -> None:
                points = torch.from_numpy(inducing)
                posterior = variational.CholeskyVariationalDistribution(len(points), batch_shape=torch.Size([K]))
                inner = variational.VariationalStrategy(self, points, posterior, learn_inducing_locations=True)
                super().__init__(variational.IndependentMultitaskVariationalStrategy(inner, num_tasks=K))
                self.mean_module = gpytorch.means.ZeroMean(batch_shape=batch)
                self.covar_module = gpytorch.kernels.ScaleKernel(
                    gpytorch.kernels.RBFKernel(batch_shape=batch), batch_shape=batch
                )

            def forward(self, rows: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
                return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

        torch.manual_seed(0)
        self.model = Model().double()
        self.model.covar_module.outputscale = 1.0
        self.model.covar_module.base_kernel.lengthscale = lengthscale
        self.likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=K, mixing_weights=False)
        self.bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(data.y))
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=THEIR_RATE)
        self.X, self.y = torch.from_numpy(data.X), torch.from_numpy(data.y)

    def epoch(self) -> None:
        self.model.train()
        self.likelihood.train()
        for index in torch.randperm(len(self.y)).split(BATCH):
            self.optimiser.zero_grad()
            loss = -self.bound(self.model(self.X[index]), self.y[index])
            loss.backward()
            self.optimiser.step()

    @torch.no_grad()
    def probability(self, rows: np.ndarray) -> np.ndarray:
        self.model.eval()
        self.likelihood.eval()
        parts = torch.from_numpy(rows).split(BATCH)
        return torch.cat([self.likelihood(self.model(part)).probs.mean(0) for part in parts]).numpy()


class GPflow:
    """K whitened functions, full q_sqrt, robust-max likelihood, Adam on everything in one compiled step."""

    def __init__(self, data: Data, inducing: np.ndarray, lengthscale: float, separate: bool) -> None:
        import gpflow
        import tensorflow as tf

        def kernel() -> gpflow.kernels.Kernel:
            return gpflow.kernels.SquaredExponential(variance=1.0, lengthscales=lengthscale)

        many = gpflow.kernels.SeparateIndependent([kernel() for _ in range(K)])
        model = gpflow.models.SVGP(
            many if separate else gpflow.kernels.SharedIndependent(kernel(), output_dim=K),
            gpflow.likelihoods.MultiClass(K),
            gpflow.inducing_variables.SharedIndependentInducingVariables(gpflow.inducing_variables.InducingPoints(inducing)),
            num_latent_gps=K,
            num_data=len(data.y),
            whiten=True,
        )
        optimiser = tf.keras.optimizers.Adam(THEIR_RATE)

        @tf.function
        def step(rows: tf.Tensor, labels: tf.Tensor) -> None:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(model.trainable_variables)
                loss = model.training_loss((rows, labels))
            optimiser.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )

        self.step, self.model, self.rng = step, model, np.random.default_rng(0)
        self.X, self.y = data.X, data.y[:, None].astype(float)
        self.tensor, self.predict = tf.constant, tf.function(model.predict_y)

    def epoch(self) -> None:
        order = self.rng.permutation(len(self.X))
        for first in range(0, len(order), BATCH):
            index = order[first : first + BATCH]
            self.step(self.tensor(self.X[index]), self.tensor(self.y[index]))

    def probability(self, rows: np.ndarray) -> np.ndarray:
        parts = [rows[first : first + BATCH] for first in range(0, len(rows), BATCH)]
        return np.concatenate([self.predict(self.tensor(part))[0].numpy() for part in parts])


OURS = {
    "crowdwise svgpcr, robust-max": (SVGPCR, "robust-max"),
    "crowdwise svgpcr, softmax": (SVGPCR, "softmax"),
    "crowdwise svgp, robust-max": (SVGP, "robust-max"),
    "crowdwise svgp, softmax": (SVGP, "softmax"),
}
THEIRS = {
    "GPyTorch, softmax, separate kernels": (GPyTorch, True),
    "GPyTorch, softmax, one kernel": (GPyTorch, False),
    "GPflow, robust-max, separate kernels": (GPflow, True),
    "GPflow, robust-max, one kernel": (GPflow, False),
}


def contenders(data: Data, n_inducing: int) -> dict[str, object]:
    made: dict[str, object] = {name: ours(*what, data, n_inducing) for name, what in OURS.items()}
    inducing = next(iter(made.values())).process.inducing.detach().numpy().copy()
    lengthscale = float(median_distance(inducing))
    for name, (kind, separate) in THEIRS.items():
        made[name] = kind(data, inducing.copy(), lengthscale, separate)
    return made


def measure(made: dict[str, object], n_inducing: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of every round, the first and untimed one left out."""
    seconds: dict[str, list[float]] = {name: [] for name in made}
    for number in range(-1, rounds):
        names = list(made)
        shift = max(number, 0) % len(names)
        for name in names[shift:] + names[:shift]:
            started, busy = perf_counter(), process_time()
            made[name].epoch()
            took, busy = perf_counter() - started, process_time() - busy
            print(f"M={n_inducing} round {number} {name}: {took:.3f} s ({busy:.3f} s of the processors)", flush=True)
            if number >= 0:
                seconds[name].append(took)
    return seconds


def judged(made: dict[str, object], data: Data, n_inducing: int, epochs: int) -> dict[str, tuple[float, float]]:
    """Accuracy and NLL on new items."""
    quality = {}
    for name, one in made.items():
        p = one.probability(data.X_test)
        right = p[np.arange(len(p)), data.y_test]
        quality[name] = float((p.argmax(1) == data.y_test).mean()), float(-np.log(right.clip(1e-12)).mean())
        words = f"accuracy {quality[name][0]:.4f}, NLL {quality[name][1]:.4f}"
        print(f"M={n_inducing} {name} after {epochs} epochs: {words}", flush=True)
    return quality


@contextmanager
def clocks(places: dict[str, list[tuple[object, str]]]) -> Iterator[dict[str, float]]:
    """Time spent in the named methods, each without the others that it calls."""
    spent: dict[str, float] = defaultdict(float)
    inner = [0.0]
    undo = []

    def timed(part: str, called):
        def run(*args, **kwargs):
            inner.append(0.0)
            started = perf_counter()
            try:
                return called(*args, **kwargs)
            finally:
                took = perf_counter() - started
                spent[part] += took - inner.pop()
                inner[-1] += took

        return run

    for part, methods in places.items():
        for owner, name in methods:
            own = vars(owner).get(name)
            undo.append((owner, name, own))
            setattr(owner, name, timed(part, getattr(owner, name)))
    try:
        yield spent
    finally:
        for owner, name, own in undo:
            delattr(owner, name) if own is None else setattr(owner, name, own)


def profile(one: Ours, epochs: int) -> dict[str, float]:
    """Milliseconds of an epoch by part, in the order of a step."""
    head, process, trainer = one.trainer.head, one.process, one.trainer
    places = {
        "rows of the batch, standardised": [(trainer, "_forward")],
        "process: covariance, Cholesky factor, moments": [(process, "forward")],
        "likelihood: expected logarithms": [(process.likelihood, "expected_log")],
        "labels and Dirichlets": [(head, "_labelled")],
        "bound, KL": [(head, "loss")],
        "likelihood: slopes by means and variances": [(torch.autograd, "grad")],
        "gradient of kernel and inducing points": [(torch.Tensor, "backward")],
        "Adam": [(trainer.optimiser, "step")],
        "natural step of q(u)": [(process, "natural_step")],
    }
    one.epoch()
    with clocks(places) as spent:
        started = perf_counter()
        for _ in range(epochs):
            one.epoch()
        whole = perf_counter() - started
    parts = {part: 1000 * spent[part] / epochs for part in places}
    return parts | {"order, batches, the rest": 1000 * (whole - sum(spent.values())) / epochs, "epoch": 1000 * whole / epochs}


def within(theirs: list[float], base: list[float]) -> str:
    ratio = np.divide(theirs, base)
    return f"{np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})"


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds, parts of our epoch and what was learned, by number of inducing points; and what it was measured with."""
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    data = Data(given.items, given.columns)
    made = {n_inducing: contenders(data, n_inducing) for n_inducing in given.inducing}
    found: dict[str, Any] = {
        "seconds": {str(n_inducing): measure(made[n_inducing], n_inducing, given.rounds) for n_inducing in made},
        "parts": {
            f"{name.removeprefix('crowdwise ')}, M = {n_inducing}": profile(ours(*OURS[name], data, n_inducing), 3)
            for n_inducing in given.inducing
            for name in list(OURS)[:3]
        },
        "threads": torch.get_num_threads(),
        "libraries": {name: version(name) for name in ("torch", "gpytorch", "gpflow", "tensorflow-cpu")},
    }
    print("nothing is timed from here on: the machine need not be quiet any more", flush=True)
    found["early"], found["late"] = {}, {}
    for n_inducing, rivals in made.items():
        found["early"][str(n_inducing)] = judged(rivals, data, n_inducing, given.rounds + 1)
        for _ in range(given.until - given.rounds - 1):
            for one in rivals.values():
                one.epoch()
        found["late"][str(n_inducing)] = judged(rivals, data, n_inducing, given.until)
    return found


def rendered(found: dict[str, Any], given: argparse.Namespace) -> str:
    """The tables, and what they show."""
    bases = list(OURS)[:2]
    libraries = ", ".join(f"{name} {number}" for name, number in found["libraries"].items())
    parts = [
        f"N = {given.items:,}, D = {given.columns}, K = {K}, batches of {BATCH}, float64, {found['threads']} threads; "
        f"{libraries}. One process, taking turns; median of {given.rounds} epochs after one "
        "that is not timed; ratios within a round, median and range. svgpcr learns from "
        f"{VOTES} votes per item of {ANNOTATORS} annotators, whose matrices it infers in the same time; all others from true "
        "labels. Ours has one kernel for all classes. The last columns tell whether all learn: accuracy (%) and, in brackets, "
        f"NLL on {TESTED:,} new items; GPyTorch and GPflow by Adam at {THEIR_RATE}.\n"
    ]
    head = ["one epoch", "seconds", "times svgpcr, robust-max", "times svgpcr, softmax"]
    head += [f"after {epochs} epochs" for epochs in (given.rounds + 1, given.until)]
    for n_inducing, seconds in found["seconds"].items():
        learned = [found[when][n_inducing] for when in ("early", "late")]
        rows = [
            [name, f"{np.median(took):.2f}", *(within(took, seconds[base]) for base in bases),
             *(f"{100 * accuracy:.1f} ({nll:.3f})" for accuracy, nll in (one[name] for one in learned))]
            for name, took in seconds.items()
        ]  # fmt: skip
        parts.append(f"**M = {n_inducing}.**\n\n" + table(head, rows) + "\n")
    columns = found["parts"]
    rows = [[name, *(f"{column[name]:.0f}" for column in columns.values())] for name in next(iter(columns.values()))]
    parts.append("**Where our epoch goes**, milliseconds by part, in the order of a step (mean of three epochs).\n")
    return "\n".join([*parts, table(["part", *columns], rows)])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--items", type=int, default=20_000)
    options.add_argument("--columns", type=int, default=256)
    options.add_argument("--inducing", type=int, nargs="*", default=[50, 100])
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--until", type=int, default=20, help="epochs after which all are judged once more")
    options.add_argument("--dry-run", action="store_true", help="print the tables, leave the page as it is")
    given = options.parse_args()
    if given.dry_run:
        print(rendered(measured(given), given))
        return
    kept = Records("versus_gp")
    key = json.dumps([given.items, given.columns, given.inducing, given.rounds, given.until])
    # Every run measures: seconds are those of today's code. Pages are rendered from the last one.
    if not records.RENDERING:
        kept.add(key, measured(given))
    found = kept.once(key, lambda: measured(given))
    put("gp versus", provenance("make bench-gp", kept) + "\n" + rendered(found, given))
