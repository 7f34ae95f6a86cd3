"""Max-margin voting: the weights against a generic optimiser and the hinge, labels, adversaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.methods.labels.helpers import crowd, diagonal_crowd, random_votes
from tests.methods.labels.real import accuracy_on

from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.majority import MajorityVote
from crowdwise.methods.labels.max_margin import MaxMarginVote


def hinge_objective(votes: Annotations, z: np.ndarray, eta: np.ndarray, cost: float, temperature: float) -> float:
    """The program written item by item; temperature 0 is the hinge itself."""
    value = 0.5 * float(eta @ eta)
    for n in range(votes.n_items):
        scores = np.zeros(votes.n_classes)
        for e in range(votes.item_ptr[n], votes.item_ptr[n + 1]):
            scores[votes.label[e]] += eta[votes.annotator[e]] * (1 if votes.weight is None else votes.weight[e])
        short = scores - scores[z[n]] + (np.arange(votes.n_classes) != z[n])
        value += cost * (short.max() if temperature == 0 else temperature * np.log(np.exp(short / temperature).sum()))
    return value


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_solve_the_program(n_classes: int, weighted: bool) -> None:
    rng = np.random.default_rng(n_classes)
    votes = random_votes(rng, 8, 4, n_classes, 24, weight=rng.random(24) if weighted else None)
    z = rng.integers(0, n_classes, 8)
    none = [np.zeros(4), np.zeros(4)]
    eta = MaxMarginVote(cost=0.4, temperature=0.3)._weights(votes, z, none, np.zeros(4))
    found = minimize(lambda x: hinge_objective(votes, z, x, 0.4, 0.3), np.ones(4), tol=1e-12)
    np.testing.assert_allclose(eta, found.x, atol=1e-4)
    # A cold temperature comes within cost T N log K of the best hinge.
    cold = MaxMarginVote(cost=0.4, temperature=0.01)._weights(votes, z, none, np.zeros(4))
    best = min(hinge_objective(votes, z, x, 0.4, 0) for x in (cold, eta, found.x, np.zeros(4)))
    assert hinge_objective(votes, z, cold, 0.4, 0) <= best + 0.4 * 0.01 * 8 * np.log(n_classes)


def test_an_earlier_answer_is_an_item_with_one_vote() -> None:
    right, wrong = np.array([3.0, 0.0]), np.array([0.0, 2.0])
    nothing = Annotations.from_arrays([], [], [], items=[0], annotators=[0, 1], classes=range(3))
    eta = MaxMarginVote(cost=0.5, temperature=0.3)._weights(nothing, np.zeros(1, int), [right, wrong], np.zeros(2))
    item, annotator, label = [0, 1, 2, 3, 4], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]
    votes = Annotations.from_arrays(item, annotator, label, classes=range(3))
    same = MaxMarginVote(cost=0.5, temperature=0.3)._weights(votes, np.zeros(5, int), [0 * right, 0 * wrong], np.zeros(2))
    np.testing.assert_allclose(eta, same, atol=1e-8)


def test_labels_are_the_best_scores_of_the_final_weights() -> None:
    votes, truth = crowd(4, 150, diagonal_crowd(6, 3, 0.75))
    model = MaxMarginVote().fit(votes)
    scores = np.zeros((150, 3))
    np.add.at(scores, (votes.item, votes.label), model.result_.annotators.eta[votes.annotator])
    assert (scores.argmax(axis=1) == model.labels_).all()
    assert (model.labels_ == truth).mean() > 0.9


def test_good_annotators_outweigh_poor_ones_where_they_meet_at_random() -> None:
    gains = []
    for seed in range(6):
        confusion = np.concatenate([diagonal_crowd(20, 2, 0.9), diagonal_crowd(20, 2, 0.55)])
        votes, truth = crowd(seed, 600, confusion, votes_per_item=5)
        model, majority = MaxMarginVote().fit(votes), MajorityVote().fit(votes)
        eta = model.result_.annotators.eta
        assert eta[:20].mean() > eta[20:].mean()
        gains.append((model.labels_ == truth).mean() - (majority.labels_ == truth).mean())
    assert np.mean(gains) > 0


def test_the_majority_is_a_fixed_point_where_everyone_votes_on_everything() -> None:
    # Equal weights separate the majority's labels of an odd crowd, so a costly margin keeps them: a limit of the method.
    votes, _ = crowd(6, 400, np.concatenate([diagonal_crowd(2, 2, 0.95), diagonal_crowd(3, 2, 0.55)]))
    model, majority = MaxMarginVote(cost=10.0).fit(votes), MajorityVote().fit(votes)
    assert (model.labels_ == majority.labels_).all()


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["web", "rte"])
def test_better_than_the_majority_on_sets_with_unequal_annotators(shared_data: Path, dataset: str) -> None:
    assert accuracy_on(shared_data, dataset, "m3v") > accuracy_on(shared_data, dataset, "majority") + 0.01
