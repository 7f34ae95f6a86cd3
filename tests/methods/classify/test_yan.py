from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.methods.classify.crowds import clouds, diagonal_crowd, vote
from tests.methods.labels.helpers import quiet, random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.errors import NotFittedError
from crowdwise.estimator.codec import pack, unpack
from crowdwise.methods.classify.yan import Yan, YanModel


def half_blind(seed: int, n_items: int) -> tuple[np.ndarray, np.ndarray, Annotations]:
    """Two classes by the second column; annotator 0 is good where the first column is positive, 1 where it is negative."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_items, 2))
    truth = (features[:, 1] + 0.3 * rng.normal(size=n_items) > 0).astype(int)
    right = np.where(features[:, [0]] > 0, [0.95, 0.5, 0.75], [0.5, 0.95, 0.75])
    label = np.where(rng.random(right.shape) < right, truth[:, None], 1 - truth[:, None])
    item, annotator = (index.ravel() for index in np.indices(right.shape))
    return features, truth, Annotations.from_arrays(item, np.array(["right", "left", "even"])[annotator], label.ravel())


def test_reliability_that_depends_on_the_item_is_recovered() -> None:
    features, truth, votes = half_blind(0, 1500)
    model = Yan().fit(features, votes)
    assert (model.labels_ == truth).mean() > 0.93
    corners = np.array([[1.5, 0.0], [-1.5, 0.0]])
    right, left, even = model.reliability(corners, ["right", "left", "even"]).T
    assert right[0] > 0.85
    assert right[1] < 0.65
    assert left[1] > 0.85
    assert left[0] < 0.65
    assert abs(even[0] - even[1]) < 0.12


def test_reliability_has_a_column_per_annotator_and_strangers_are_like_the_crowd() -> None:
    features, _, votes = half_blind(1, 200)
    model = Yan().fit(features, votes)
    everyone = model.reliability(features)
    assert everyone.shape == (200, 3)
    order = [votes.annotators.tolist().index(name) for name in ("right", "left")]
    np.testing.assert_array_equal(model.reliability(features, ["right", "left"]), everyone[:, order])
    stranger = model.reliability(features[:5], ["nobody"])[:, 0]
    crowd = model.result_.annotators.population
    rows = model.model_.project(features[:5])
    np.testing.assert_allclose(stranger, 1 / (1 + np.exp(-(rows @ crowd[:-1] + crowd[-1]))))
    with pytest.raises(NotFittedError):
        Yan().reliability(features)


@pytest.mark.slow
def test_votes_on_new_rows_count_by_the_rows_own_features() -> None:
    """Bayes' rule by hand: the same two votes weigh differently on the two sides."""
    features, _, votes = half_blind(2, 800)
    model = Yan().fit(features, votes)
    rows = np.array([[1.5, 0.0], [-1.5, 0.0]])
    against = Annotations.from_arrays([0, 0, 1, 1], ["right", "left"] * 2, [1, 0, 1, 0])
    prior = model.predict_proba(rows)
    reliability = model.reliability(rows, ["right", "left"])
    ones = prior[:, 1] * reliability[:, 0] * (1 - reliability[:, 1])
    zeros = prior[:, 0] * (1 - reliability[:, 0]) * reliability[:, 1]
    expected = ones / (ones + zeros)
    assert expected[0] > 0.5 > expected[1]
    found = np.empty((2, 2))
    who = np.array([model.result_.votes.annotators.tolist().index(name) for name in against.annotators])
    model._annotators_on(rows, who).infer(against, np.log(prior), np.empty(0, np.int16), found)
    np.testing.assert_allclose(found[:, 1], expected)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_never_falls(seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes = random_votes(rng, 15, 4, 2 + seed % 3, 60)
    with quiet():
        model = Yan(tol=1e-10, max_iter=50, dimensions=3).fit(rng.normal(size=(15, 6)), votes)
    assert (np.diff(model.trace_) >= -1e-9 * np.abs(model.trace_[1:])).all()


def test_the_posterior_is_bayes_rule() -> None:
    features, truth = clouds(3, 15, 3, gap=1.0)
    votes = vote(3, truth, diagonal_crowd(4, 3, 0.7), per_item=2)
    with quiet():
        model = Yan().fit(features, votes)
    joint = model.predict_proba(features)
    eta = model.reliability(features)
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        right = eta[item, annotator]
        joint[item] *= np.where(np.arange(3) == label, right, (1 - right) / 2)
    np.testing.assert_allclose(model.result_.model_posterior, joint / joint.sum(axis=1, keepdims=True), atol=1e-9)


def test_adversaries_are_less_reliable_than_a_coin() -> None:
    features, truth = clouds(4, 300, 2, gap=2.0)
    votes = vote(4, truth, np.concatenate([diagonal_crowd(4, 2, 0.8), diagonal_crowd(2, 2, 0.1)]))
    model = Yan().fit(features, votes)
    assert (model.labels_ == truth).mean() > 0.9
    assert (model.reliability(features).mean(axis=0)[4:] < 0.4).all()
    # Reports get matrices counted under the posterior.
    assert (model.result_.accuracy[4:] < 0.3).all()


def test_one_label_per_row_makes_an_ordinary_classifier() -> None:
    features, truth = clouds(5, 300, 4)
    model = Yan().fit(features[:150], truth[:150])
    assert model.score(features[150:], truth[150:]) > 0.95


def test_known_labels_stay() -> None:
    features, _, votes = half_blind(6, 60)
    model = Yan().fit(features, votes, gold={0: 1, 1: 0})
    np.testing.assert_allclose(model.posterior_[[0, 1], [1, 0]], 1)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 10])
def test_odd_shapes_are_fitted(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    cases: list[tuple[Any, Any]] = [
        (rng.normal(size=(n_classes, 1)), np.arange(n_classes)),
        (np.zeros((n_classes, 3)), np.arange(n_classes)),
        (rng.normal(size=(20, 60)), random_votes(rng, 20, 2, n_classes, 200)),
        (csr_array(rng.poisson(1.0, (30, 25)).astype(float)), random_votes(rng, 30, 40, n_classes, 25)),
        (rng.normal(size=(20, 3)).astype(np.float32), random_votes(rng, 20, 2, n_classes, 30, weight=rng.uniform(0, 3, 30))),
    ]
    for features, votes in cases:
        with quiet():
            model = Yan().fit(features, votes)
        for rows in (model.posterior_, model.predict_proba(features), model.confusion_):
            np.testing.assert_allclose(rows.sum(axis=-1), 1)
        assert model.reliability(features).shape == (features.shape[0], model.result_.votes.n_annotators)


def test_reliability_depends_on_so_many_components_at_most() -> None:
    rng = np.random.default_rng(7)
    features, votes = rng.normal(size=(50, 30)), vote(7, rng.integers(0, 2, 50), diagonal_crowd(3, 2, 0.7))
    with quiet():
        assert Yan().fit(features, votes).result_.annotators.features.shape == (50, 20)
        few = Yan(dimensions=4).fit(features, votes)
    assert few.result_.annotators.features.shape == (50, 4)
    # Components are centred and of unit variance, so that one penalty suits all.
    np.testing.assert_allclose(few.result_.annotators.features.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(few.result_.annotators.features.std(axis=0), 1)


def test_the_same_fit_twice_is_the_same_to_the_bit() -> None:
    features, _, votes = half_blind(8, 100)
    first, second = (Yan().fit(features, votes) for _ in range(2))
    assert first.posterior_.tobytes() == second.posterior_.tobytes()
    assert first.reliability(features).tobytes() == second.reliability(features).tobytes()


def test_a_model_is_rebuilt_from_its_arrays() -> None:
    features, _, votes = half_blind(9, 60)
    model = Yan().fit(features, votes)
    arrays: dict[str, Any] = {}
    again = unpack(pack(model.model_, "model", arrays), arrays)
    assert isinstance(again, YanModel)
    np.testing.assert_array_equal(again.log_prob(features), model.model_.log_prob(features))
    np.testing.assert_array_equal(again.project(features), model.model_.project(features))
