"""Dawid-Skene's model, or what a library has in its stead, by size: seconds, memory and labels of six libraries in one run.

    make bench-neighbours      (or: .venv-bench-neighbours/bin/python -m benchmarks run neighbours [--votes 10000,100000])

Every measurement is a process of its own that loads the same simulated votes, brings them into the form
the library takes (not timed) and fits with the library's default settings. What fails, needs longer than the limit or more
memory than the machine has gets a row that says so.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.declaration import Benchmark
from benchmarks.page import HOW_FAST, provenance, put, table
from benchmarks.records import Records
from benchmarks.versus.versus import LIMIT, Memory, accuracy, crowd, percent

BENCHMARK = Benchmark(
    "How do six libraries do as votes grow to a million?",
    sections=("neighbours",),
    packages=("crowdkit", "cleanlab", "skactiveml", "snorkel", "peerannot", "psutil"),
    renders=("",),
    quick="--votes 1000",
)

RUNS = Records("neighbours")
MEMORY = 16 * 2**30


def crowdwise_labels(method: str) -> Callable[[dict], Callable[[], np.ndarray]]:
    def prepare(data: dict) -> Callable[[], np.ndarray]:
        import crowdwise

        votes = crowdwise.Annotations.from_arrays(data["item"], data["annotator"], data["label"])
        crowdwise.make(method).set_params(max_iter=2).fit(votes)  # compiled loops are loaded before the clock starts
        return lambda: crowdwise.make(method).fit(votes).labels_

    return prepare


def crowdkit(data: dict) -> Callable[[], np.ndarray]:
    import pandas as pd
    from crowdkit.aggregation import DawidSkene

    frame = pd.DataFrame({"task": data["item"], "worker": data["annotator"], "label": data["label"]})
    return lambda: DawidSkene().fit_predict(frame).sort_index().to_numpy()


def cleanlab(data: dict) -> Callable[[], np.ndarray]:
    from cleanlab.multiannotator import get_label_quality_multiannotator

    wide = dense(data, np.nan)
    shares = np.zeros((len(wide), int(data["label"].max()) + 1))
    np.add.at(shares, (data["item"], data["label"]), 1.0)
    shares /= shares.sum(axis=1, keepdims=True)

    def fit() -> np.ndarray:
        return get_label_quality_multiannotator(wide, shares, verbose=False)["label_quality"]["consensus_label"].to_numpy()

    return fit


def peerannot(data: dict) -> Callable[[], np.ndarray]:
    from peerannot.models import DawidSkene

    answers: dict[int, dict[int, int]] = {}
    for item, annotator, label in zip(data["item"].tolist(), data["annotator"].tolist(), data["label"].tolist(), strict=True):
        answers.setdefault(item, {})[annotator] = label
    n_annotators, n_classes = int(data["annotator"].max()) + 1, int(data["label"].max()) + 1

    def fit() -> np.ndarray:
        model = DawidSkene(answers=answers, n_workers=n_annotators, n_classes=n_classes)
        model.run()
        return np.asarray(model.get_answers())

    return fit


def snorkel(data: dict) -> Callable[[], np.ndarray]:
    from snorkel.labeling.model import LabelModel

    wide, n_classes = dense(data, -1).astype(int), int(data["label"].max()) + 1

    def fit() -> np.ndarray:
        model = LabelModel(cardinality=n_classes, verbose=False)
        model.fit(wide, seed=0, progress_bar=False)
        return model.predict(wide)

    return fit


def skactiveml(data: dict) -> Callable[[], np.ndarray]:
    from skactiveml.utils import majority_vote

    wide = dense(data, np.nan)
    return lambda: majority_vote(wide, random_state=0)


def dense(data: dict, empty: float) -> np.ndarray:
    wide = np.full((int(data["item"].max()) + 1, int(data["annotator"].max()) + 1), empty)
    wide[data["item"], data["annotator"]] = data["label"]
    return wide


# library -> (its name among packages, what is fitted, how)
LIBRARIES = {
    "crowdwise": ("crowdwise", "dawid-skene", crowdwise_labels("dawid-skene")),
    "crowdwise, default": ("crowdwise", "consensus", crowdwise_labels("consensus")),
    "crowd-kit": ("crowd-kit", "DawidSkene", crowdkit),
    "peerannot": ("peerannot", "DawidSkene", peerannot),
    "snorkel": ("snorkel", "LabelModel", snorkel),
    "cleanlab": ("cleanlab", "CROWDLAB on the vote shares", cleanlab),
    "scikit-activeml": ("scikit-activeml", "majority_vote", skactiveml),
}


def run(library: str, path: Path) -> dict:
    """One fit in this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    fit = LIBRARIES[library][2](dict(np.load(path)))
    give_back()
    with Memory() as memory:
        started = perf_counter()
        labels = fit()
        seconds = perf_counter() - started
    return {"seconds": seconds, "mb": memory.megabytes, "labels": np.asarray(labels).tolist()}


def give_back() -> None:
    """Return what is free to the system: a fit that finds room which earlier work has left would seem to need no memory."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # of glibc; elsewhere figures are as they are


@RUNS.each
def measured(library: str, n_votes: int) -> dict:
    """One fit in a process of its own: seconds, memory, the share of right labels, and the version."""
    folder, truth = crowd(n_votes, max(50, n_votes // 1000), 5)
    words = [sys.executable, "-m", __spec__.name, "--run", library, str(Path(folder.name) / "votes.npz")]
    facts = {"version": version(LIBRARIES[library][0])}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return facts | {"note": f"not finished in {LIMIT:.0f} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        return facts | {"note": "out of memory" if "MemoryError" in last or "allocate" in last else f"failed: {last[:80]}"}
    got = json.loads(done.stdout.splitlines()[-1])
    return facts | {"right": accuracy(got.pop("labels"), truth)} | got


def rows(n_votes: int) -> list[list[str]]:
    """Every library on one simulated crowd, crowdwise first: the other times are multiples of its time."""
    found, first = [], measured("crowdwise", n_votes)
    for library, (_, method, _) in LIBRARIES.items():
        got = measured(library, n_votes)
        cells = [got["note"], "", "", ""] if "note" in got else [
            f"{got['seconds']:.2f}",
            f"{got['seconds'] / first['seconds']:,.1f}",
            "under 1" if got["mb"] < 1 else f"{got['mb']:,.0f}",
            percent(got["right"]),
        ]  # fmt: skip
        found.append([f"{n_votes:,}", f"{library.split(',')[0]} {got['version']}", method, *cells])
        print(found[-1], flush=True)
    return found


def measure_all(sizes: list[int]) -> None:
    found = [row for size in sizes for row in rows(size)]
    header = ["votes", "library", "method", "seconds", "times crowdwise", "MB", "labels right"]
    text = [
        provenance("make bench-neighbours", RUNS),
        "\nSimulated crowds with K = 5, ten votes per item, an annotator per 1,000 votes (at least 50), seed 0. Defaults of "
        f"each library, a process each, at most {LIMIT:.0f} s and {MEMORY >> 30} GB; MB is by how much the "
        "process grew at most during the fit, beyond the votes and what was loaded before. cleanlab, snorkel, peerannot and "
        "scikit-activeml take dense tables of items by annotators.\n",
        table(header, found),
    ]
    put("neighbours", "\n".join(text), HOW_FAST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--votes", default="10000,100000,1000000", help="sizes, comma-separated")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(given.run[0], Path(given.run[1]))))
    else:
        measure_all([int(size) for size in given.votes.split(",")])


if __name__ == "__main__":
    main()
