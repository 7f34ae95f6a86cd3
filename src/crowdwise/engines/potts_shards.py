"""Labels that depend on each other along edges, over shards: connected components lie in one shard each.

Components know nothing of each other, so a sweep over a shard is the sweep of `potts` over its components; annotators, shares
and coupling are fitted to sums over all shards. A round is two passes:

    likelihood   which way shares and coupling should go, under the annotators of the last sweep
    swept        a sweep, its pseudo-likelihood, and the counts that annotators are fitted to next

Graph, posteriors and messages of a shard lie in files beside its votes and are read for as long as a step takes. A sweep reads
those of one turn and writes those of the next: done twice, because the process that held the shard was lost, it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crowdwise.engines.loop import Fit, Progress, continued, loop
from crowdwise.engines.potts import PATIENCE, CoupledItems, stepped
from crowdwise.engines.shards import TERMS, Round, Shard, ShardLost, Shards, Tally
from crowdwise.io.stored import load_array
from crowdwise.kernels.potts import Neighbours, alikeness, associated
from crowdwise.kernels.types import Floats
from crowdwise.parts.priors.potts import PottsField

__all__ = ["EDGES", "FIELD", "Graphs", "associate", "couple_over", "leave_alone", "prepare"]

#: Files of a shard: both ends of its edges and their weight, [E, 3]; and log-probabilities before votes, [N, K].
EDGES, FIELD = "edges.npy", "field.npy"
# Looks at all shards that are begun again where one is lost on the way.
_ATTEMPTS = 10
_GRAPH = ("ptr", "neighbour", "weight", "reverse")
_COMPONENTS = ("order", "begin", "entries")


@dataclass(frozen=True)
class Graphs:
    """The graphs of all shards: edges in all and the largest weight, and items and edges of the shard with most of them."""

    n_edges: int = 0
    largest_weight: float = 0.0
    most_items: int = 0
    most_edges: int = 0

    @property
    def numbers_per_class(self) -> int:
        """Numbers that a step on the largest shard holds per class: messages twice, and six arrays of items."""
        return 4 * self.most_edges + 6 * self.most_items


def prepare(shards: Shards) -> Graphs:
    """Make the graph of every shard, of the edges that lie beside its votes."""
    # Of a shard that is lost, the graph is there already, or made again.
    shards.total(_prepare)
    for _ in range(_ATTEMPTS):
        try:
            return shards.fold(_sized, Graphs())
        except ShardLost:
            continue
    raise ShardLost


def associate(shards: Shards, graphs: Graphs) -> tuple[float, float]:
    """How much neighbours are alike (`association`), and the mean square of the weights."""
    first = shards.total(_mass)
    squares, pairs = shards.total(_alike, first.sums[0] / max(first.n_items, 1)).sums
    return associated(squares, pairs, first.n_items), float(pairs[1]) / max(2 * graphs.n_edges, 1)


def couple_over(
    shards: Shards,
    fit: Fit,
    *,
    coupling: float | None,
    association: float,
    weights: tuple[float, float],
    beliefs: bool,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
) -> Fit:
    """As `couple`, over shards with edges; `weights` are the mean square and the largest weight of all edges."""
    counts = shards.total(_begin, fit.annotators, beliefs).sums

    def step(before: _State) -> tuple[_State, Round]:
        annotators = before.annotators.conditioned(before.counts)
        shares = before.shares
        found = shards.total(_likelihood, before.turn, annotators, shares, before.coupling, beliefs).sums
        shares = shares.conditioned(shares.probability * found[2] / np.maximum(found[1], 1e-300))
        slope, information = found[0]
        now = stepped(before.coupling, float(slope), float(information), *weights) if before.learn else before.coupling
        done = shards.total(_swept, before.turn, annotators, shares, now, beliefs)
        terms = dict(zip(TERMS, (done.evidence, -shares.penalty(), -annotators.penalty()), strict=True))
        told = Round(done.mean_change, terms)
        after = _State(annotators, shares, now, done.sums, before.learn, before.turn + 1)
        return (_watched(shards, before, after, told.bound) if before.learn else after), told

    first = _State(fit.annotators, fit.prior, coupling or 0.0, counts, coupling is None)
    run = loop(step, first, max_iter=max_iter, tol=tol, progress=continued(progress, fit.n_iter))
    last = run.state
    ended = shards.renew(_finish, last.turn, last.annotators, last.shares, last.coupling, beliefs)
    mean = ended.sums[0] / max(ended.n_items, 1)
    prior = PottsField(np.log(mean)[None], last.shares, float(last.coupling), association, mean)
    trace = {term: np.concatenate([fit.trace[term], run.trace[term]]) for term in TERMS}
    done = replace(fit, prior=prior, annotators=last.annotators, trace=trace)
    return replace(done, n_iter=fit.n_iter + run.n_iter, converged=run.converged)


def leave_alone(shards: Shards, fit: Fit, association: float) -> Fit:
    """The fit of items without edges; posteriors become again what its parts say of the votes."""
    shards.renew(_single, fit.annotators, fit.prior)
    return replace(fit, prior=PottsField(fit.prior.log_prob(), fit.prior, 0.0, association))


@dataclass(frozen=True, eq=False)
class _State:
    """Parts after a round, and the counts of annotators under the posteriors that it left in the shards."""

    annotators: Any
    shares: Any
    coupling: float
    counts: tuple[Floats, ...]
    learn: bool
    turn: int = 0
    best: tuple[float, int, _State] | None = None


def _watched(shards: Shards, before: _State, after: _State, value: float) -> _State:
    """As in `potts`: where the pseudo-likelihood has fallen for long, the best state with its posteriors."""
    if before.best is None or value > before.best[0]:
        shards.total(_remember, after.turn)
        return replace(after, best=(value, 0, after))
    best, waited, state = before.best
    if waited + 1 == PATIENCE:
        shards.total(_recall, after.turn)
        return replace(state, learn=False, turn=after.turn)
    return replace(after, best=(best, waited + 1, state))


# -- what is done with a shard -----------------------------------------------------------------


def _folder(shard: Shard) -> Path:
    assert shard.folder is not None
    return Path(shard.folder)


def _prepare(shard: Shard) -> Tally:
    folder = _folder(shard)
    ends = load_array(folder / EDGES)
    codes = ends[:, :2].astype(np.int64)
    graph = Neighbours.of(shard.votes.n_items, codes[:, 0], codes[:, 1], np.ascontiguousarray(ends[:, 2]))
    for name in _GRAPH:
        np.save(folder / f"graph-{name}.npy", getattr(graph, name))
    for name, array in zip(_COMPONENTS, graph.components, strict=True):
        np.save(folder / f"graph-{name}.npy", array)
    return Tally()


def _sized(shard: Shard, before: Graphs) -> Graphs:
    graph = _items(shard, False).graph
    here = Graphs(graph.n_edges, float(graph.weight.max(initial=0.0)), graph.n_items, graph.n_edges)
    most = max(before, here, key=lambda each: each.numbers_per_class)
    weight = max(before.largest_weight, here.largest_weight)
    return Graphs(before.n_edges + graph.n_edges, weight, most.most_items, most.most_edges)


def _items(shard: Shard, beliefs: bool) -> CoupledItems:
    folder = _folder(shard)
    parts = {name: load_array(folder / f"graph-{name}.npy") for name in (*_GRAPH, *_COMPONENTS)}
    graph = Neighbours(*(parts[name] for name in _GRAPH))
    # Found once, when the graph was made.
    graph.__dict__["components"] = tuple(parts[name] for name in _COMPONENTS)
    return CoupledItems(shard.votes, shard.known, graph, beliefs)


def _state(shard: Shard, turn: int | str) -> tuple[Floats, Floats]:
    """Posterior and messages as a sweep left them, or the best ones."""
    return load_array(_files(shard, turn)[0]), load_array(_files(shard, turn)[1])


def _keep(shard: Shard, turn: int | str, posterior: Floats, cavity: Floats) -> None:
    for path, array in zip(_files(shard, turn), (posterior, cavity), strict=True):
        np.save(path, array)


def _files(shard: Shard, turn: int | str) -> list[Path]:
    """Two turns are kept at a time."""
    which = turn % 2 if isinstance(turn, int) else turn
    return [_folder(shard) / f"{name}-{which}.npy" for name in ("coupled", "cavity")]


def _mass(shard: Shard) -> Tally:
    return Tally((np.asarray(shard.posterior.sum(axis=0)),), n_items=shard.votes.n_items)


def _alike(shard: Shard, mean_k: Floats) -> Tally:
    return Tally(alikeness(_items(shard, False).graph, np.array(shard.posterior), mean_k))


def _begin(shard: Shard, annotators: Any, beliefs: bool) -> Tally:
    """Messages to start from, and the counts of annotators."""
    posterior = np.array(shard.posterior)
    _keep(shard, 0, posterior, _items(shard, beliefs).first_cavity(posterior))
    return Tally(annotators.statistics(shard.votes, posterior))


def _likelihood(shard: Shard, turn: int, annotators: Any, shares: Any, coupling: float, beliefs: bool) -> Tally:
    items, (posterior, cavity) = _items(shard, beliefs), _state(shard, turn)
    evidence, _ = items.evidence(annotators)
    found = items.likelihood(shares, evidence, *items.fields(coupling, posterior, cavity))
    return Tally((np.array([found.slope, found.information]), found.before_k, found.after_k))


def _swept(shard: Shard, turn: int, annotators: Any, shares: Any, coupling: float, beliefs: bool) -> Tally:
    items, (posterior, cavity) = _items(shard, beliefs), _state(shard, turn)
    evidence, constant = items.evidence(annotators)
    moved = items.sweep(shares.log_prob() + evidence, coupling, cavity, posterior)
    value = constant + items.likelihood(shares, evidence, *items.fields(coupling, posterior, cavity)).value
    _keep(shard, turn + 1, posterior, cavity)
    return Tally(annotators.statistics(shard.votes, posterior), value, moved, shard.votes.n_items)


def _remember(shard: Shard, turn: int) -> Tally:
    _keep(shard, "best", *_state(shard, turn))
    return Tally()


def _recall(shard: Shard, turn: int) -> Tally:
    _keep(shard, turn, *_state(shard, "best"))
    return Tally()


def _finish(shard: Shard, turn: int, annotators: Any, shares: Any, coupling: float, beliefs: bool) -> Tally:
    """Posteriors as the parts say them of these votes, all at a time; and what they rest on, kept in a file."""
    items, (posterior, cavity) = _items(shard, beliefs), _state(shard, turn)
    field, _ = items.fields(coupling, posterior, cavity)
    log_nk = items.log_prior(shares, coupling, posterior, field)
    annotators.infer(shard.votes, log_nk, shard.known, posterior)
    shard.posterior[:] = posterior
    np.save(_folder(shard) / FIELD, log_nk)
    return Tally((np.exp(log_nk).sum(axis=0),), n_items=shard.votes.n_items)


def _single(shard: Shard, annotators: Any, shares: Any) -> Tally:
    posterior = np.array(shard.posterior)
    annotators.infer(shard.votes, shares.log_prob(), shard.known, posterior)
    shard.posterior[:] = posterior
    np.save(_folder(shard) / FIELD, np.repeat(shares.log_prob(), shard.votes.n_items, axis=0))
    return Tally()
