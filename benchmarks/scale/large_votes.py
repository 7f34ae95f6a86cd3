"""Simulated votes in many Parquet files: the votes of an item are spread over as many files as it has votes.

    python -m benchmarks run large_votes FOLDER VOTES [--classes 15] [--annotators 10000]

An annotator is right with a probability drawn from Beta(8, 3), and errs towards classes that follow the true one. The true
class of an item follows from its number (`truth`), so that labels can be judged without keeping it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

VOTES_PER_ITEM, ROWS = 5, 2_000_000


def truth(item: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """True classes: as good as random, and always the same."""
    mixed = (item.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
    return (mixed % np.uint64(n_classes)).astype(np.int64)


def write(folder: Path, n_votes: int, n_classes: int = 15, n_annotators: int = 10_000) -> int:
    """Write the files, one round of votes on a range of items each; return the number of items."""
    folder.mkdir(parents=True, exist_ok=True)
    accuracy = np.random.default_rng(0).beta(8, 3, n_annotators)
    n_items = n_votes // VOTES_PER_ITEM
    for turn in range(VOTES_PER_ITEM):
        for start in range(0, n_items, ROWS):
            rng = np.random.default_rng([turn, start])
            item = rng.permutation(np.arange(start, min(start + ROWS, n_items)))
            annotator = rng.integers(0, n_annotators, len(item))
            wrong = rng.random(len(item)) > accuracy[annotator]
            # The next classes are mistaken for the true one most often.
            step = np.minimum(rng.geometric(0.4, len(item)), n_classes - 1)
            label = (truth(item, n_classes) + wrong * step) % n_classes
            names = {"item": (item, "item-", 9), "annotator": (annotator, "a", 5), "label": (label, "class-", 2)}
            columns = {
                name: pl.Series(codes).cast(pl.String).str.zfill(width).to_frame("x").select(prefix + pl.col("x")).to_series()
                for name, (codes, prefix, width) in names.items()
            }
            pl.DataFrame(columns).write_parquet(folder / f"round-{turn}-{start // ROWS:04d}.parquet")
    return n_items


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("votes", type=int)
    parser.add_argument("--classes", type=int, default=15)
    parser.add_argument("--annotators", type=int, default=10_000)
    given = parser.parse_args()
    print(f"{write(given.folder, given.votes, given.classes, given.annotators):,} items")


if __name__ == "__main__":
    main()
