"""The page "How fast, how large": whole commands, fits, slow methods, growth and memory, each written into its section.

    python -m benchmarks run how_fast [commands] [fits] [slow] [growth] [memory]      all parts unless some are named

Run it on a quiet machine: rows give seconds of the clock, and beside them those of the processor. `make bench-neighbours`
writes the section on other libraries.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.declaration import Benchmark
from benchmarks.page import HOW_FAST, provenance, put, table
from benchmarks.speed import around, fits, slow_methods

BENCHMARK = Benchmark(
    "How fast and how large: commands, fits, slow methods, growth, memory?",
    sections=("commands", "fits", "slow", "growth", "memory"),
    data=("bluebird", "product", "web", "ner_mturk"),
    renders=("commands", "fits", "slow", "growth", "memory"),
    quick="fits",
    small={"ROUND": 20000, "FITS": [["dawid-skene", 1000, 5, None]]},
)

ROUND = 10**7
# Method, votes, classes and the seconds to aim at.
FITS = (
    ("dawid-skene", 10**6, 10, None),
    ("dawid-skene", 10**7, 5, None),
    ("dawid-skene", 10**7, 15, 30),
    ("glad", 10**6, 10, 3),
)


def commands() -> str:
    """Whole commands in cold processes."""
    return table(around.HEADER, around.lines(large=True, repeats=3))


def fitted() -> str:
    """A round beside scipy.sparse, and fits to convergence."""
    rows = []
    for method, n_votes, n_classes, aim in FITS:
        got = fits.in_a_process(method, n_votes, n_classes)
        cells = [f"{got['clock']:.1f}", f"{got['seconds']:.1f}", f"{got['rounds']:.0f}"] if got else ["not finished", "", ""]
        rows.append([method, f"{n_votes:,}", str(n_classes), *cells, "" if aim is None else str(aim)])
        print(rows[-1], file=sys.stderr, flush=True)
    beside = table([f"{ROUND:,} votes, K = 5; ns per vote", "clock", "processor"], fits.rounds(ROUND, 5))
    return "\n".join([beside, "", table(["fit", "votes", "K", "seconds", "processor s", "rounds", "aim"], rows)])


def slow() -> str:
    """The methods that people wait for."""
    return table(*slow_methods.rows(slow_methods.cases(list(slow_methods.METHODS), 10**6, 1000, 5, "ner_mturk")))


def growth() -> str:
    """Seconds of the processor from 100,000 votes on."""
    heads = [f"{10**power:,} votes (rounds)" for power in range(5, 9)]
    return table(["method", *heads, "exponent"], fits.growth(10**8))


def memory() -> str:
    """Peak memory per vote of every label-only method."""
    heads = ["bytes per vote at 100,000 votes", "at 300,000", "of each further vote"]
    return table(["method", *heads], fits.memory(fits.label_only(), 100_000))


# What each is, and where its runs are recorded.
PARTS = {
    "commands": (commands, around.RUNS), "fits": (fitted, fits.RUNS), "slow": (slow, slow_methods.RUNS),
    "growth": (growth, fits.RUNS), "memory": (memory, fits.RUNS),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    for name in parser.parse_args().parts or PARTS:
        part, runs = PARTS[name]
        text = part()
        put(name, f"{provenance(f'python -m benchmarks run how_fast {name}', runs)}\n{text}", HOW_FAST)
