"""Fits to votes in shards: the same answers, what they cost per iteration, and a hundred million votes out of core.

    python -m benchmarks run shards equal
    python -m benchmarks run shards real
    python -m benchmarks run shards overhead [VOTES]
    python -m benchmarks run shards large [VOTES]
    python -m benchmarks run shards cost

Every run has a process of its own. Votes and work folders lie in a scratch folder, CROWDWISE_SCRATCH or the system's, and are
deleted afterwards; `large` needs 15 GB there.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, put, table
from benchmarks.records import Records
from benchmarks.scale.large_votes import VOTES_PER_ITEM, truth, write

BENCHMARK = Benchmark(
    "Do fits in shards give the same answers, and what do they cost?",
    sections=("shards equal", "shards real", "shards overhead", "shards large", "shards cost"),
    data=("labelled",),
    packages=("ray", "psutil"),
    renders=("equal", "real", "overhead", "large", "cost"),
    quick="real",
    small={"SETS": ("dog",)},
)

RUNS = Records("shards")
OVERHEAD, LARGE, CLASSES, ANNOTATORS = 10_000_000, 100_000_000, 15, 10_000
ITERATIONS = 12
SETS = ("adult", "bluebird", "cf", "convarg_pairs", "dog", "labelme", "ner_mturk", "product", "rte", "sentence_polarity", "web")


# -- the same answers --------------------------------------------------------------------------


@cache
def small_crowd() -> Any:
    from crowdwise.data.simulate import simulate

    return simulate(n_items=40_000, n_annotators=300, n_classes=5, votes_per_item=(2, 8), random_state=0).votes


@cache
def in_memory(method: str) -> Any:
    from crowdwise.estimator.registry import make

    return make(method).fit(small_crowd())


@contextmanager
def placed(kind: str, size: int) -> Iterator[Any]:
    """An engine on so many shards of this process, or on Ray with so many nodes."""
    from crowdwise.scale import Local, Ray

    if kind == "local":
        with Local(shards=size) as engine:
            yield engine
        return
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for _ in range(size):
            cluster.add_node(num_cpus=2)
        with Ray(address=cluster.address, shards=8) as engine:
            yield engine
    finally:
        cluster.shutdown()


@RUNS.each
def compared(kind: str, size: int, methods: list[str]) -> dict[str, Any]:
    """The votes, and by method the largest difference, and whether labels and iterations are the same."""
    from crowdwise.estimator.registry import make

    found: dict[str, Any] = {"votes": small_crowd().n_votes}
    with placed(kind, size) as engine:
        for name in methods:
            model, own = make(name).fit(small_crowd(), engine=engine), in_memory(name)
            same = bool((model.labels_ == own.labels_).all()) and model.result_.n_iter == own.result_.n_iter
            found[name] = [float(np.abs(model.posterior_ - own.posterior_).max()), same]
    return found


def equal() -> None:
    """Every method that runs on shards, on 1, 2 and 8 of them and on Ray with one and two nodes, beside the fit in memory."""
    from crowdwise.estimator.registry import select

    methods = list(select(shards=True))
    runs = [compared(kind, size, methods) for kind, sizes in (("local", (1, 2, 8)), ("ray", (1, 2))) for size in sizes]
    rows = [
        [name, *(f"{run[name][0]:.0e}" + ("" if run[name][1] else ", labels or iterations differ") for run in runs)]
        for name in methods
    ]
    header = ["method", "1 shard", "2 shards", "8 shards", "Ray, 1 node, 8 shards", "Ray, 2 nodes, 8 shards"]
    text = [
        provenance("python -m benchmarks run shards equal", RUNS),
        f"\nLargest difference of a posterior probability from the fit in memory on {runs[0]['votes']:,} simulated votes "
        "(40,000 items, 300 annotators, 5 classes, seed 0). Labels and the number of iterations are the same, or the cell says "
        "so.\n",
        table(header, rows),
    ]
    put("shards equal", "\n".join(text))


@RUNS.each
def on_file(name: str, methods: list[str]) -> dict[str, Any]:
    """Votes, items, classes, the largest difference between memory and 8 shards out of core, and labels that differ."""
    import polars as pl

    import crowdwise
    from crowdwise.estimator.registry import make
    from crowdwise.scale import Local

    path = next((SHARED / name).glob("annotations.csv*"))
    votes, apart, differ = crowdwise.read(path), 0.0, 0
    with tempfile.TemporaryDirectory() as scratch, Local(shards=8, work_dir=Path(scratch) / "work") as engine:
        store = engine.encode(path)
        for method in methods:
            own = make(method).fit(votes).result_.items_frame()
            result: Any = make(method).fit(store, engine=engine).result_
            result.write_labels(Path(scratch) / "labels.parquet")
            found = pl.read_parquet(Path(scratch) / "labels.parquet").sort("item")
            shares = [column for column in own.columns if column.startswith("p(")]
            assert found["item"].to_list() == own["item"].to_list()
            apart = max(apart, float(np.abs(found[shares].to_numpy() - own[shares].to_numpy()).max()))
            differ += int((found["label"] != own["label"]).sum())
    return {"sizes": [votes.n_votes, votes.n_items, votes.n_classes], "apart": apart, "differ": differ}


def real() -> None:
    """The same from files of real votes, in memory and out of core on 8 shards."""
    from crowdwise.errors import CrowdwiseWarning
    from crowdwise.estimator.registry import select

    warnings.simplefilter("ignore", CrowdwiseWarning)
    # Online methods take votes in the order in which they arrive, and that of shards is another.
    methods = list(select(shards=True, online=False))
    runs = {name: on_file(name, methods) for name in SETS}
    rows = [
        [name, *(f"{size:,}" for size in run["sizes"]), f"{run['apart']:.0e}", str(run["differ"])] for name, run in runs.items()
    ]
    text = [
        provenance("python -m benchmarks run shards real", RUNS),
        "\nReal votes from their files: the largest difference of a probability between the fit in memory and out of core "
        f"on 8 shards, over {', '.join(methods)}, and how many labels differ in all of them together.\n",
        table(["data", "votes", "items", "classes", "largest difference", "labels that differ"], rows),
    ]
    put("shards real", "\n".join(text))


# -- what an iteration costs -------------------------------------------------------------------


def child(kind: str, folder: str, n_classes: int, workers: int, shards: int) -> None:
    """Fit on one engine and print seconds per iteration, seconds until the first and the peak of memory."""
    from crowdwise import DawidSkene
    from crowdwise.scale import Local, Ray
    from crowdwise.scale.collecting import collected
    from crowdwise.scale.store import Store

    store = Store.open(folder)
    votes: Any = collected(store) if kind == "memory" else store
    times = [perf_counter()]
    model = DawidSkene(max_iter=ITERATIONS, tol=1e-300)
    options: dict[str, Any] = {"progress": lambda *_: times.append(perf_counter())}
    if kind == "memory":
        model.fit(votes, **options)
    else:
        with Ray(actors=workers or None, shards=shards) if kind == "ray" else Local(threads=workers, shards=shards) as engine:
            model.fit(votes, engine=engine, **options)
    gaps = np.diff(times)
    # Not by getrusage, which counts what the parent held when it started this process.
    peak = 1024 * int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0])
    print(json.dumps({"iteration": float(np.median(gaps[2:])), "start": float(gaps[0]), "peak": peak}))


def measured(kind: str, folder: Path, n_classes: int, workers: int, shards: int, threads: int = 2) -> dict[str, float]:
    """Run `child` in a process of its own."""
    for left in folder.glob("fit-*.zip"):
        left.unlink()
    words = [sys.executable, "-m", __spec__.name, "child", kind, str(folder), str(n_classes), str(workers), str(shards)]
    environment = os.environ | {"CROWDWISE_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def encoded(n_votes: int, n_classes: int, n_annotators: int, shards: int | None) -> Iterator[Path]:
    """A work folder of simulated votes."""
    from crowdwise.scale import Local

    scratch = Path(tempfile.mkdtemp(prefix="crowdwise-bench-", dir=os.environ.get("CROWDWISE_SCRATCH")))
    try:
        write(scratch / "votes", n_votes, n_classes, n_annotators)
        with Local(shards=shards, work_dir=scratch / "work") as engine:
            engine.encode(scratch / "votes")
        shutil.rmtree(scratch / "votes")
        yield scratch / "work"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@cache
def overhead_folder(n_votes: int) -> Path:
    """Its work folder, which lasts as long as this process."""
    opened = ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(encoded(n_votes, CLASSES, ANNOTATORS, 8))


@RUNS.each
def one_fit(n_votes: int, kind: str, workers: int, shards: int, threads: int, turn: int) -> dict[str, float]:
    return measured(kind, overhead_folder(n_votes), CLASSES, workers, shards, threads)


def overhead(n_votes: int) -> None:
    """Seconds per iteration in memory, out of core and on Ray, one after another, twice."""
    variants = {
        "in memory, 1 thread": ("memory", 1, 8, 1),
        "in memory, 2 threads": ("memory", 2, 8, 2),
        "out of core, 1 thread": ("local", 1, 8, 1),
        "out of core, 2 threads": ("local", 2, 8, 2),
        "Ray, 1 actor of 1 thread": ("ray", 1, 8, 1),
        "Ray, 2 actors of 1 thread": ("ray", 2, 8, 2),
        "Ray, 1 actor of 2 threads (the default)": ("ray", 0, 8, 2),
    }
    turns = [{name: one_fit(n_votes, *how, turn) for name, how in variants.items()} for turn in range(2)]
    runs = {name: [turn[name] for turn in turns] for name in variants}
    # The machine is shared: the faster of two runs is the one less disturbed.
    best = {name: min(both, key=lambda run: run["iteration"]) for name, both in runs.items()}
    base = best["in memory, 2 threads"]["iteration"]
    rows = [
        [
            name,
            f"{run['iteration']:.2f} s",
            f"{run['iteration'] / base:.2f}",
            f"{max(r['iteration'] for r in runs[name]):.2f} s",
            f"{run['start']:.1f} s",
            f"{run['peak'] / 1e9:.1f} GB",
        ]
        for name, run in best.items()
    ]
    header = [
        "",
        "per iteration",
        "beside 2 threads in memory",
        "slower run",
        "until the first iteration",
        "memory of the process",
    ]
    text = [
        provenance("python -m benchmarks run shards overhead", RUNS),
        f"\nDawid-Skene on {n_votes:,} simulated votes ({n_votes // VOTES_PER_ITEM:,} items, {ANNOTATORS:,} annotators, "
        f"{CLASSES} classes, 8 shards), the median of {ITERATIONS - 2} iterations; the faster of two runs counts. With Ray, "
        "memory is that of the driver; actors hold shards and posteriors beside it.\n",
        table(header, rows),
    ]
    if n_votes == OVERHEAD:
        put("shards overhead", "\n".join(text))
    else:
        print("\n".join(text))


# -- a hundred million votes ------------------------------------------------------------------


@RUNS.each
def on_files(n_votes: int) -> dict[str, Any]:
    """The command line on files, from reading to labels, with the peak of its memory."""
    import polars as pl
    import psutil

    scratch = Path(tempfile.mkdtemp(prefix="crowdwise-bench-", dir=os.environ.get("CROWDWISE_SCRATCH")))
    try:
        write(scratch / "votes", n_votes, CLASSES, ANNOTATORS)
        labels = scratch / "labels.parquet"
        words = ["aggregate", str(scratch / "votes"), "--work-dir", str(scratch / "work"), "-o", str(labels)]
        words += ["--set", f"max_iter={ITERATIONS}"]
        started = perf_counter()
        process = psutil.Popen([sys.executable, "-m", "crowdwise", *words], stderr=subprocess.PIPE, text=True)
        peak, mapped, stages = 0, 0, {}
        while process.poll() is None:
            try:
                info = process.memory_info()
            except psutil.NoSuchProcess:
                break
            peak, mapped = max(peak, info.rss - info.shared), max(mapped, info.rss)
            marks = {"encoded": scratch / "work" / "store.json", "first iteration": scratch / "work" / "fit-Confusion.zip"}
            for stage, mark in marks.items():
                if stage not in stages and mark.exists():
                    stages[stage] = perf_counter() - started
            sleep(0.05)
        total = perf_counter() - started
        said = process.stderr.read() if process.stderr else ""
        if process.returncode:
            raise SystemExit(said)
        shards = list((scratch / "work").glob("shard-*"))
        names = ("item_ptr", "annotator", "label")
        size = sum((shard / f"{name}.npy").stat().st_size for shard in shards for name in names)
        frame = pl.scan_parquet(labels).select(
            pl.col("item").str.slice(5).cast(pl.Int64), pl.col("label").str.slice(6).cast(pl.Int64)
        )
        right = n_rows = 0
        for part in frame.collect_batches(chunk_size=2_000_000):
            right += int((part["label"].to_numpy() == truth(part["item"].to_numpy(), CLASSES)).sum())
            n_rows += part.height
        finished = labels.stat().st_mtime - (scratch / "work" / "fit-Confusion.zip").stat().st_mtime
        files = len(list((scratch / "votes").iterdir()))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    seconds = {"encoding": stages["encoded"], "writing": finished, "total": total}
    sizes = {"peak": peak, "mapped": mapped, "per_vote": size / n_votes, "shards": len(shards), "files": files}
    return seconds | sizes | {"items": n_rows, "right": right / n_rows}


def large(n_votes: int) -> None:
    run = on_files(n_votes)
    fitted = run["total"] - run["encoding"] - run["writing"]
    rows = [
        ["reading and encoding", f"{run['encoding']:.0f} s"],
        [f"{ITERATIONS} iterations", f"{fitted:.0f} s ({fitted / ITERATIONS:.1f} s each)"],
        ["writing labels with all probabilities", f"{run['writing']:.0f} s"],
        ["in all", f"{run['total']:.0f} s"],
        ["peak memory", f"{run['peak'] / 1e9:.2f} GB ({run['mapped'] / 1e9:.2f} GB with mapped files)"],
        ["encoded votes", f"{run['per_vote']:.1f} bytes per vote"],
        ["shards", str(run["shards"])],
        ["labels right", f"{100 * run['right']:.2f}%"],
    ]
    text = [
        provenance("python -m benchmarks run shards large", RUNS),
        f"\n`crowdwise aggregate votes/ --work-dir work -o labels.parquet` on {n_votes:,} simulated votes in "
        f"{run['files']} Parquet files: {run['items']:,} items with ids as text, whose "
        f"{VOTES_PER_ITEM} votes lie in as many files, {ANNOTATORS:,} annotators, {CLASSES} classes. The fit was stopped "
        f"after {ITERATIONS} iterations.\n",
        table(["", ""], rows),
    ]
    if n_votes == LARGE:
        put("shards large", "\n".join(text))
    else:
        print("\n".join(text))


# -- a model of the cost ----------------------------------------------------------------------

# Votes, classes, annotators, shards.
GRID = [
    (2_000_000, 2, 1_000, 2),
    (2_000_000, 15, 1_000, 2),
    (4_000_000, 5, 10_000, 4),
    (4_000_000, 15, 10_000, 2),
    (4_000_000, 15, 10_000, 16),
    (4_000_000, 30, 10_000, 4),
    (8_000_000, 5, 1_000, 8),
    (8_000_000, 15, 50_000, 4),
    (8_000_000, 15, 50_000, 16),
]


# The same on Ray with two actors: there tables are moved, and posteriors stay in memory.
ON_RAY = [
    (2_000_000, 2, 1_000, 2),
    (2_000_000, 15, 1_000, 2),
    (4_000_000, 15, 10_000, 4),
    (4_000_000, 30, 10_000, 4),
    (8_000_000, 5, 1_000, 8),
    (8_000_000, 15, 50_000, 4),
]
ACTORS = 2


@RUNS.each
def iteration(kind: str, workers: int, n_votes: int, n_classes: int, n_annotators: int, shards: int) -> float:
    """Its seconds."""
    with encoded(n_votes, n_classes, n_annotators, shards) as folder:
        return measured(kind, folder, n_classes, workers, shards, threads=workers)["iteration"]


def grid(kind: str, cases: list[tuple[int, int, int, int]], workers: int) -> np.ndarray:
    """Seconds per iteration of every case, [cases, 5]."""
    return np.array([[*case, iteration(kind, workers, *case)] for case in cases])


def cost() -> None:
    """Fit seconds per iteration to votes, classes, annotators and shards, and say what follows for more."""
    from scipy.optimize import nnls

    runs, on_ray = grid("local", GRID, 1), grid("ray", ON_RAY, ACTORS)
    votes, classes, annotators, shards, seconds = runs.T
    cells = annotators * classes**2
    local = np.stack([votes, votes * classes, shards * cells, cells], axis=1)
    moved = 2 * ACTORS * 8 * on_ray[:, 2] * on_ray[:, 1] ** 2
    remote = np.stack([on_ray[:, 0] / ACTORS, on_ray[:, 0] * on_ray[:, 1] / ACTORS, moved], axis=1)
    # Relative errors count, or the largest runs would decide alone.
    rates, far = (nnls(terms / t[:, None], np.ones(len(t)))[0] for terms, t in ((local, seconds), (remote, on_ray[:, 4])))
    modelled, with_ray = local @ rates, remote @ far
    header = ["", "votes", "K", "annotators", "shards", "tables", "per iteration", "model"]
    rows = [
        [where, f"{v:,.0f}", f"{k:.0f}", f"{a:,.0f}", f"{s:.0f}", f"{8e-6 * a * k * k:,.1f} MB", f"{t:.2f} s", f"{m:.2f} s"]
        for where, cases, found in (("out of core, 1 thread", runs, modelled), (f"Ray, {ACTORS} actors", on_ray, with_ray))
        for (v, k, a, s, t), m in zip(cases, found, strict=True)
    ]
    off = [100 * np.abs(m / t - 1).max() for m, t in ((modelled, seconds), (with_ray, on_ray[:, 4]))]
    a, b, c, d = 1e9 * rates
    text = [
        provenance("python -m benchmarks run shards cost", RUNS),
        "\nDawid-Skene, fitted to relative errors. Out of core on one thread: seconds = votes (a + b K) + A K² (c shards + d), "
        f"a = {a:.1f} ns, b = {b:.2f} ns, c = {c:.1f} ns, d = {d:.0f} ns, off by {off[0]:.0f}% at most. On Ray: seconds = "
        "votes (a + b K) / actors + e bytes moved, where every actor gets the tables and sends its counts, 16 A K² bytes: a = "
        f"{1e9 * far[0]:.1f} ns, b = {1e9 * far[1]:.2f} ns, e = {1e9 * far[2]:.2f} ns, off by {off[1]:.0f}% at most. What the "
        "driver does with tables is in e. Neither has that tables too large for the cache make every vote dearer.\n",
        table(header, rows),
        "\n**Extrapolated, not measured:** a cluster of 16 machines with 16 such cores each and a network of 10 Gbit/s; K = 5 "
        "classes, five votes per item, 100 iterations, an actor and a shard per core. Within a machine tables cost e for each "
        "of its actors; between machines they go through a tree of four levels. Disks, stragglers and reading are not in it.\n",
        table(
            ["votes", "annotators", "steps", "tables, in machines", "tables, between", "100 iterations", "memory per machine"],
            [_extrapolated(n, who, far) for n, who in ((1e9, 1e5), (1e10, 1e5), (1e10, 1e6))],
        ),
    ]
    put("shards cost", "\n".join(text))


def _extrapolated(n_votes: float, annotators: float, rates: np.ndarray) -> list[str]:
    classes, machines, cores, levels, bandwidth = 5, 16, 16, 4, 1.25e9
    workers, cells = machines * cores, annotators * classes**2
    step = float(rates[0] + rates[1] * classes) * n_votes / workers
    within, between = float(rates[2]) * 16 * cells * cores, levels * 16 * cells / bandwidth
    held = n_votes / machines * (6 + (8 + 8 * classes) / VOTES_PER_ITEM) + 3 * cores * 8 * cells
    total = 100 * (step + within + between)
    seconds = [f"{step:.1f} s", f"{within:.1f} s", f"{between:.1f} s", f"{total / 60:.0f} min"]
    return [f"{n_votes:.0e}", f"{annotators:.0e}", *seconds, f"{held / 1e9:.0f} GB"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("equal", "real", "overhead", "large", "cost", "child"))
    parser.add_argument("rest", nargs="*")
    given = parser.parse_args()
    if given.what == "child":
        child(given.rest[0], given.rest[1], *map(int, given.rest[2:]))
    elif given.what in ("overhead", "large"):
        default = OVERHEAD if given.what == "overhead" else LARGE
        {"overhead": overhead, "large": large}[given.what](int(given.rest[0]) if given.rest else default)
    else:
        {"equal": equal, "real": real, "cost": cost}[given.what]()


if __name__ == "__main__":
    main()
