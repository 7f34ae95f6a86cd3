"""What a fit on Ray does when actors, a node or the driver are killed under it.

    python -m benchmarks run scale_faults [--trials 20] [--votes 300000]     # written to its page
    python -m benchmarks run scale_faults --trials 2 --votes 50000 --dry-run

Dawid-Skene on simulated votes in eight shards, on a cluster of two nodes of this machine with two cores each and a third one
with one core. In every trial one actor, drawn at random, is killed after an iteration drawn at random; once, the third node is
killed with all its processes; once, the driver kills itself with SIGKILL and is started again with the same work folder. Labels
and posteriors are compared with those of the fit that nobody disturbed. Seconds lost are those of the whole fit less the
median of undisturbed ones, one before every trial; where the driver was killed, of both runs together, with their starts.
"""

from __future__ import annotations

import os

# Before numpy: actors share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import atexit
import secrets
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise import DawidSkene
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines.loop import Progress
from crowdwise.scale.cluster import connect
from crowdwise.scale.ray_engine import Ray, RayShards

BENCHMARK = Benchmark(
    "Does a fit on Ray survive killed actors, nodes and drivers?",
    sections=("scale faults",),
    packages=("ray",),
    renders=("",),
    no_quick="starts and kills a cluster of three nodes, which takes a minute",
)

RUNS = Records("scale_faults")
SECTION = "scale faults"
SHARDS = 8
# So that every fit has the same iterations, and there are enough of them to strike at.
SETTINGS: dict[str, Any] = {"max_iter": 30, "tol": 1e-300}


@cache
def simulated(n_votes: int) -> Annotations:
    return simulate(n_items=n_votes // 5, n_annotators=300, n_classes=5, votes_per_item=5, random_state=0).votes


def fitted(votes: Any, engine: Any, progress: Progress | None = None) -> tuple[Any, float]:
    """The fit and its seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = perf_counter()
        model = DawidSkene(**SETTINGS).fit(votes, engine=engine, progress=progress)
    return model.result_, perf_counter() - begin


@cache
def running(n_votes: int) -> tuple[Ray, Callable[[], None], Any]:
    """An engine on a cluster that lasts as long as this process, what kills its third node, and the undisturbed fit."""
    # Before Ray is imported, which reads them once.
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    from ray.cluster_utils import Cluster

    opened = ExitStack()
    atexit.register(opened.close)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    opened.callback(cluster.shutdown)
    cluster.add_node(num_cpus=2)
    third = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    opened.enter_context(connect(cluster.address))
    engine = opened.enter_context(Ray(cluster.address, shards=SHARDS))
    # It compiles, too.
    calm, _ = fitted(simulated(n_votes), engine)
    print(f"{calm.n_iter} iterations, {engine.place}", flush=True)
    return engine, lambda: cluster.remove_node(third, allow_graceful=False), calm


def struck(n_votes: int, when: int, strike: Callable[[], None]) -> tuple[bool, float, float]:
    """Whether labels are equal, the largest difference of a probability, and the seconds of a fit with a fault."""

    def progress(iteration: int, bound: float, change: float) -> None:
        if iteration == when:
            strike()

    engine, _, calm = running(n_votes)
    result, seconds = fitted(simulated(n_votes), engine, progress)
    assert isinstance(engine._shards, RayShards)
    assert engine._shards.n_lost >= 1, "the fault did not strike"
    return bool((result.codes == calm.codes).all()), float(np.abs(result.posterior - calm.posterior).max()), seconds


@RUNS.each
def actor(n_votes: int, trial: int) -> tuple[float, tuple[bool, float, float]]:
    """Seconds of a fit without a fault, and what became of one in which an actor is killed."""
    engine, rng = running(n_votes)[0], np.random.default_rng(trial)

    def strike() -> None:
        import ray

        assert isinstance(engine._shards, RayShards)
        hosts = engine._shards._hosts
        ray.kill(hosts[rng.integers(len(hosts))].actor)

    usual = fitted(simulated(n_votes), engine)[1]
    return usual, struck(n_votes, int(rng.integers(1, SETTINGS["max_iter"])), strike)


@RUNS.each
def node(n_votes: int) -> tuple[bool, float, float]:
    return struck(n_votes, 12, running(n_votes)[1])


def run(path: str, folder: str, target: str, dies_at: int) -> None:
    """A driver of its own, with a cluster of its own; it kills itself after an iteration, unless that is 0."""

    def progress(iteration: int, bound: float, change: float) -> None:
        if iteration == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with Ray(shards=SHARDS, actors=2, work_dir=folder, checkpoint_every=5) as engine:
        result, _ = fitted(path, engine, progress)
        result.write_labels(target)


@RUNS.each
def driver(n_votes: int, dies_at: int) -> tuple[bool, float, float]:
    """Kill the driver and start it again: labels, probabilities, and seconds over a run that nobody disturbed."""
    votes = simulated(n_votes)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame = {
            "item": votes.items[votes.item],
            "annotator": votes.annotators[votes.annotator],
            "label": votes.classes[votes.label],
        }
        pl.DataFrame(frame).write_parquet(folder / "votes.parquet")

        def started(work: str, dies: int) -> tuple[pl.DataFrame | None, float]:
            target = folder / f"{work}.parquet"
            words = ["--run", str(folder / "votes.parquet"), str(folder / work), str(target), str(dies)]
            plain = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
            begin = perf_counter()
            done = subprocess.run([sys.executable, "-m", __spec__.name, *words], env=plain, capture_output=True, text=True)
            if done.returncode != (-signal.SIGKILL if dies else 0):
                raise SystemExit(done.stderr)
            return (None if dies else pl.read_parquet(target).sort("item")), perf_counter() - begin

        calm, alone = started("calm", 0)
        _, first = started("struck", dies_at)
        again, second = started("struck", 0)
    assert calm is not None
    assert again is not None
    shares = [name for name in calm.columns if name.startswith("p(")]
    worst = float(np.abs(calm.select(shares).to_numpy() - again.select(shares).to_numpy()).max())
    return calm["label"].equals(again["label"]), worst, first + second - alone


def row(name: str, done: Sequence[tuple[bool, float, float]], usual: float) -> list[str]:
    equal, worst, seconds = sum(d[0] for d in done), max(d[1] for d in done), [d[2] - usual for d in done]
    return [name, str(len(done)), f"{equal} of {len(done)}", f"{worst:.1g}", f"{np.mean(seconds):.1f}", f"{max(seconds):.1f}"]


def measure_all(trials: int, n_votes: int, dry: bool) -> None:
    # Before there is a cluster on this machine.
    last = row("driver killed, run again", [driver(n_votes, 18)], 0.0)
    alone, killed = zip(*(actor(n_votes, trial) for trial in range(trials)), strict=True)
    usual = float(np.median(alone))
    rows = [row("an actor killed", killed, usual), row("a node killed", [node(n_votes)], usual), last]
    text = [
        provenance("python -m benchmarks run scale_faults", RUNS),
        f"\nDawid-Skene on {n_votes:,} simulated votes ({n_votes // 5:,} items, 300 annotators, K = 5), "
        f"{SHARDS} shards, {SETTINGS['max_iter']} iterations; undisturbed, five actors on three nodes of one machine take "
        f"{usual:.1f} s.\n",
        table(["fault", "trials", "labels equal", "largest difference", "seconds lost, mean", "most"], rows),
    ]
    if dry:
        print("\n".join(text))
    else:
        put(SECTION, "\n".join(text))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--votes", type=int, default=300_000)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--run", nargs=4, metavar=("VOTES", "FOLDER", "TARGET", "DIES_AT"))
    given = parser.parse_args()
    if given.run:
        run(*given.run[:3], int(given.run[3]))
    else:
        measure_all(given.trials, given.votes, given.dry_run)


if __name__ == "__main__":
    main()
