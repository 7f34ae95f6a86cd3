"""Bradley-Terry beside choix and crowd-kit, on the same comparisons in one run.

.venv-bench/bin/python -m benchmarks run versus_ranking
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any, NamedTuple

import choix
import numpy as np
import pandas as pd
from crowdkit.aggregation import BradleyTerry, NoisyBradleyTerry
from scipy.stats import kendalltau

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from crowdwise.data.simulate.comparisons import Simulated, simulate_comparisons

BENCHMARK = Benchmark(
    "Is Bradley-Terry the same as choix's and crowd-kit's, and how fast?",
    sections=("ranking versus",),
    packages=("choix", "crowdkit"),
    renders=("",),
)

RUNS = Records("versus_ranking")
SIZES = [(100, 4_000, 40), (1_000, 50_000, 200)]


class Given(NamedTuple):
    """The same comparisons in the forms that libraries take."""

    sim: Simulated
    n: int
    pairs: list[tuple[int, int]]
    frame: pd.DataFrame


@cache
def drawn(n_items: int, n_votes: int, n_annotators: int) -> Given:
    sim = simulate_comparisons(n_items, n_votes, n_annotators, spammers=0.2, adversaries=0.1, score_sd=1.0, random_state=1)
    return Given(sim, n_items, winners_of(sim), frame_of(sim))


def ours(method: str, **settings: Any) -> Callable[[Given], Any]:
    return lambda given: crowdwise.make(method, **settings).fit(given.sim.comparisons).scores_


def winners_of(sim: Simulated) -> list[tuple[int, int]]:
    votes = sim.comparisons
    first = votes.outcome > 0
    return list(
        zip(
            np.where(first, votes.first, votes.second).tolist(),
            np.where(first, votes.second, votes.first).tolist(),
            strict=True,
        )
    )


def frame_of(sim: Simulated) -> pd.DataFrame:
    votes = sim.comparisons
    label = np.where(votes.outcome > 0, votes.first, votes.second)
    return pd.DataFrame({"worker": votes.annotator, "left": votes.first, "right": votes.second, "label": label})


def in_order(scores: pd.Series, n_items: int) -> Any:
    return np.log(np.maximum(scores.reindex(range(n_items)).to_numpy(), 1e-300))


# What has no prior, and is compared with the first.
SAME: dict[str, Callable[[Given], Any]] = {
    "crowdwise bradley-terry, newton, prior 0": ours("bradley-terry", prior=0.0, draws=2),
    "crowdwise bradley-terry, mm, prior 0": ours("bradley-terry", prior=0.0, draws=2, solver="mm"),
    "choix mm_pairwise": lambda given: choix.mm_pairwise(given.n, given.pairs),
    "choix opt_pairwise": lambda given: choix.opt_pairwise(
        given.n, given.pairs, alpha=0.0, method="BFGS" if given.n <= 100 else "Newton-CG"
    ),
    "crowd-kit BradleyTerry, 100 iterations": lambda given: in_order(
        BradleyTerry(100).fit_predict(given.frame[["left", "right", "label"]]), given.n
    ),
}
NEWTON = next(iter(SAME))
FITS: dict[str, Callable[[Given], Any]] = SAME | {
    "crowdwise crowd-bt": ours("crowd-bt", draws=2),
    "crowdwise noisy-bt": ours("noisy-bt", draws=2),
    "crowd-kit NoisyBradleyTerry, 100 iterations": lambda given: in_order(
        NoisyBradleyTerry(100, random_state=0).fit_predict(given.frame), given.n
    ),
}


@cache
def reference(*size: int) -> Any:
    return np.asarray(FITS[NEWTON](drawn(*size)), float)


@RUNS.each
def measured(name: str, *size: int) -> dict[str, Any]:
    """Seconds, Kendall's tau with the truth, and the largest difference from the reference; or what it failed with."""
    given = drawn(*size)
    started, worked = perf_counter(), process_time()
    try:
        score = np.asarray(FITS[name](given), float)
    except Exception as problem:
        return {"failed": type(problem).__name__}
    found = {"seconds": perf_counter() - started, "processor": process_time() - worked}
    found["tau"] = float(kendalltau(score, given.sim.score)[0])
    if name in SAME and name != NEWTON:
        found["apart"] = float(np.abs(score - score.mean() - reference(*size) + reference(*size).mean()).max())
    return found


@RUNS.each
def versions() -> str:
    return ", ".join(f"{package} {version(package)}" for package in ("choix", "crowd-kit"))


def main() -> None:
    rows = []
    for size in SIZES:
        for name in FITS:
            run = measured(name, *size)
            apart = f"{run['apart']:.1e}" if "apart" in run else "-"
            cells = ["-", "-", "-", f"failed: {run['failed']}"] if "failed" in run else [
                f"{run['seconds']:.2f}", f"{run['processor']:.2f}", apart, f"{run['tau']:.3f}"
            ]  # fmt: skip
            rows.append([f"{size[0]:,} / {size[1]:,}", name, *cells])
            print(rows[-1], flush=True)
    libraries = versions()
    text = [
        provenance(".venv-bench/bin/python -m benchmarks run versus_ranking", RUNS),
        f"{libraries}. Drawn by crowd-bt's model: 20% spammers, "
        "10% adversaries. *Difference*: largest "
        "distance of a score from ours by Newton's method, all without a prior. Ours include standard errors.\n",
        table(["items / comparisons", "fit", "seconds", "of the processor", "difference", "tau"], rows),
    ]
    put("ranking versus", "\n".join(text))
