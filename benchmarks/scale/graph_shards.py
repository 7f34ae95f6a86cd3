"""graph-dawid-skene on a million edges: in memory, and out of core in shards that are cut along connected components.

    python -m benchmarks run graph_shards

100 grids of 71 x 71 items with smooth patches, two votes per item by 20 annotators; files of Parquet. Every run is a process of
its own; its processor time is that of all threads, and its memory is the most that it held.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl

from benchmarks.accuracy.graph import grid, smooth, votes_on
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "Do a million edges fit in shards?",
    sections=("graph shards",),
    renders=("",),
    small={"SIDE": 8, "GRIDS": 2, "INFERENCES": ("bp",)},
)

RUNS = Records("graph_shards")
SIDE, GRIDS, SHARDS, TOL = 71, 100, 8, 1e-4
INFERENCES = ("mean-field", "bp")


@cache
def written() -> tempfile.TemporaryDirectory:
    """A folder with votes, edges and truth, which lasts as long as this process."""
    made = tempfile.TemporaryDirectory()
    folder, rng = Path(made.name), np.random.default_rng(0)
    truth = np.concatenate([smooth(SIDE, rng) for _ in range(GRIDS)])
    edges = np.concatenate([grid(SIDE) + each * SIDE * SIDE for each in range(GRIDS)])
    votes_on(truth, rng).to_frame().write_parquet(folder / "votes.parquet")
    pl.DataFrame(edges, schema=["source", "target"]).write_parquet(folder / "edges.parquet")
    pl.DataFrame({"item": np.arange(len(truth)), "truth": truth}).write_parquet(folder / "truth.parquet")
    return made


def run(where: str, inference: str, folder: Path) -> None:
    """Fit in this process and print what it took."""
    from crowdwise import GraphDawidSkene, read
    from crowdwise.scale import Local

    edges = pl.read_parquet(folder / "edges.parquet")
    model = GraphDawidSkene(edges=edges, inference=inference, tol=TOL)
    votes = str(folder / "votes.parquet")
    if where == "memory":
        model.fit(read(votes))
        labels = model.result_.items_frame().select("item", "label")
    else:
        with Local(shards=SHARDS) as engine:
            model.fit(votes, engine=engine)
            model.result_.write_labels(folder / "labels.parquet")
        labels = pl.read_parquet(folder / "labels.parquet").select("item", "label")
    both = labels.join(pl.read_parquet(folder / "truth.parquet"), on="item")
    seconds, memory = process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    right = float((both["label"] == both["truth"]).mean())  # type: ignore[arg-type]
    facts = {"edges": len(edges), "votes": 2 * len(both), "n_iter": model.result_.n_iter}
    print(json.dumps(facts | {"seconds": seconds, "memory": memory, "right": right, "coupling": model.coupling_}))


@RUNS.each
def measured(where: str, inference: str) -> dict[str, Any]:
    command = [sys.executable, "-m", __spec__.name, where, inference, written().name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure_all() -> None:
    rows = []
    for inference in INFERENCES:
        for where in ("memory", "local"):
            facts = measured(where, inference)
            place = "memory" if where == "memory" else f"{SHARDS} shards out of core"
            cells = [f"{facts['edges']:,}", f"{facts['votes']:,}", str(facts["n_iter"]), f"{facts['seconds']:.0f}"]
            cells += [f"{facts['memory']:.0f}", f"{facts['coupling']:.4f}", f"{100 * facts['right']:.2f}"]
            rows.append([inference, place, *cells])
            print(rows[-1], flush=True)
    header = ["inference", "where", "edges", "votes", "iterations", "processor seconds", "MB", "coupling", "accuracy"]
    put("graph shards", f"{provenance('python -m benchmarks run graph_shards', RUNS)}\n{table(header, rows)}")


def main() -> None:
    if len(sys.argv) > 1:
        run(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        measure_all()


if __name__ == "__main__":
    main()
