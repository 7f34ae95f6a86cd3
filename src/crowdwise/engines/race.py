"""Several runs of engine 1 side by side, of which those that trail are given up.

All runs advance together, one iteration at a time; every `heat` iterations the half with the higher
bounds goes on (and the first run, so that more starts never end lower than one). The trace is
that of the run ahead at each iteration, hence it never falls either.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.engines.alternate import Fit, LabelPrior, Progress, alternate
from crowdwise.errors import ConvergenceWarning

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.parts.annotators.protocol import AnnotatorModel

__all__ = ["race"]

Floats = NDArray[np.float64]


def race(
    votes: Annotations,
    prior: LabelPrior,
    annotators: AnnotatorModel,
    *,
    starts: list[Floats],
    max_iter: int,
    tol: float,
    heat: int = 40,
    progress: Progress | None = None,
) -> Fit:
    """Run from every start until the stopping rule of `alternate` is met by each run that is left; keep the best."""
    runs = [Fit(start, prior, annotators, {}, 0, False) for start in starts]
    live = list(range(len(runs)))
    ahead: list[Fit] = []
    known: NDArray[Any] = np.empty(0, np.int16)
    for iteration in range(max_iter):
        change = 0.0
        for i in [i for i in live if not runs[i].converged]:
            last = runs[i]
            now = alternate(votes, last.prior, last.annotators, start=last.posterior, known=known, max_iter=1, tol=tol)
            moved = float(np.abs(now.posterior - last.posterior).max(initial=0.0))
            still = abs(now.bound - last.bound) <= tol * abs(now.bound) and moved <= 100 * tol
            runs[i] = replace(now, converged=bool(iteration and still))
            change = max(change, moved)
        ahead.append(max((runs[i] for i in live), key=lambda run: run.bound))
        if progress is not None:
            progress(iteration + 1, ahead[-1].bound, change)
        if all(runs[i].converged for i in live):
            break
        if (iteration + 1) % heat == 0:
            best = sorted(live, key=lambda i: -runs[i].bound)[: (len(live) + 1) // 2]
            live = sorted({0, *best})
    winner = ahead[-1]
    if not winner.converged:
        warnings.warn(
            f"stopped after {len(ahead)} iterations before the stopping rule was met; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    trace = {name: np.concatenate([run.trace[name] for run in ahead]) for name in winner.trace}
    return replace(winner, trace=trace, n_iter=len(ahead))
