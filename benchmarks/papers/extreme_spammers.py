"""Annotators who answered most of the items of temp and rte, and how often they were right (Kim et al. 2022, figure 10).

    python -m benchmarks run extreme_spammers

The paper calls those who "attempt the most of the tasks" extreme spammers; here they are those with votes on two thirds of the
items or more, whatever their answers.
"""

from __future__ import annotations

import numpy as np

from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records

BENCHMARK = Benchmark(
    "Do extreme spammers exist in real crowds?",
    sections=("extreme spammers",),
    data=("temp", "rte"),
    measures=("data", "io"),
    renders=("",),
)

KEPT = Records("extreme_spammers")
# Items and share of right answers, as the caption of figure 10 has them.
PAPER = {
    "temp": {442: 0.50, 452: 0.44, 462: 0.44},
    "rte": {540: 0.50, 700: 0.58, 760: 0.49, 800: 0.50},
}
MOST = 2 / 3


def busiest(name: str) -> list[list[float]]:
    """Answered items and share of right answers of everybody who answered most of the items, the busiest last."""
    votes, truth = labelled(name)
    right = votes.label == truth[votes.item]
    many = np.flatnonzero(votes.votes_per_annotator >= MOST * votes.n_items)
    found = [[int(votes.votes_per_annotator[a]), float(right[votes.annotator == a].mean())] for a in many]
    return sorted(found)


def main() -> None:
    rows = []
    for name, printed in PAPER.items():
        for n_items, share in KEPT.once(name, lambda name=name: busiest(name)):
            paper = printed.get(round(n_items))
            rows.append([name, f"{n_items:.0f}", f"{share:.2f}", "-" if paper is None else f"{paper:.2f}"])
    head = ["set", "items answered", "right", "paper"]
    about = f"\nEverybody with votes on {100 * MOST:.0f} % of the items or more.\n\n"
    put("extreme spammers", provenance("python -m benchmarks run extreme_spammers", KEPT) + about + table(head, rows))
