"""Several runs of a step side by side, of which those that trail are given up.

All runs advance together, one iteration at a time; every `heat` iterations the half with the higher
bounds continues (and the first run, so that more starts never end lower than one). The trace is
that of the run ahead at each iteration, hence it never falls either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from crowdwise.engines.loop import Progress, Round, Run, settled, warn_unless_converged

__all__ = ["race"]

State = TypeVar("State")


@dataclass(eq=False)
class _Runner(Generic[State]):
    """One run: its state, and the rounds so far."""

    state: State
    rounds: list[Round] = field(default_factory=list)
    converged: bool = False

    def advance(self, step: Callable[[State], tuple[State, Round]], tol: float) -> None:
        if not self.converged:
            self.state, done = step(self.state)
            self.rounds.append(done)
            self.converged = settled(self.rounds, tol)

    @property
    def bound(self) -> float:
        return self.rounds[-1].bound


def race(
    step: Callable[[State], tuple[State, Round]],
    states: Iterable[State],
    *,
    max_iter: int,
    tol: float,
    heat: int = 40,
    progress: Progress | None = None,
) -> Run[State]:
    """Run from every state until the stopping rule is met by each run that is left; keep the best."""
    live = [_Runner(state) for state in states]
    first = live[0]
    ahead: list[Round] = []
    for iteration in range(max_iter):
        for runner in live:
            runner.advance(step, tol)
        ahead.append(max(live, key=lambda runner: runner.bound).rounds[-1])
        if progress is not None:
            progress(iteration + 1, ahead[-1].bound, max(runner.rounds[-1].change for runner in live))
        if all(runner.converged for runner in live):
            break
        if (iteration + 1) % heat == 0:
            best = sorted(live, key=lambda runner: -runner.bound)[: (len(live) + 1) // 2]
            live = [runner for runner in live if runner is first or runner in best]
    winner = max(live, key=lambda runner: runner.bound)
    return warn_unless_converged(Run(winner.state, ahead, winner.converged), stacklevel=4)
