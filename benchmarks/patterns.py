"""How often items have the same votes: what a fit could save that looks at every pattern of votes once.

    python benchmarks/patterns.py [SET ...]

A pattern is who voted what on an item. Without arguments all sets are counted, and simulated crowds of a million votes.
"""

from __future__ import annotations

import sys

import numpy as np
from page import SHARED, provenance, put, table
from stopping import SETS

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate


def counted(name: str, votes: Annotations) -> list[str]:
    """Items, distinct patterns, and the share of the votes that is left of one copy of each."""
    ends = zip(votes.item_ptr[:-1], votes.item_ptr[1:], strict=True)
    rows = [np.sort(votes.row[start:stop]).tobytes() for start, stop in ends]
    sizes = {row: len(row) // votes.row.itemsize for row in rows}
    left = sum(sizes.values()) / max(votes.n_votes, 1)
    print(name, f"{votes.n_items:,}", f"{len(sizes):,}", f"{left:.0%}", flush=True)
    return [name, f"{votes.n_votes:,}", f"{votes.n_items:,}", f"{votes.n_annotators:,}", f"{len(sizes):,}", f"{left:.0%}"]


def main(names: list[str]) -> None:
    rows = []
    for name in names or SETS:
        votes = crowdwise.read(next((SHARED / name).glob("annotations.csv*"))).deduplicate()
        rows.append(counted(name, votes))
    if names:
        return
    for annotators, per_item in ((1000, 10), (20, 3)):
        crowd = simulate(
            n_items=10**6 // per_item, n_annotators=annotators, n_classes=5, votes_per_item=per_item, random_state=0
        )
        rows.append(counted(f"simulated, {annotators:,} annotators, {per_item} votes per item", crowd.votes))
    header = ["votes of", "votes", "items", "annotators", "patterns", "votes left"]
    put("patterns", f"{provenance('python benchmarks/patterns.py')}\n{table(header, rows)}")


if __name__ == "__main__":
    main(sys.argv[1:])
