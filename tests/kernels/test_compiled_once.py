"""Compiled loops are compiled once on a machine: for one combination of types each, and kept in numba's cache.

Two processes after one another share a fresh cache. The first one compiles, the second must find everything there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Fits that use every family of loops, with what changes the types of arrays: weights, known labels, slices, mapped files.
PROGRAM = """
import json, sys, tempfile, warnings
from pathlib import Path

import numpy as np

warnings.simplefilter("ignore")
from crowdwise import Annotations, make
from crowdwise.data.simulate import simulate
from crowdwise.kernels import gated_loops, logistic_loops, loops, outlier_loops, potts_loops, tilt_loops, vote_loops
from crowdwise.kernels import logistic, numerics, tilt
from crowdwise.scale import Local

for module in (numerics, logistic, tilt):
    module.COMPILED_FROM = 0
crowd = simulate(n_items=60, n_annotators=8, n_classes=3, votes_per_item=4, random_state=0)
votes = crowd.votes
gold = dict(zip(votes.items[:5].tolist(), votes.classes[crowd.truth[:5]].tolist()))
weighted = Annotations.from_arrays(votes.item, votes.annotator, votes.label, weight=np.linspace(0.5, 2, votes.n_votes))
for name in ("dawid-skene", "one-coin", "mace", "glad", "consensus"):
    for given, known in ((votes, None), (votes, gold), (weighted, None), (votes[10:50], None)):
        make(name).fit(given, gold=known)
for inference in ("bp", "mean-field"):
    for given, known in ((votes, None), (votes, gold), (weighted, None)):
        edges = np.stack([given.items[:-1], given.items[1:]], axis=1)
        make("graph-dawid-skene", edges=edges, coupling=0.5, inference=inference).fit(given, gold=known)
with tempfile.TemporaryDirectory() as folder:
    votes.to_frame().write_csv(Path(folder) / "votes.csv")
    with Local(shards=2) as engine:
        make("dawid-skene").fit(Path(folder) / "votes.csv", engine=engine)
        make("one-coin").fit(Path(folder) / "votes.csv", engine=engine)
found = {}
for module in (vote_loops, logistic_loops, tilt_loops, potts_loops):
    for name, loop in vars(module).items():
        if hasattr(loop, "signatures") and loop.__module__ == module.__name__:
            found[f"{module.__name__}.{name}"] = {
                "signatures": len(loop.signatures),
                "misses": sum(loop.stats.cache_misses.values()),
                "hits": sum(loop.stats.cache_hits.values()),
            }
uncached = [
    f"{module.__name__}.{name}"
    for module in (vote_loops, logistic_loops, tilt_loops, potts_loops, loops, gated_loops, outlier_loops)
    for name, loop in vars(module).items()
    if hasattr(loop, "signatures") and type(loop._cache).__name__ == "NullCache"
]
print(json.dumps({"found": found, "uncached": uncached}))
"""


def run(cache: Path) -> dict[str, Any]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "CROWDWISE_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.mark.slow
def test_every_loop_is_compiled_for_one_combination_of_types_and_never_again(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first["uncached"] == []
    called = {name: counts for name, counts in first["found"].items() if counts["signatures"]}
    assert len(called) >= 9
    assert {name: counts["signatures"] for name, counts in called.items()} == dict.fromkeys(called, 1)
    assert sum(counts["misses"] for counts in second["found"].values()) == 0
    assert all(second["found"][name]["signatures"] <= 1 for name in called)
