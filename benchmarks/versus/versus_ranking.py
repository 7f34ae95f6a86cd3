"""Bradley-Terry beside choix and crowd-kit, on the same comparisons in one run.

.venv-bench/bin/python -m benchmarks run versus_ranking
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any

import choix
import numpy as np
import pandas as pd
from crowdkit.aggregation import BradleyTerry, NoisyBradleyTerry
from scipy.stats import kendalltau

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from crowdwise.data.simulate.comparisons import Simulated, simulate_comparisons

BENCHMARK = Benchmark(
    "Is Bradley-Terry the same as choix's and crowd-kit's, and how fast?",
    sections=("ranking versus",),
    packages=("choix", "crowdkit"),
)

SIZES = [(100, 4_000, 40), (1_000, 50_000, 200)]


def ours(method: str, **settings: Any) -> Callable[[Simulated], Any]:
    return lambda sim: crowdwise.make(method, **settings).fit(sim.comparisons).scores_


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


def main() -> None:
    rows = []
    for n_items, n_votes, n_annotators in SIZES:
        sim = simulate_comparisons(n_items, n_votes, n_annotators, spammers=0.2, adversaries=0.1, score_sd=1.0, random_state=1)
        pairs, frame, n = winners_of(sim), frame_of(sim), n_items
        runs: dict[str, tuple[Callable[[], Any], str | None]] = {
            "crowdwise bradley-terry, newton, prior 0": (lambda sim=sim: ours("bradley-terry", prior=0.0, draws=2)(sim), None),
            "crowdwise bradley-terry, mm, prior 0": (
                lambda sim=sim: ours("bradley-terry", prior=0.0, draws=2, solver="mm")(sim),
                "newton",
            ),
            "choix mm_pairwise": (lambda n=n, pairs=pairs: choix.mm_pairwise(n, pairs), "newton"),
            "choix opt_pairwise": (
                lambda n=n, pairs=pairs: choix.opt_pairwise(n, pairs, alpha=0.0, method="BFGS" if n <= 100 else "Newton-CG"),
                "newton",
            ),
            "crowd-kit BradleyTerry, 100 iterations": (
                lambda n=n, frame=frame: in_order(BradleyTerry(100).fit_predict(frame[["left", "right", "label"]]), n),
                "newton",
            ),
            "crowdwise crowd-bt": (lambda sim=sim: ours("crowd-bt", draws=2)(sim), None),
            "crowdwise noisy-bt": (lambda sim=sim: ours("noisy-bt", draws=2)(sim), None),
            "crowd-kit NoisyBradleyTerry, 100 iterations": (
                lambda n=n, frame=frame: in_order(NoisyBradleyTerry(100, random_state=0).fit_predict(frame), n),
                None,
            ),
        }
        reference: Any = None
        for name, (run, against) in runs.items():
            started, worked = perf_counter(), process_time()
            try:
                score = np.asarray(run(), float)
            except Exception as problem:
                rows.append([f"{n_items:,} / {n_votes:,}", name, "-", "-", "-", f"failed: {type(problem).__name__}"])
                continue
            seconds, processor = perf_counter() - started, process_time() - worked
            score = score - score.mean()
            reference = score if reference is None else reference
            agreement = f"{np.abs(score - reference).max():.1e}" if against else "-"
            tau = f"{kendalltau(score, sim.score)[0]:.3f}"
            rows.append([f"{n_items:,} / {n_votes:,}", name, f"{seconds:.2f}", f"{processor:.2f}", agreement, tau])
            print(rows[-1], flush=True)
    text = [
        provenance(".venv-bench/bin/python -m benchmarks run versus_ranking"),
        f"choix {version('choix')}, crowd-kit {version('crowd-kit')}. Drawn by crowd-bt's model: 20% spammers, "
        "10% adversaries. *Difference*: largest "
        "distance of a score from ours by Newton's method, all without a prior. Ours include standard errors.\n",
        table(["items / comparisons", "fit", "seconds", "of the processor", "difference", "tau"], rows),
    ]
    put("ranking versus", "\n".join(text))
