"""graph-dawid-skene: against enumeration, a known field, edges that mean nothing, and what may be given."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet

import crowdwise
from crowdwise import Annotations, DawidSkene, Edges, GraphDawidSkene
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError, SettingError

SIDE = 30


def grid(side: int = SIDE) -> NDArray[Any]:
    place = np.arange(side * side).reshape(side, side)
    return np.concatenate(
        [np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], 1), np.stack([place[:-1].ravel(), place[1:].ravel()], 1)]
    )


def stripes(side: int = SIDE) -> NDArray[Any]:
    """Three classes in broad bands across a grid."""
    row, column = np.indices((side, side))
    return ((row + column) * 3 // (2 * side)).ravel()


def votes_on(truth: NDArray[Any], seed: int, right: float = 0.6, votes_per_item: int = 2) -> Annotations:
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(len(truth)), votes_per_item)
    annotator = rng.integers(0, 10, len(item))
    label = np.where(rng.random(len(item)) < right, truth[item], rng.integers(0, 3, len(item)))
    return Annotations.from_arrays(item, annotator, label, items=range(len(truth)), annotators=range(10), classes=range(3))


def test_posterior_under_the_fitted_parts_is_that_of_all_labellings() -> None:
    """On a tree, with a given coupling: enumerate every labelling under the fitted shares and matrices."""
    votes, _ = crowd(3, 7, diagonal_crowd(3, 2, 0.7))
    edges = [(0, 1, 1.0), (1, 2, 0.5), (1, 3, 2.0), (4, 5, 1.0)]
    model = GraphDawidSkene(edges=edges, coupling=0.8, tol=1e-10, max_iter=5000, confidence="model").fit(votes)
    shares, pi = model.result_.prior.shares.probability, model.confusion_
    expected, total = np.zeros((7, 2)), 0.0
    for labels in product(range(2), repeat=7):
        energy = 0.8 * sum(w for n, m, w in edges if labels[n] == labels[m])
        weight = np.exp(energy) * np.prod(shares[list(labels)])
        for e in range(votes.n_votes):
            weight *= pi[votes.annotator[e], labels[votes.item[e]], votes.label[e]]
        total += weight
        expected[np.arange(7), labels] += weight
    np.testing.assert_allclose(model.posterior_, expected / total, atol=1e-6)


@pytest.mark.parametrize("inference", ["bp", "mean-field"])
def test_coupling_zero_is_dawid_skene(inference: str) -> None:
    votes = votes_on(stripes(), 0)
    with quiet():
        plain = DawidSkene().fit(votes)
        model = GraphDawidSkene(edges=grid(), coupling=0, inference=inference).fit(votes)
    np.testing.assert_array_equal(model.posterior_, plain.posterior_)
    np.testing.assert_array_equal(model.confusion_, plain.confusion_)
    assert model.labels_.tolist() == plain.labels_.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_edges_that_mean_nothing_change_nothing(seed: int) -> None:
    """The grid joins items whose classes were drawn without it: no coupling is found, and no label moves."""
    truth = np.random.default_rng(seed + 50).permutation(stripes())
    votes = votes_on(truth, seed)
    with quiet():
        plain, model = DawidSkene().fit(votes), GraphDawidSkene(edges=grid()).fit(votes)
    assert model.coupling_ == 0
    assert abs(model.association_) < 4
    assert model.labels_.tolist() == plain.labels_.tolist()
    np.testing.assert_array_equal(model.posterior_, plain.posterior_)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["bp", "mean-field"])
def test_smooth_labels_are_found_where_single_items_leave_them_open(inference: str) -> None:
    truth = stripes()
    votes = votes_on(truth, 1)
    with quiet():
        plain, model = DawidSkene().fit(votes), GraphDawidSkene(edges=grid(), inference=inference).fit(votes)
    assert model.converged_
    assert model.coupling_ > 0.5
    assert (plain.labels_ == truth).mean() < 0.8
    assert (model.labels_ == truth).mean() > 0.93


@pytest.mark.slow
def test_the_coupling_of_a_known_field_is_found() -> None:
    """Labels drawn from a Potts field of coupling 0.8 (two classes) by Gibbs sampling."""
    side, found = 40, []
    row, column = np.indices((side, side))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        field = rng.integers(0, 2, (side, side))
        for _ in range(100):
            for colour in (0, 1):
                padded = np.pad(2.0 * field - 1, 1)
                pull = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
                drawn = rng.random((side, side)) < 1 / (1 + np.exp(-0.8 * pull))
                field = np.where((row + column) % 2 == colour, drawn, field)
        votes, _ = _binary_votes(field.ravel(), rng)
        with quiet():
            found.append(GraphDawidSkene(edges=grid(side)).fit(votes).coupling_)
    assert np.mean(found) == pytest.approx(0.8, abs=0.1)


def _binary_votes(truth: NDArray[Any], rng: np.random.Generator) -> tuple[Annotations, NDArray[Any]]:
    item = np.repeat(np.arange(len(truth)), 3)
    label = np.where(rng.random(len(item)) < 0.75, truth[item], 1 - truth[item])
    return Annotations.from_arrays(item, rng.integers(0, 8, len(item)), label, items=range(len(truth))), truth


@pytest.mark.slow
def test_weights_say_which_edges_count() -> None:
    """Half of the edges are random and weigh next to nothing: as good as without them."""
    truth = stripes()
    votes = votes_on(truth, 2)
    noise = np.random.default_rng(9).integers(0, len(truth), (1500, 2))
    noise = noise[noise[:, 0] != noise[:, 1]]
    weighted = [(n, m, 1.0) for n, m in grid().tolist()] + [(n, m, 1e-6) for n, m in noise.tolist()]
    with quiet():
        clean, model = (GraphDawidSkene(edges=edges, tol=1e-4).fit(votes) for edges in (grid(), weighted))
        unweighted = GraphDawidSkene(edges=[pair[:2] for pair in weighted], tol=1e-4).fit(votes)
    assert (model.labels_ == clean.labels_).mean() > 0.99
    assert unweighted.coupling_ < clean.coupling_


def test_an_item_without_votes_takes_the_label_of_its_neighbours() -> None:
    votes = Annotations.from_arrays(
        ["a", "a", "c", "c", "e", "e"],
        ["x", "y"] * 3,
        ["yes", "yes", "yes", "yes", "no", "no"],
        items=["a", "b", "c", "d", "e"],
    )
    with quiet():
        model = GraphDawidSkene(edges=[("a", "b"), ("b", "c")], coupling=1.5).fit(votes)
    frame = model.items_frame()
    assert frame["label"].to_list() == ["yes", "yes", "yes", None, "no"]
    assert frame["note"].to_list() == ["", "no votes", "", "no votes", ""]
    explained = model.explain("b").rows
    assert explained["source"].to_list()[0] == "neighbours"


@pytest.mark.slow
def test_known_labels_spread_to_neighbours() -> None:
    truth = stripes()
    votes = votes_on(truth, 3, right=0.5)
    gold = {int(n): int(truth[n]) for n in range(0, len(truth), 20)}
    with quiet():
        model = GraphDawidSkene(edges=grid()).fit(votes, gold=gold)
    assert all(model.labels_[n] == label for n, label in gold.items())
    np.testing.assert_allclose(model.result_.model_posterior[list(gold)].max(axis=1), 1)
    with_gold = (model.labels_ == truth).mean()
    with quiet():
        assert with_gold >= (GraphDawidSkene(edges=grid(), tol=1e-4).fit(votes).labels_ == truth).mean() - 0.02


@pytest.mark.slow
def test_items_of_a_single_vote_may_be_surer_than_their_annotator() -> None:
    truth = stripes()
    votes = votes_on(truth, 4, right=0.7, votes_per_item=1)
    with quiet():
        model = GraphDawidSkene(edges=grid()).fit(votes)
    assert model.coupling_ > 0
    assert (model.result_.confidence > 0.95).mean() > 0.3
    assert (model.labels_ == truth)[model.result_.confidence > 0.95].mean() > 0.95
    np.testing.assert_allclose(model.predict_proba(votes), model.posterior_, atol=1e-9)


def test_new_votes_on_other_items_have_no_neighbours_and_updates_have() -> None:
    truth = stripes(12)
    votes = votes_on(truth, 5, right=0.8)
    half = votes.select(items=list(range(72)))
    with quiet():
        model = GraphDawidSkene(edges=grid(12)).fit(half)
        assert model.predict_proba(votes).shape == (144, 3)
        updated = model.update(votes.select(items=list(range(72, 144))))
        whole = GraphDawidSkene(edges=grid(12)).fit(votes)
    np.testing.assert_allclose(updated.posterior_, whole.posterior_, atol=1e-9)


def test_saved_fits_keep_their_edges(tmp_path: Path) -> None:
    votes = votes_on(stripes(8), 6)
    with quiet():
        model = GraphDawidSkene(
            edges=[
                (0, 1),
                (
                    1,
                    2,
                ),
            ],
            coupling=1.0,
        ).fit(votes)
    model.save(tmp_path / "fit")
    again = crowdwise.load(tmp_path / "fit")
    assert again.edges == Edges.of([(0, 1), (1, 2)])
    assert again.coupling_ == 1.0
    np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))


def test_what_cannot_be_is_refused_with_the_fix() -> None:
    votes = votes_on(stripes(4), 7)
    with pytest.raises(SettingError, match=r"edges=\[.*--edges edges.csv; without any, use dawid-skene"):
        GraphDawidSkene().fit(votes)
    with pytest.raises(InputError, match="give the ids that the votes have"):
        GraphDawidSkene(edges=[("p", "q")]).fit(votes)
    for wrong in (-1, 31, True, [1]):
        with pytest.raises(SettingError, match='"learned" or a number from 0 to 30'):
            GraphDawidSkene(edges=[(0, 1)], coupling=wrong).fit(votes)
    with pytest.raises(SettingError, match="one of learned"):
        GraphDawidSkene(edges=[(0, 1)], coupling="learn").fit(votes)
    with pytest.warns(DataWarning, match="1 of 2 edges join an item that is not"):
        GraphDawidSkene(edges=[(0, 1), (0, 99)], coupling=0, tol=1e-3).fit(votes)


def test_a_fit_that_stopped_early_says_so() -> None:
    votes = votes_on(stripes(), 1)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = GraphDawidSkene(edges=grid(), max_iter=3).fit(votes)
    assert not model.converged_
    assert model.n_iter_ == len(model.trace_) == 6


@pytest.mark.slow
def test_many_wrong_edges_do_not_draw_all_items_to_one_class() -> None:
    truth = stripes()
    votes = votes_on(truth, 0)
    wrong = np.random.default_rng(0).integers(0, len(truth), (3_000, 2))
    with quiet():
        model = GraphDawidSkene(edges=np.concatenate([grid(), wrong])).fit(votes)
        alone = DawidSkene().fit(votes)
    assert (model.labels_ == truth).mean() > (alone.labels_ == truth).mean() - 0.02
