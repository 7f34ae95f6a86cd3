"""How often six libraries are right: their label methods, with default settings, on real crowds.

    .venv-bench-neighbours/bin/python -m benchmarks run versus_labels     (make bench-neighbours makes the environment)

A fit is a process of its own with a limit of processor time.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from benchmarks.versus.neighbours import cleanlab, crowdwise_labels, peerannot, skactiveml, snorkel

BENCHMARK = Benchmark(
    "How often are the labels of six libraries right on real crowds?",
    sections=("versus labels",),
    data=(
        "bluebird",
        "cf",
        "cf_amt",
        "dog",
        "labelme",
        "possent",
        "product",
        "rte",
        "sentence_polarity",
        "sp_amt",
        "temp",
        "web",
        "wsd",
    ),
    packages=("crowdkit", "cleanlab", "skactiveml", "snorkel", "peerannot"),
    renders=("",),
    quick="dog",
)

RUNS = Records("versus_labels")
# Those of at most 30,000 votes: four libraries hold dense tables.
SETS = list(BENCHMARK.data)
LIMIT = 40  # seconds of the processor, with what a library takes to load


def crowdkit(method: str) -> Callable[[dict], Callable[[], np.ndarray]]:
    def prepare(data: dict) -> Callable[[], np.ndarray]:
        import crowdkit.aggregation as peers
        import pandas as pd

        frame = pd.DataFrame({"task": data["item"], "worker": data["annotator"], "label": data["label"]})
        return lambda: getattr(peers, method)().fit_predict(frame).sort_index().to_numpy()

    return prepare


# column -> (name of the package, how it labels)
FITS = {
    "crowdwise: consensus": ("crowdwise", crowdwise_labels("consensus")),
    "crowdwise: dawid-skene": ("crowdwise", crowdwise_labels("dawid-skene")),
    "crowd-kit: MajorityVote": ("crowd-kit", crowdkit("MajorityVote")),
    "crowd-kit: DawidSkene": ("crowd-kit", crowdkit("DawidSkene")),
    "crowd-kit: MACE": ("crowd-kit", crowdkit("MACE")),
    "crowd-kit: GLAD": ("crowd-kit", crowdkit("GLAD")),
    "peerannot: DawidSkene": ("peerannot", peerannot),
    "snorkel: LabelModel": ("snorkel", snorkel),
    "cleanlab: CROWDLAB on the vote shares": ("cleanlab", cleanlab),
    "scikit-activeml: majority_vote": ("scikit-activeml", skactiveml),
}


def write(name: str, path: Path) -> None:
    """The votes of a set, items in order."""
    votes, _ = labelled(name)
    order = np.argsort(votes.item, kind="stable")
    np.savez(path, item=votes.item[order], annotator=votes.annotator[order], label=votes.label[order])


@RUNS.each
def measured(column: str, name: str) -> dict:
    """The share of right labels of one method on one set, or why there is none."""
    facts = {"version": version(FITS[column][0])}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.npz"
        write(name, path)
        words = [sys.executable, "-m", __spec__.name, "--run", column, str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return facts | {"note": f"over {LIMIT} s"}
    if done.returncode:
        return facts | {"note": "failed: " + (done.stderr.strip() or "killed").splitlines()[-1].partition(":")[0][:30]}
    truth = labelled(name)[1]
    labels = np.array(json.loads(done.stdout.splitlines()[-1]))
    return facts | {"right": float(np.mean(labels[truth >= 0] == truth[truth >= 0]))}


def report(names: list[str]) -> str:
    found = {column: {name: measured(column, name) for name in names} for column in FITS}
    rows = [[name, *(cell(found[column][name]) for column in FITS)] for name in names]
    means = [[found[column][name].get("right", np.nan) for name in names] for column in FITS]
    rows.append(["*mean*", *("-" if np.isnan(right).any() else f"{100 * np.mean(right):.2f}" for right in means)])
    versions = dict.fromkeys(f"{FITS[column][0]} {found[column][names[0]]['version']}" for column in FITS)
    return "\n".join(
        [
            provenance(".venv-bench-neighbours/bin/python -m benchmarks run versus_labels", RUNS),
            f"Labels that are right, in percent, on sets of at most 30,000 votes; {', '.join(versions)}. Every library with "
            f"its default settings and its own rule for ties, a process of at most {LIMIT} processor seconds each, loading "
            "included.\n",
            table(["set", *FITS], rows),
        ]
    )


def cell(found: dict) -> str:
    return f"{100 * found['right']:.1f}" if "right" in found else found["note"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        warnings.simplefilter("ignore")
        print(json.dumps(np.asarray(FITS[given.run[0]][1](dict(np.load(given.run[1])))()).astype(int).tolist()))
    elif given.sets != SETS:
        print(report(given.sets))
    else:
        put("versus labels", report(given.sets))


if __name__ == "__main__":
    main()
