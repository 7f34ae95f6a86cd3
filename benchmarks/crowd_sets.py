"""Real sets of votes, and simulated ones in their place in quick runs."""

from __future__ import annotations

from functools import cache

import numpy as np

import crowdwise
from benchmarks.places import SHARED
from crowdwise.data.annotations import Annotations
from crowdwise.data.gold import encode_gold


@cache
def labelled(name: str) -> tuple[Annotations, np.ndarray]:
    """Votes without repeats, and the true class of every item, -1 where it is unknown."""
    folder = SHARED / name
    votes = crowdwise.read(next(folder.glob("annotations.csv*"))).deduplicate()
    return votes, encode_gold(votes, crowdwise.io.read_gold(folder / "truth.csv"))
