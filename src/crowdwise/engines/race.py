"""Several runs of engine 1 side by side, of which those that trail are given up.

All runs advance together, one iteration at a time; every `heat` iterations the half with the higher
bounds continues (and the first run, so that more starts never end lower than one). The trace is
that of the run ahead at each iteration, hence it never falls either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import (
    Fit,
    LabelPrior,
    Parts,
    Progress,
    Round,
    Run,
    begin_at,
    round_over,
    settled,
    warn_unless_converged,
)
from crowdwise.engines.shards import Whole
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.model import AnnotatorModel

__all__ = ["race"]


@dataclass(eq=False)
class _Runner:
    """One run: its votes with their posterior, its parts, and the rounds so far."""

    shards: Whole
    parts: Parts
    step: Callable[[Parts], tuple[Parts, Round]]
    rounds: list[Round] = field(default_factory=list)
    converged: bool = False

    def advance(self, tol: float) -> None:
        if not self.converged:
            self.parts, done = self.step(self.parts)
            self.rounds.append(done)
            self.converged = settled(self.rounds, tol)

    @property
    def bound(self) -> float:
        return self.rounds[-1].bound


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
    """Run from every start until the stopping rule is met by each run that is left; keep the best."""
    runners = [_runner(votes, prior, annotators, start) for start in starts]
    first, live = runners[0], runners
    ahead: list[Round] = []
    for iteration in range(max_iter):
        for runner in live:
            runner.advance(tol)
        ahead.append(max(live, key=lambda runner: runner.bound).rounds[-1])
        if progress is not None:
            progress(iteration + 1, ahead[-1].bound, max(runner.rounds[-1].change for runner in live))
        if all(runner.converged for runner in live):
            break
        if (iteration + 1) % heat == 0:
            best = sorted(live, key=lambda runner: -runner.bound)[: (len(live) + 1) // 2]
            live = [runner for runner in live if runner is first or runner in best]
    winner = max(live, key=lambda runner: runner.bound)
    run = warn_unless_converged(Run(winner.parts, ahead, winner.converged), stacklevel=4)
    return Fit(winner.shards.posterior, run.state.prior, run.state.annotators, run.trace, run.n_iter, run.converged)


def _runner(votes: Annotations, prior: LabelPrior, annotators: AnnotatorModel, start: Floats) -> _Runner:
    shards = Whole(votes, np.empty(0, np.int16))
    return _Runner(
        shards, Parts(prior, annotators, shards.renew(begin_at, prior, annotators, False, start)), round_over(shards)
    )
