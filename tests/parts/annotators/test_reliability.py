from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.methods.labels.helpers import random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import alternate
from crowdwise.kernels.numerics import harden
from crowdwise.parts.annotators.reliability import ItemReliability
from crowdwise.parts.priors.marginals import Marginals

NOBODY = np.empty(0, np.int16)
CENTRE = np.array([0.0, 0.0, 1.0])
PENALTY = np.array([2.0, 2.0, 1.0])


def sigmoid(s: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-s))


def setting(seed: int, n_classes: int = 3, n_votes: int = 60) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Votes, features with two columns, and a posterior."""
    rng = np.random.default_rng(seed)
    votes = random_votes(rng, 15, 4, n_classes, n_votes)
    return votes, rng.normal(size=(15, 2)), rng.dirichlet(np.ones(n_classes), 15)


def test_the_newton_steps_of_all_end_where_each_annotator_s_own_regression_does() -> None:
    votes, features, posterior = setting(0)
    model = ItemReliability.start(features, 4, 3, l2=2.0, steps=50).update(votes, posterior)
    for a in range(4):
        mine = np.flatnonzero(votes.annotator == a)
        rho = posterior[votes.item[mine], votes.label[mine]]
        rows = np.column_stack([features[votes.item[mine]], np.ones(len(mine))])

        def loss(w: np.ndarray, rows: np.ndarray = rows, rho: np.ndarray = rho) -> float:
            right = sigmoid(rows @ w)
            return float(-(rho * np.log(right) + (1 - rho) * np.log(1 - right)).sum() + PENALTY @ (w - CENTRE) ** 2 / 2)

        np.testing.assert_allclose(model.weights[a], minimize(loss, CENTRE, tol=1e-12).x, atol=1e-4)
    # The crowd is the mean of the annotators and one who is like nobody in particular.
    np.testing.assert_allclose(model.population, (model.weights.sum(axis=0) + CENTRE) / 5)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_posterior_is_bayes_rule(n_classes: int) -> None:
    votes, features, posterior = setting(1, n_classes, 20)
    model = ItemReliability.start(features, 4, n_classes).update(votes, posterior)
    shares = np.random.default_rng(2).dirichlet(np.ones(n_classes))
    found = np.empty((15, n_classes))
    evidence, _ = model.infer(votes, np.log(shares)[None], NOBODY, found)
    joint = np.tile(shares, (15, 1))
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        w = model.weights[annotator]
        right = sigmoid(features[item] @ w[:-1] + w[-1])
        joint[item] *= np.where(np.arange(n_classes) == label, right, (1 - right) / (n_classes - 1))
    np.testing.assert_allclose(found, joint / joint.sum(axis=1, keepdims=True))
    assert evidence == pytest.approx(np.log(joint.sum(axis=1)).sum())
    # Explanations add up to the same.
    rows = model.log_lik(votes, np.arange(votes.n_votes))
    summed = np.zeros((15, n_classes))
    np.add.at(summed, votes.item, rows)
    np.testing.assert_allclose(np.exp(summed) * shares, joint)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("steps", [1, 2])
def test_the_bound_never_falls(seed: int, steps: int) -> None:
    votes, features, posterior = setting(seed)
    start = ItemReliability.start(3 * features, 4, 3, l2=0.1, steps=steps)
    fit = alternate(votes, Marginals(np.full(3, 1 / 3)), start, start=posterior, known=NOBODY, max_iter=60, tol=1e-12)
    bound = sum(fit.trace.values())
    assert (np.diff(bound) >= -1e-9 * np.abs(bound[1:])).all()


def test_votes_that_are_all_right_leave_weights_finite() -> None:
    votes, features, posterior = setting(3)
    sure = harden(posterior)
    label = sure.argmax(axis=1)[votes.item]
    right = Annotations.from_arrays(votes.item, votes.annotator, label, items=range(15), classes=range(3))
    model = ItemReliability.start(100 * features, 4, 3, l2=1e-3, steps=100).update(right, sure)
    assert np.isfinite(model.weights).all()
    assert (model.reliability(100 * features) > 0.5).mean() > 0.9


def test_a_weight_of_two_is_a_vote_cast_twice() -> None:
    votes, features, posterior = setting(4, n_votes=30)
    columns = votes.item, votes.annotator, votes.label
    names = {"items": range(15), "annotators": range(4), "classes": range(3)}
    twice = Annotations.from_arrays(*(np.repeat(c, 2) for c in columns), **names)
    heavy = Annotations.from_arrays(*columns, np.full(30, 2.0), **names)
    start = ItemReliability.start(features, 4, 3)
    np.testing.assert_allclose(start.update(twice, posterior).weights, start.update(heavy, posterior).weights, atol=1e-9)


def test_strangers_are_like_the_crowd_and_new_items_are_average() -> None:
    votes, features, posterior = setting(5)
    model = ItemReliability.start(features, 4, 3).update(votes, posterior)
    other = model.aligned(np.array([2, -1]), np.array([7, -1, 0]))
    np.testing.assert_array_equal(other.weights, [model.weights[2], model.population])
    np.testing.assert_array_equal(other.features, [features[7], [0, 0], features[0]])
    assert other.penalty() >= 0


def test_whoever_has_not_voted_is_like_the_crowd_and_does_not_hold_it_back() -> None:
    votes, features, posterior = setting(6)
    more = Annotations.from_arrays(
        votes.item, votes.annotator, votes.label, items=range(15), annotators=range(9), classes=range(3)
    )
    few, many = ItemReliability.start(features, 4, 3), ItemReliability.start(features, 9, 3)
    for _ in range(3):
        few, many = few.update(votes, posterior), many.update(more, posterior)
    np.testing.assert_allclose(many.population, few.population)
    np.testing.assert_allclose(many.weights[4:], np.tile(few.population, (5, 1)))
    assert many.penalty() == pytest.approx(few.penalty())
