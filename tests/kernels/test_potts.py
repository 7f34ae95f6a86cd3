"""Potts fields against every labelling of tiny graphs, against chains, and against differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from crowdwise.kernels import numerics, potts
from crowdwise.kernels.chains import Steps, forward_backward
from crowdwise.kernels.potts import (
    Neighbours,
    association,
    believed_field,
    cavity_of,
    expected_field,
    pseudo_likelihood,
    sweep_beliefs,
    sweep_mean_field,
)

Floats = NDArray[np.float64]
TREE = [(0, 1), (1, 2), (1, 3), (3, 4), (6, 7)]
LOOPY = [*TREE, (0, 2), (2, 4), (5, 7)]


def graph_of(edges: list[tuple[int, int]], n_items: int = 8, seed: int = 0) -> Neighbours:
    ends = np.array(edges)
    weight = np.random.default_rng(seed).uniform(0.3, 2, len(edges))
    return Neighbours.of(n_items, ends[:, 0], ends[:, 1], weight)


def scores(n_items: int = 8, n_classes: int = 3, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).normal(0, 1.5, (n_items, n_classes))


def enumerated(graph: Neighbours, scores_nk: Floats, coupling: float) -> tuple[Floats, float]:
    """Marginals and the log of the sum over every labelling, from the definition alone."""
    n_items, n_classes = scores_nk.shape
    edges = [(n, int(m), w) for n, m, w in zip(graph.item, graph.neighbour, graph.weight, strict=True) if n < m]
    marginal, total = np.zeros(scores_nk.shape), 0.0
    for labels in product(range(n_classes), repeat=n_items):
        energy = sum(scores_nk[n, k] for n, k in enumerate(labels))
        energy += coupling * sum(w for n, m, w in edges if labels[n] == labels[m])
        weight = np.exp(energy)
        total += weight
        marginal[np.arange(n_items), labels] += weight
    return marginal / total, float(np.log(total))


def uniform(scores_nk: Floats) -> Floats:
    return np.full(scores_nk.shape, 1 / scores_nk.shape[1])


def test_an_edge_stands_at_both_ends_and_knows_the_other() -> None:
    graph = graph_of(LOOPY)
    assert graph.n_edges == len(LOOPY)
    assert sorted(zip(graph.item.tolist(), graph.neighbour.tolist(), strict=True)) == sorted(
        [*LOOPY, *((b, a) for a, b in LOOPY)]
    )
    np.testing.assert_array_equal(graph.item[graph.reverse], graph.neighbour)
    np.testing.assert_array_equal(graph.neighbour[graph.reverse], graph.item)
    np.testing.assert_array_equal(graph.weight[graph.reverse], graph.weight)


def test_beliefs_are_exact_on_trees() -> None:
    graph, own = graph_of(TREE), scores()
    posterior = uniform(own)
    cavity = cavity_of(graph, posterior)
    for _ in range(6):
        sweep_beliefs(graph, own, 0.9, cavity, posterior)
    np.testing.assert_allclose(posterior, enumerated(graph, own, 0.9)[0], atol=1e-12)
    assert sweep_beliefs(graph, own, 0.9, cavity, posterior) < 1e-12


def test_one_sweep_over_a_chain_is_forward_and_backward() -> None:
    """The same chain as tags of a sequence have: states that stay with weight exp(coupling)."""
    n_items, coupling = 30, 1.3
    ends = np.arange(n_items - 1)
    graph = Neighbours.of(n_items, ends, ends + 1, np.ones(n_items - 1))
    own = scores(n_items, 4)
    posterior = uniform(own)
    sweep_beliefs(graph, own, coupling, cavity_of(graph, posterior), posterior)
    transition = np.exp(coupling * np.eye(4))
    known = forward_backward(np.ones(4), transition, np.exp(own), Steps.of(np.array([0, n_items])))
    np.testing.assert_allclose(posterior, known.posterior, atol=1e-12)


def test_beliefs_come_close_on_a_graph_with_cycles() -> None:
    graph, own = graph_of(LOOPY), scores()
    posterior = uniform(own)
    cavity = cavity_of(graph, posterior)
    for _ in range(60):
        sweep_beliefs(graph, own, 0.5, cavity, posterior)
    exact = enumerated(graph, own, 0.5)[0]
    assert np.abs(posterior - exact).max() < 0.02
    # And closer than labels without their neighbours.
    alone = np.exp(own) / np.exp(own).sum(axis=1, keepdims=True)
    assert np.abs(alone - exact).max() > 0.1


def mean_field_bound(graph: Neighbours, scores_nk: Floats, coupling: float, posterior: Floats) -> float:
    """Bound on log sum_z exp(sum_n scores[n, z_n] + coupling sum of w_nm 1[z_n = z_m]) by a product of posteriors."""
    alike = np.einsum("jk,jk->j", posterior[graph.item], posterior[graph.neighbour])
    # Every edge is there from both ends.
    pairs = 0.5 * coupling * float(graph.weight @ alike)
    return float((posterior * (scores_nk - numerics.log_floored(posterior))).sum()) + pairs


@pytest.mark.parametrize("edges", [TREE, LOOPY])
@pytest.mark.parametrize("coupling", [0.0, 0.4, 2.0])
def test_the_mean_field_bound_never_falls_and_stays_below_the_sum_over_labellings(
    edges: list[tuple[int, int]], coupling: float
) -> None:
    graph, own = graph_of(edges), scores()
    posterior, exact = uniform(own), enumerated(graph, own, coupling)[1]
    bounds = [mean_field_bound(graph, own, coupling, posterior)]
    for _ in range(25):
        sweep_mean_field(graph, own, coupling, posterior)
        bounds.append(mean_field_bound(graph, own, coupling, posterior))
    assert (np.diff(bounds) > -1e-12).all()
    assert bounds[-1] > bounds[0]
    assert bounds[-1] <= exact + 1e-9
    # Without coupling there is nothing to bound.
    assert coupling > 0 or bounds[-1] == pytest.approx(exact)


@pytest.mark.slow
def test_the_field_of_beliefs_on_a_tree_is_what_the_other_items_say() -> None:
    """p(z_n | votes on all others): enumerate with the item's own evidence taken out."""
    graph, own = graph_of(TREE), scores()
    posterior = uniform(own)
    cavity = cavity_of(graph, posterior)
    for _ in range(6):
        sweep_beliefs(graph, own, 0.9, cavity, posterior)
    field, _ = believed_field(graph, 0.9, cavity)
    for n in range(8):
        without = own.copy()
        without[n] = 0
        expected = enumerated(graph, without, 0.9)[0][n]
        said = np.exp(field[n]) / np.exp(field[n]).sum()
        np.testing.assert_allclose(said, expected, atol=1e-12)


@pytest.mark.parametrize("inference", ["beliefs", "mean field"])
def test_the_slope_of_the_pseudo_likelihood_is_a_difference(inference: str) -> None:
    graph, evidence = graph_of(LOOPY), scores()
    log_shares = np.log(np.array([[0.5, 0.3, 0.2]]))
    posterior = np.random.default_rng(3).dirichlet(np.ones(3), 8)
    cavity = np.random.default_rng(4).dirichlet(np.ones(3), 2 * graph.n_edges)

    def at(coupling: float) -> potts.PseudoLikelihood:
        if inference == "beliefs":
            return pseudo_likelihood(log_shares, evidence, *believed_field(graph, coupling, cavity))
        # The neighbours without the item are held fixed at the coupling of the mean field.
        _, slope = expected_field(graph, 0.7, posterior)
        return pseudo_likelihood(log_shares, evidence, coupling * slope, slope)

    step = 1e-5
    assert at(0.7).slope == pytest.approx((at(0.7 + step).value - at(0.7 - step).value) / (2 * step), rel=1e-6)
    assert at(0.7).information > 0
    # And by hand: sum over items of log sum_k p_k exp(evidence_k).
    field = believed_field(graph, 0.7, cavity)[0] if inference == "beliefs" else 0.7 * expected_field(graph, 0.7, posterior)[1]
    before = np.exp(log_shares + field)
    before /= before.sum(axis=1, keepdims=True)
    assert at(0.7).value == pytest.approx(np.log((before * np.exp(evidence)).sum(axis=1)).sum())
    np.testing.assert_allclose(at(0.7).before_k, before.sum(axis=0))


def test_without_its_neighbour_an_item_is_as_if_that_edge_were_cut() -> None:
    """Two items: cut the edge, and each is what its own scores say."""
    graph, own = Neighbours.of(2, np.array([0]), np.array([1]), np.array([1.5])), scores(2)
    posterior = uniform(own)
    for _ in range(200):
        sweep_mean_field(graph, own, 0.8, posterior)
    alone = np.exp(own) / np.exp(own).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(expected_field(graph, 0.8, posterior)[1] / 1.5, alone[::-1], atol=1e-9)


def test_association_has_mean_zero_and_variance_one_where_labels_ignore_the_edges() -> None:
    rng = np.random.default_rng(0)
    ends = np.unique(np.sort(rng.integers(0, 200, (700, 2)), axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    graph = Neighbours.of(200, ends[:, 0], ends[:, 1], rng.uniform(0.5, 3, len(ends)))
    drawn = [association(graph, rng.dirichlet([0.5, 1.0, 0.8], 200)) for _ in range(400)]
    # Four standard errors of a mean and of a variance of 400.
    assert abs(np.mean(drawn)) < 4 / 20
    assert abs(np.var(drawn) - 1) < 4 * np.sqrt(2 / 400)


def test_association_by_hand() -> None:
    """Two pairs of neighbours that agree: x = +-1/2 in both classes, so each edge adds 1/2, and S = 1/4 everywhere."""
    graph = Neighbours.of(4, np.array([0, 2]), np.array([1, 3]), np.ones(2))
    posterior = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert association(graph, posterior) == pytest.approx(1.0 / np.sqrt(2 * 4 / 16))
    assert association(graph, np.full((4, 2), 0.5)) == 0


def test_components_in_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    n_items = 400
    first = rng.integers(0, n_items // 4, 900) * 4 + rng.integers(0, 2, 900)
    second = np.minimum(first // 40 * 40 + rng.integers(0, 40, 900), n_items - 1)
    ends = np.unique(np.sort(np.stack([first, second], axis=1), axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    graph = Neighbours.of(n_items, ends[:, 0], ends[:, 1], np.ones(len(ends)))
    assert len(graph.components[1]) > 10
    own = scores(n_items)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("CROWDWISE_THREADS", threads)
        monkeypatch.setattr(numerics, "THREADED_FROM", 1)
        posterior = uniform(own)
        cavity = cavity_of(graph, posterior)
        sweep_beliefs(graph, own, 0.7, cavity, posterior)
        smoothed = uniform(own)
        sweep_mean_field(graph, own, 0.7, smoothed)
        found.append((posterior.tobytes(), smoothed.tobytes(), believed_field(graph, 0.7, cavity)[0].tobytes()))
    assert found[0] == found[1]
