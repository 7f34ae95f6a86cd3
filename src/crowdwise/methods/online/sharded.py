"""Online methods over shards: votes arrive shard by shard, and what was counted travels on.

The items of a shard are visited under the counts of all shards before, and its own counts go with these to the next one. Where
nothing is forgotten, a further sweep goes through all shards, and the fit is the one in memory. With steps or forgetting, a
vote weighs by its turn, which is not kept; a shard is then swept before the next one comes, as if each were an `update`
with ``revisit=0``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdwise.engines.loop import Fit, Round, Run, infer_and_count, loop, remaining
from crowdwise.engines.shards import Shard, ShardLost
from crowdwise.estimator.aggregator import Problem
from crowdwise.kernels.types import Floats
from crowdwise.methods.online.loops import averaged_weights
from crowdwise.methods.online.scheme import Scheme
from crowdwise.methods.online.state import State

__all__ = ["Counted", "fit_shards", "take_in"]


_ATTEMPTS = 10


class Counted(NamedTuple):
    """What a state has counted by annotators and classes, without any vote or item (see `crowdwise.methods.online.records`).

    `past` sums each annotator's averages over all of their turns, [A, L, K]; `change` is the sum over the items visited in the
    last sweep over each shard of the share of their probability that moved (where votes are forgotten, and each shard is swept
    to its end: of what is still to move), and `visited` their number.
    """

    counts: Floats
    totals: Floats
    used: Floats
    turns: NDArray[np.int32]
    shares: Floats
    clock: NDArray[np.int64]
    past: Floats
    change: float
    visited: int

    @classmethod
    def nothing(cls, n_annotators: int, n_classes: int) -> Counted:
        """Before the first vote."""
        table, rows = np.zeros((n_annotators, n_classes, n_classes)), np.zeros((n_annotators, n_classes))
        turns, clock = np.zeros(n_annotators, np.int32), np.zeros(1, np.int64)
        return cls(table, rows, rows, turns, np.zeros(n_classes), clock, table, 0.0, 0)

    @classmethod
    def of(cls, state: State, past: Floats, change: float, visited: int) -> Counted:
        """What a state has counted."""
        own = {name: state.used(name) for name in ("counts", "totals", "used", "turns")}
        return cls(**own, shares=state.arrays.shares, clock=state.arrays.clock, past=past, change=change, visited=visited)

    def put_into(self, state: State) -> None:
        """Make it what a fresh state has counted."""
        arrays, size = state.arrays, len(self.turns)
        for name in ("counts", "totals", "used", "turns"):
            getattr(arrays, name)[:size] = getattr(self, name)
        state.arrays = arrays._replace(shares=self.shares.copy(), clock=self.clock.copy())


def take_in(shard: Shard, before: Counted, scheme: Scheme, classes: NDArray[Any], first: bool) -> Counted:
    """Visit the items of a shard, for the `first` time or again; return what has been counted in all."""
    votes, n_annotators = shard.votes, len(before.turns)
    # Ids do not matter here, only that there are as many of them.
    plain = replace(votes, items=np.arange(votes.n_items), annotators=np.arange(n_annotators), classes=classes)
    state = State(classes)
    touched = state.add(plain)
    before.put_into(state)
    arrays = state.arrays
    if not first:
        # Counted before, at turns that do not matter where nothing is forgotten.
        arrays.posterior[: votes.n_items] = shard.posterior
        arrays.arrival[touched] = arrays.turn[: votes.n_votes] = 1
    longest = int(before.turns.max(initial=0)) + votes.n_votes
    memory = scheme.memory(max(longest, int(before.clock[0]) + len(touched)))
    run, _ = scheme.sweep(state, touched, memory, max_iter=scheme.method.sweeps if scheme.forgets else 1)
    shard.posterior[:] = arrays.posterior[: votes.n_items]
    past = before.past
    if scheme.forgets:
        past = past + _averages_since(state, before, memory.gain, memory.fade)
    change = remaining(run.rounds) if scheme.forgets else run.rounds[-1].change
    return Counted.of(state, past, before.change + change * len(touched), before.visited + len(touched))


def fit_shards(scheme: Scheme, problem: Problem) -> Fit:
    """Fit an online method to votes in shards."""
    crowd = problem.crowd
    for attempt in range(_ATTEMPTS):
        try:
            run = _sweep(scheme, problem)
            break
        except ShardLost:
            if attempt == _ATTEMPTS - 1:
                raise
    state = State.without_votes(crowd.classes, crowd.annotators)
    run.state.put_into(state)
    state.past = run.state.past
    prior: Any
    prior, annotators = scheme.parts(state, np.arange(crowd.n_annotators))
    evidence = problem.shards.renew(infer_and_count, prior, annotators, False).evidence
    terms = {"votes": evidence, "class prior": -prior.penalty(), "annotators": -annotators.penalty()}
    trace = {name: np.array([value]) for name, value in terms.items()}
    return Fit(problem.shards.posterior, prior, annotators, trace, 1, run.converged)


def _sweep(scheme: Scheme, problem: Problem) -> Run[Counted]:
    """Go through the shards until little changes; a method that visits items once has always come to its end."""
    crowd, method = problem.crowd, scheme.method
    first = True

    def step(counted: Counted) -> tuple[Counted, Round]:
        nonlocal first
        fresh = counted._replace(change=0.0, visited=0)
        counted = problem.shards.fold(take_in, fresh, scheme, crowd.classes, first)
        first = False
        return counted, Round(counted.change / max(counted.visited, 1))

    start = Counted.nothing(crowd.n_annotators, crowd.n_classes)
    sweeps = 1 if scheme.forgets else method.sweeps
    run = loop(step, start, max_iter=sweeps, tol=method.tol, progress=problem.progress)
    swept_inside = scheme.forgets and run.rounds[-1].change <= method.tol
    return replace(run, converged=run.converged or method.sweeps == 1 or swept_inside)


def _averages_since(state: State, before: Counted, gain: Floats, fade: Floats) -> Floats:
    """Sum of every annotator's averages over the turns of this shard, [A, L, K].

    At a later turn, what was counted before has faded by exp(fade[now] - fade[then]); votes of the shard are summed one by one.
    """
    turns, since = state.used("turns"), before.turns
    weight, faded = averaged_weights(state.used("turn"), state.used("annotator"), turns, since, gain, fade)
    if len(state.arrays.weight):
        weight *= state.used("weight")
    n_classes = len(state.classes)
    row = state.used("annotator").astype(np.int64) * n_classes + state.used("label")
    total = before.counts * faded[:, None, None]
    for k in range(n_classes):
        mass = weight * state.arrays.posterior[state.used("item"), k]
        total[:, :, k] += np.bincount(row, weights=mass, minlength=len(turns) * n_classes).reshape(-1, n_classes)
    return total
