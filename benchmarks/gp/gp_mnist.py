"""SVGPCR on MNIST with five simulated annotators (Morales-Alvarez et al. 2020, section 4.1).

    python -m benchmarks run gp_mnist                             # three seeds, written to its page
    python -m benchmarks run gp_mnist --seeds 1 --epochs 3 --sweep 10 --dry-run

Annotators are right in 95, 90 and 80% of their votes, a spammer votes at random, and an adversary says the next digit in
90%; all five label all training images. `svgpcr` learns from these votes, `svgp` from the true labels (gold) or from the
labels of Dawid and Skene. Votes and training are drawn again for every seed. All have the default likelihood, which is chosen
by held-out votes and learned, but for one row with the paper's.

With every column standardised, pixels near the edge are blown up: they are on in a handful of images, and have a tiny
spread. So all methods have one scale for all pixels, which keeps the geometry of images as the paper has it
(`scaling="together"`), and two of them are run with a scale for every column as well.

Runs are kept in benchmarks/records/gp_mnist.jsonl, so that an interrupted command continues where it stopped; changed settings
are measured again. Seconds are of the processor, on one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.declaration import Benchmark
from benchmarks.gp import gp_mnist_pictures
from benchmarks.gp.gp_mnist_run import METHODS, N_INDUCING, ONE_SCALE, SETTINGS, STANDARDISED, SWEEP, Study
from benchmarks.gp.gp_mnist_tables import about, tables
from benchmarks.page import IMAGES, provenance, put
from benchmarks.records import KEPT, Records

BENCHMARK = Benchmark(
    "Does SVGPCR do on MNIST with five annotators what its paper says?",
    sections=("gp mnist",),
    data=("mnist",),
    packages=("torch",),
    renders=("--kept",),
    quick="--seeds 1 --epochs 1 --sweep 10 --dry-run",
)


def wanted(seeds: int, sweep: Sequence[int]) -> list[tuple[str, str, int, int]]:
    """All runs, what matters most first, so that an interrupted study says the most."""
    small = [m for m in sweep if m < N_INDUCING]
    large = [m for m in sweep if m > N_INDUCING]
    runs = [(method, ONE_SCALE, N_INDUCING, seed) for seed in range(seeds) for method in METHODS]
    runs += [("svgpcr", ONE_SCALE, m, seed) for seed in range(seeds) for m in small]
    runs += [("svgpcr", ONE_SCALE, m, 0) for m in large]
    runs += [(method, STANDARDISED, N_INDUCING, seed) for seed in range(seeds) for method in ("svgp gold", "svgpcr")]
    return runs + [("svgpcr", ONE_SCALE, m, seed) for seed in range(1, seeds) for m in large]


def main() -> None:
    torch.set_num_threads(1)
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--epochs", type=int, default=SETTINGS["epochs"])
    options.add_argument("--sweep", nargs="*", type=int, default=list(SWEEP), choices=SWEEP, help="inducing points to try")
    options.add_argument("--kept", action="store_true", help="measure nothing, report the runs there are")
    options.add_argument("--dry-run", action="store_true", help="print the tables, write neither page nor pictures")
    options.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the pictures there, also with --dry-run")
    given = options.parse_args()
    asked = given.epochs == SETTINGS["epochs"]
    if not asked and not given.dry_run:
        raise SystemExit("only a study with its own epochs is written to the page; add --dry-run")
    # Trials are kept too, but not in the repository.
    records = Records("gp_mnist") if asked else Records("gp_mnist", KEPT)
    study = Study(SETTINGS | {"epochs": given.epochs}, records)
    runs = wanted(given.seeds, given.sweep)
    if not given.kept:
        study.measure(runs)
    code = ", ".join(records.codes([study.key(*each) for each in runs]))
    text = provenance("python -m benchmarks run gp_mnist", records) + f"Code of the runs: {code}.\n"
    text += about(study, given.seeds) + tables(study, given.seeds)
    folder = given.pictures or (None if given.dry_run else IMAGES)
    if folder:
        gp_mnist_pictures.draw(study, given.seeds, folder)
    if given.dry_run:
        print(text)
    else:
        put("gp mnist", text)
