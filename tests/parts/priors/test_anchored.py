"""Class shares between those of the votes and those of the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.labels.helpers import ITERATIVE, quiet, slow_unless_classic

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.parts.priors.anchored import Anchored


def test_shares_are_the_geometric_mean_by_hand() -> None:
    # v = 1 + (3, 0) = (4, 1); n = 1 + (8, 3) = (9, 4): roots 6 and 2.
    prior = Anchored.start(np.array([3.0, 0.0])).conditioned(np.array([8.0, 3.0]))
    assert prior.probability.tolist() == pytest.approx([0.75, 0.25])
    assert prior.log_prob() == pytest.approx(np.log([[0.75, 0.25]]))
    assert prior.penalty() == 0


def test_it_starts_with_the_shares_of_the_votes() -> None:
    assert Anchored.start(np.array([3.0, 0.0])).probability.tolist() == pytest.approx([0.8, 0.2])


def test_learning_moves_the_mass_and_leaves_the_anchor() -> None:
    start = Anchored.start(np.array([3.0, 1.0]))
    posterior = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]])
    moved = start.update(posterior)
    # v = (4, 2), n = 1 + (1.5, 2.5).
    root = np.sqrt([4 * 2.5, 2 * 3.5])
    assert moved.probability == pytest.approx(root / root.sum())
    assert moved.update(np.eye(2)).update(posterior).probability == pytest.approx(moved.probability)
    assert start.probability == pytest.approx([4 / 6, 2 / 6])


def test_a_hundred_classes_and_no_items() -> None:
    prior = Anchored.start(np.zeros(100)).update(np.zeros((0, 100)))
    assert prior.probability == pytest.approx(np.full(100, 0.01))


@pytest.mark.parametrize("name", slow_unless_classic(ITERATIVE))
def test_every_method_that_alternates_takes_it(name: str) -> None:
    # Vote shares of items by hand: (2/3, 1/3), (0, 1), (1, 0), and an item without votes, half and half.
    votes = Annotations.from_arrays(
        [0, 0, 0, 1, 1, 2, 2], ["x", "y", "z", "x", "y", "y", "z"], [0, 0, 1, 1, 1, 0, 0], items=range(4)
    )
    with quiet():
        result = make(name, class_prior="anchored").fit(votes).result_
    assert result.class_prior.sum() == pytest.approx(1)
    if isinstance(result.prior, Anchored):
        assert result.prior.anchor == pytest.approx(1 + np.array([2 / 3 + 1 + 0.5, 1 / 3 + 1 + 0.5]))
        # The shares behind a posterior are those of the round before it; both rest at the end.
        root = np.sqrt(result.prior.anchor * (1 + result.model_posterior.sum(axis=0)))
        assert result.class_prior == pytest.approx(root / root.sum(), abs=0.02)
    # An item without votes is as likely of a class as any.
    assert result.model_posterior[3] == pytest.approx(np.exp(result.prior.log_prob()[0]), abs=1e-9)


def test_shares_learned_near_the_votes_drift_less_than_free_ones() -> None:
    # 190 items of class 0 and 10 of class 1; annotators tell them apart 7 times of 10.
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], [190, 10])
    item, annotator = np.repeat(np.arange(200), 5), np.tile(np.arange(5), 200)
    label = np.where(rng.random(1000) < 0.7, truth[item], 1 - truth[item])
    votes = Annotations.from_arrays(item, annotator, label)
    shares = np.bincount(label) / 1000
    with quiet():
        drift = [np.abs(make("dawid-skene", class_prior=way).fit(votes).prior_ - shares).max() for way in ("anchored", "learn")]
    assert drift[0] < drift[1]
