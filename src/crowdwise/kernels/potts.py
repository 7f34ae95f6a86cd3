"""A Potts field on the edges of a graph: labels of neighbours are alike, the more the stronger the coupling.

    p(z) proportional to prod_n d[z_n] exp(coupling sum over edges (n, m) of w_nm 1[z_n = z_m])

Two ways to the posterior of labels with evidence of their own, each a sweep at a time:

    mean field   q_n proportional to exp(scores_n + coupling sum_m w_nm q_m), an item after the other: its bound never falls
    beliefs      messages along the edges (loopy belief propagation); exact where the graph has no cycles

and, for both, what all *other* items say of an item (the cavity): from that the coupling is learned, see `pseudo_likelihood`.

Symbols
-------
scores_nk : [N, K]    log class shares + log evidence of the item's own votes
cavity : [2 E, K]     what an item would be without one of its neighbours; a row per end of an edge
field_nk : [N, K]     what the neighbours add to the scores of an item, the item's own votes left out
slope_nk : [N, K]     its derivative by the coupling
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crowdwise.kernels.numerics import in_ranges, log_softmax, of_type
from crowdwise.kernels.types import Floats, Integers

__all__ = ["Neighbours", "PseudoLikelihood", "alikeness", "associated", "association", "believed_field", "cavity_of"]
__all__ += ["expected_field", "pseudo_likelihood", "sweep_beliefs", "sweep_mean_field"]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The edges of a graph as a list of neighbours per item; every edge is there twice, once from each end.

    Attributes
    ----------
    ptr : [N + 1]
        Neighbours of item n are at ``ptr[n]:ptr[n + 1]``.
    neighbour, weight : [2 E]
    reverse : [2 E]
        Where the same edge stands at its other end.
    """

    ptr: Integers
    neighbour: Integers
    weight: Floats
    reverse: Integers

    @classmethod
    def of(cls, n_items: int, first: Integers, second: Integers, weight: Floats) -> Neighbours:
        """Of edges between different items, each once, by the positions of their ends."""
        n_edges = len(first)
        source, target = np.concatenate([first, second]), np.concatenate([second, first])
        order = np.lexsort((target, source))
        place = np.empty(2 * n_edges, np.int64)
        place[order] = np.arange(2 * n_edges)
        reverse = place[(order + n_edges) % max(2 * n_edges, 1)]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n_items))])
        parts = of_type(np.int64, ptr), of_type(np.int64, target[order]), of_type(np.float64, np.tile(weight, 2)[order])
        return cls(*parts, of_type(np.int64, reverse))

    @property
    def n_items(self) -> int:
        """N."""
        return len(self.ptr) - 1

    @property
    def n_edges(self) -> int:
        """E."""
        return len(self.neighbour) // 2

    @property
    def item(self) -> Integers:
        """The item at this end of every entry, [2 E]."""
        return np.repeat(np.arange(self.n_items), np.diff(self.ptr))

    @cached_property
    def components(self) -> tuple[Integers, Integers, Integers]:
        """Items by connected component, [N]; where each component begins, [C + 1]; and entries before it, [C + 1].

        Components know nothing of each other: they are swept in any order, in threads.
        """
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import connected_components

        shape = self.n_items, self.n_items
        links = csr_matrix((np.ones(len(self.neighbour), np.int8), self.neighbour, self.ptr), shape=shape)
        n_components, label = connected_components(links, directed=False)
        order = of_type(np.int64, np.argsort(label, kind="stable"))
        begin = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=n_components))])
        size = np.bincount(label, weights=np.diff(self.ptr), minlength=n_components)
        return order, begin, np.concatenate([[0], np.cumsum(size)]).astype(np.int64)


def _over_components(graph: Neighbours, loop: object, *arrays: object) -> float:
    """Run a loop over all items, components in threads where it pays; add what it returns."""
    order, begin, entries = graph.components
    found = in_ranges(entries, lambda first, last: loop(int(begin[first]), int(begin[last]), order, *arrays))  # type: ignore[operator]
    return float(sum(part for part in found if part is not None))


def sweep_mean_field(graph: Neighbours, scores_nk: Floats, coupling: float, posterior: Floats) -> float:
    """A sweep of mean field forth and back, into `posterior`; return the sum over items of the shares that moved."""
    from crowdwise.kernels.potts_loops import mean_field_sweep

    scores = of_type(np.float64, scores_nk)
    return _over_components(
        graph, mean_field_sweep, graph.ptr, graph.neighbour, graph.weight, scores, float(coupling), posterior
    )


def sweep_beliefs(graph: Neighbours, scores_nk: Floats, coupling: float, cavity: Floats, posterior: Floats) -> float:
    """A sweep of belief propagation forth and back, into `cavity` and `posterior`; return the shares that moved, summed."""
    from crowdwise.kernels.potts_loops import belief_sweep

    scores = of_type(np.float64, scores_nk)
    return _over_components(
        graph, belief_sweep, graph.ptr, graph.reverse, graph.weight, scores, float(coupling), cavity, posterior
    )


def cavity_of(graph: Neighbours, posterior: Floats) -> Floats:
    """Messages to start from: every item is what it is, whoever asks, [2 E, K]."""
    return np.ascontiguousarray(posterior[graph.item])


def expected_field(graph: Neighbours, coupling: float, posterior: Floats) -> tuple[Floats, Floats]:
    """`field_nk` and `slope_nk` of a mean field.

    A neighbour m of n that never heard of n would be q_m / exp(coupling w q_n), normalised: otherwise votes on n come
    back as an echo from m, and any coupling confirms itself.
    """
    from crowdwise.kernels.potts_loops import mean_field

    slope = np.zeros(posterior.shape)
    q = of_type(np.float64, posterior)
    _over_components(graph, mean_field, graph.ptr, graph.neighbour, graph.weight, float(coupling), q, slope)
    return coupling * slope, slope


def believed_field(graph: Neighbours, coupling: float, cavity: Floats) -> tuple[Floats, Floats]:
    """`field_nk` and `slope_nk` of messages."""
    from crowdwise.kernels.potts_loops import belief_field

    shape = graph.n_items, cavity.shape[1]
    field, slope = np.zeros(shape), np.zeros(shape)
    messages = of_type(np.float64, cavity)
    _over_components(graph, belief_field, graph.ptr, graph.reverse, graph.weight, float(coupling), messages, field, slope)
    return field, slope


# -- learning the coupling -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PseudoLikelihood:
    """How well all other items predict the votes of each, and which way the coupling and the shares should go.

    Attributes
    ----------
    value : float
        sum_n log sum_k p_nk exp(evidence_nk)
    slope, information : float
        Derivative of `value` by the coupling, and the information of the labels on it, if they were known.
    before_k, after_k : [K]
        Items of each class, expected before and after their own votes.
    """

    value: float
    slope: float
    information: float
    before_k: Floats
    after_k: Floats


def pseudo_likelihood(log_shares: Floats, evidence_nk: Floats, field_nk: Floats, slope_nk: Floats) -> PseudoLikelihood:
    """Besag's pseudo-likelihood, of votes: sum_n log p(votes on n | votes on all other items), the cavities held fixed.

    With p_n proportional to shares * exp(field_n), r_n proportional to p_n * exp(evidence_n), the derivative by the coupling is
    sum_nk (r_nk - p_nk) slope_nk. Its expectation is zero at the true coupling, because field and slope know nothing of the
    votes on n.
    """
    log_before = log_softmax(log_shares + field_nk)
    joint = log_before + evidence_nk
    before, after = np.exp(log_before), np.exp(log_softmax(joint))
    top = joint.max(axis=1, initial=-np.inf)
    value = float((top + np.log(np.exp(joint - top[:, None]).sum(axis=1))).sum())
    mean = (before * slope_nk).sum(axis=1)
    information = float((before * slope_nk**2).sum() - mean @ mean)
    return PseudoLikelihood(
        value, float(((after - before) * slope_nk).sum()), information, before.sum(axis=0), after.sum(axis=0)
    )


def alikeness(graph: Neighbours, posterior: Floats, mean_k: Floats) -> tuple[Floats, Floats]:
    """What `associated` needs of some items, given the mean posterior of all; sums that add up over parts of a graph.

    The sum of x_n x_n', [K, K], and in one array the sums over both ends of all edges of w x_n . x_m and of w^2.
    """
    x = posterior - mean_k
    alike = np.einsum("jk,jk->j", x[graph.item], x[graph.neighbour])
    return x.T @ x, np.array([graph.weight @ alike, graph.weight @ graph.weight])


def associated(squares_kk: Floats, pairs: Floats, n_items: int) -> float:
    """By how many standard deviations neighbours are more alike than any two items, of the sums of `alikeness`."""
    covariance = squares_kk / max(n_items, 1)
    variance = 0.5 * float(pairs[1]) * float((covariance**2).sum())
    return 0.5 * float(pairs[0]) / variance**0.5 if variance > 0 else 0.0


def association(graph: Neighbours, posterior: Floats) -> float:
    """By how many standard deviations neighbours are more alike than any two items, [-inf, inf]; 0 where nothing tells.

    With x_n = q_n - mean q, the sum over edges of w x_n . x_m has mean 0 and variance sum(w^2) trace(S S), S the covariance
    of x, if labels do not depend on the edges: terms of two edges that share one item are uncorrelated.
    """
    return associated(*alikeness(graph, posterior, posterior.mean(axis=0)), len(posterior))
