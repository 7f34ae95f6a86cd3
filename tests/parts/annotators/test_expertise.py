from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from tests.methods.labels.helpers import random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.parts.annotators import factors as m_step
from crowdwise.parts.annotators.expertise import Expertise, Factors
from crowdwise.parts.annotators.factors import SoftVotes, fit_embedding, fit_projection, item_traits, projection_terms

NOBODY = np.empty(0, np.int16)


def sigmoid(s: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-s))


def crowd(seed: int, n_classes: int = 3, n_votes: int = 60, weighted: bool = True) -> tuple[Annotations, Any, Any]:
    """Weighted votes with repeats, features with four columns, and a posterior of 15 items."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.5, 2, n_votes) if weighted else None
    votes = random_votes(rng, 15, 4, n_classes, n_votes, weight=weight)
    return votes, rng.normal(size=(15, 4)), rng.dirichlet(np.ones(n_classes), 15)


def objective(votes: Annotations, posterior: Any, x: Any, u: Any, f: Any) -> float:
    """Expected log-likelihood of the votes, by a loop."""
    total = 0.0
    for e in range(votes.n_votes):
        n, a = votes.item[e], votes.annotator[e]
        right = sigmoid(u[a] @ f @ np.append(x[n], 1.0))
        rho = posterior[n, votes.label[e]]
        total += (1.0 if votes.weight is None else votes.weight[e]) * (rho * np.log(right) + (1 - rho) * np.log(1 - right))
    return total


# -- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_the_gradient_by_the_projection_is_that_of_finite_differences(sparse: bool) -> None:
    votes, x, posterior = crowd(0)
    rng = np.random.default_rng(1)
    u, f = rng.normal(size=(4, 2)), rng.normal(size=(2, 5))
    value, uphill = projection_terms(SoftVotes.of(votes, posterior), csr_array(x) if sparse else x, u, f, 0.7)
    assert value == pytest.approx(objective(votes, posterior, x, u, f) - 0.35 * (f**2).sum())
    for place in product(range(2), range(5)):
        step = np.zeros_like(f)
        step[place] = 1e-5
        ends = [objective(votes, posterior, x, u, f + sign * step) - 0.35 * ((f + sign * step) ** 2).sum() for sign in (1, -1)]
        assert uphill[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-7)


def test_slope_and_curvature_of_the_embeddings_are_those_of_finite_differences() -> None:
    votes, x, posterior = crowd(2)
    rng = np.random.default_rng(3)
    u, f = rng.normal(0, 0.5, (4, 2)), rng.normal(0, 0.5, (2, 5))
    soft, traits = SoftVotes.of(votes, posterior), item_traits(x, f)

    def slope_at(embedding: Any) -> Any:
        return soft.by_annotator(soft.terms(traits, embedding)[1], traits)

    _, _, curve = soft.terms(traits, u)
    for a, d in product(range(4), range(2)):
        step = np.zeros_like(u)
        step[a, d] = 1e-5
        ends = [objective(votes, posterior, x, u + sign * step, f) for sign in (1, -1)]
        assert slope_at(u)[a, d] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-7)
        bend = -(slope_at(u + step) - slope_at(u - step)) / 2e-5
        np.testing.assert_allclose(soft.by_annotator(curve, traits * traits[:, [d]])[a], bend[a], rtol=1e-6, atol=1e-7)
        # Annotators do not meddle with each other.
        assert np.abs(np.delete(bend, a, axis=0)).max() < 1e-9


# -- the M-step against scipy ------------------------------------------------------------------


@pytest.mark.parametrize("direct", [True, False])
def test_the_newton_steps_of_all_end_where_each_annotator_s_own_regression_does(
    direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not direct:
        monkeypatch.setattr(m_step, "_DIRECT", 0)
    votes, _, posterior = crowd(4)
    rng = np.random.default_rng(5)
    traits, population, origin = rng.normal(size=(15, 3)), np.array([0.5, 0.0, -0.2]), np.array([0.9, 0.0, 0.0])
    found, crowd_mean = fit_embedding(
        SoftVotes.of(votes, posterior), traits, np.zeros((4, 3)), population, origin, l2=0.3, steps=50
    )
    assert votes.weight is not None
    for a in range(4):
        mine = np.flatnonzero(votes.annotator == a)
        rho, rows, weight = posterior[votes.item[mine], votes.label[mine]], traits[votes.item[mine]], votes.weight[mine]

        def loss(u: Any, rho: Any = rho, rows: Any = rows, weight: Any = weight) -> float:
            right = sigmoid(rows @ u)
            fit = weight @ (rho * np.log(right) + (1 - rho) * np.log(1 - right))
            return float(-fit + 0.15 * ((u - population) ** 2).sum())

        np.testing.assert_allclose(found[a], minimize(loss, population, tol=1e-12).x, atol=1e-4)
    np.testing.assert_allclose(crowd_mean, (found.sum(axis=0) + origin) / 5)


def test_the_projection_ends_where_scipy_s_newton_does() -> None:
    votes, x, posterior = crowd(6)
    u = np.random.default_rng(7).normal(size=(4, 2))

    def loss(flat: Any) -> float:
        return -objective(votes, posterior, x, u, flat.reshape(2, 5)) + 0.5 * (flat**2).sum()

    best = minimize(loss, np.zeros(10), tol=1e-10).x.reshape(2, 5)
    found = fit_projection(SoftVotes.of(votes, posterior), x, u, np.zeros((2, 5)), l2=1.0, steps=200)
    np.testing.assert_allclose(found, best, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("full", [False, True])
def test_alternations_never_lower_the_objective(seed: int, full: bool) -> None:
    votes, x, posterior = crowd(seed)
    now = Factors.start(votes, 4, np.random.default_rng(seed), rank=2, full=full, penalty=0.1, projection_penalty=0.1)

    def value(parts: Factors) -> float:
        own = ((parts.embedding - parts.population) ** 2).sum() + ((parts.population - parts.origin) ** 2).sum()
        prior = 0.05 * own + (0 if full else 0.05 * (parts.projection**2).sum())
        return objective(votes, posterior, x, parts.embedding, parts.projection) - prior

    values = [value(now)]
    for _ in range(15):
        now = now.refined(x, votes, posterior, 1)
        values.append(value(now))
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] > values[0]


def test_votes_that_are_all_right_leave_everything_finite() -> None:
    votes, x, _ = crowd(8)
    sure = np.eye(3)[np.arange(15) % 3]
    right = Annotations.from_arrays(votes.item, votes.annotator, (votes.item % 3), items=range(15), classes=range(3))
    start = Factors.start(right, 4, np.random.default_rng(0), rank=3, full=False, penalty=1e-3, projection_penalty=1e-3)
    now = start.refined(100 * x, right, sure, 20)
    assert np.isfinite(now.embedding).all()
    assert np.isfinite(now.projection).all()
    assert (now.annotators(now.traits(100 * x), 3).mean_reliability > 0.9).all()


def test_a_weight_of_two_is_a_vote_cast_twice() -> None:
    votes, x, posterior = crowd(9, n_votes=30, weighted=False)
    columns, names = (votes.item, votes.annotator, votes.label), {"items": range(15), "annotators": range(4)}
    twice = Annotations.from_arrays(*(np.repeat(c, 2) for c in columns), **names, classes=range(3))
    heavy = Annotations.from_arrays(*columns, np.full(30, 2.0), **names, classes=range(3))
    made = [
        Factors.start(v, 4, np.random.default_rng(0), rank=2, full=False).refined(x, v, posterior, 3) for v in (twice, heavy)
    ]
    np.testing.assert_allclose(made[0].embedding, made[1].embedding, atol=1e-6)
    np.testing.assert_allclose(made[0].projection, made[1].projection, atol=1e-6)


# -- the model ---------------------------------------------------------------------------------


def model_of(seed: int, votes: Annotations, posterior: Any, x: Any) -> tuple[Expertise, Factors]:
    now = Factors.start(votes, 4, np.random.default_rng(seed), rank=2, full=False).refined(x, votes, posterior, 3)
    return now.annotators(now.traits(x), votes.n_classes), now


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_posterior_is_bayes_rule(n_classes: int) -> None:
    votes, x, posterior = crowd(10, n_classes, 20, weighted=False)
    model, parts = model_of(0, votes, posterior, x)
    shares = np.random.default_rng(2).dirichlet(np.ones(n_classes), 15)
    found = np.zeros((15, n_classes))
    evidence, _ = model.infer(votes, np.log(shares), NOBODY, found)
    joint = shares.copy()
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        right = sigmoid(parts.embedding[annotator] @ parts.projection @ np.append(x[item], 1))
        joint[item] *= np.where(np.arange(n_classes) == label, right, (1 - right) / (n_classes - 1))
    np.testing.assert_allclose(found, joint / joint.sum(axis=1, keepdims=True))
    assert evidence == pytest.approx(np.log(joint.sum(axis=1)).sum())
    # Explanations add up to the same.
    summed = np.zeros((15, n_classes))
    np.add.at(summed, votes.item, model.log_lik(votes, np.arange(votes.n_votes)))
    np.testing.assert_allclose(np.exp(summed) * shares, joint)


def test_all_votes_of_an_item_have_total_probability_one() -> None:
    """By enumeration: three annotators, three classes, every combination of votes on one item."""
    votes, x, posterior = crowd(11, weighted=False)
    model, _ = model_of(0, votes, posterior, x)
    shares, total = np.array([[0.5, 0.3, 0.2]]), 0.0
    for labels in product(range(3), repeat=3):
        one = Annotations.from_arrays([0, 0, 0], [0, 1, 2], labels, items=[0], annotators=range(4), classes=range(3))
        evidence, _ = model.infer(one, np.log(shares), NOBODY, np.zeros((1, 3)))
        total += np.exp(evidence)
    assert total == pytest.approx(1)


def test_the_mean_reliability_is_the_accuracy_and_makes_the_confusion() -> None:
    votes, x, posterior = crowd(12)
    model, parts = model_of(1, votes, posterior, x)
    eta = sigmoid(np.column_stack([x, np.ones(15)]) @ parts.projection.T @ parts.embedding.T)
    np.testing.assert_allclose(model.reliability(model.traits), eta)
    np.testing.assert_allclose(model.mean_reliability, eta.mean(axis=0))
    confusion = model.confusion()
    np.testing.assert_allclose(confusion.sum(axis=2), 1)
    np.testing.assert_allclose(confusion[:, range(3), range(3)], np.tile(eta.mean(axis=0)[:, None], (1, 3)))
    np.testing.assert_allclose(confusion[:, 0, 1], (1 - eta.mean(axis=0)) / 2)


def test_strangers_and_whoever_has_not_voted_are_like_the_crowd() -> None:
    votes, x, posterior = crowd(13)
    more = Annotations.from_arrays(
        votes.item, votes.annotator, votes.label, votes.weight, items=range(15), annotators=range(6), classes=range(3)
    )
    model, parts = model_of(2, more, posterior, x)
    np.testing.assert_allclose(parts.embedding[4:], np.tile(parts.population, (2, 1)))
    other = model.aligned(np.array([2, -1]), np.array([7, -1]))
    np.testing.assert_array_equal(other.embedding, [model.embedding[2], model.population])
    np.testing.assert_allclose(other.traits, [model.traits[7], model.traits.mean(axis=0)])
    assert other.mean_reliability[1] == pytest.approx(sigmoid(model.traits @ model.population).mean())
    assert other.confusion().shape == (2, 3, 3)


def test_everybody_starts_right_in_seven_of_ten_cases() -> None:
    votes, _, _ = crowd(14)
    for full in (False, True):
        start = Factors.start(votes, 4, np.random.default_rng(0), rank=2, full=full)
        at_the_mean = start.annotators(start.traits(np.zeros((1, 4))), 3)
        assert sigmoid(start.origin @ start.traits(np.zeros((1, 4)))[0]) == pytest.approx(sigmoid(np.array(0.85)))
        assert (np.abs(at_the_mean.mean_reliability - 0.7) < 0.1).all()
    assert Factors.start(votes, 4, np.random.default_rng(0), rank=50, full=False).embedding.shape == (4, 5)
