"""Folds of votes, and what a fit says of votes that it has not seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import crowdwise
from crowdwise.errors import SettingError
from crowdwise.trust.heldout import deal, held_out, log_prob_by


def test_every_vote_with_company_is_held_out_once_and_a_lone_vote_never() -> None:
    votes = crowdwise.Annotations.from_arrays(item=[0] * 7 + [1] * 2 + [2], annotator=[*range(7), 0, 1, 3], label=[0, 1] * 5)
    for seed in range(5):
        fold = deal(votes, folds=3, seed=seed)
        counts = np.bincount(fold[votes.item == 0], minlength=3)
        assert sorted(counts) == [2, 2, 3]
        assert len(set(fold[votes.item == 1])) == 2
        assert (fold[votes.item == 2] == -1).all()


def test_folds_depend_on_the_seed_alone() -> None:
    votes = crowdwise.Annotations.from_arrays(item=np.repeat(range(50), 4), annotator=[*range(4)] * 50, label=[0, 1] * 100)
    np.testing.assert_array_equal(deal(votes, seed=3), deal(votes, seed=3))
    assert (deal(votes, seed=3) != deal(votes, seed=4)).any()


def test_one_fold_leaves_nothing_to_fit_to() -> None:
    votes = crowdwise.Annotations.from_arrays(item=[0, 0], annotator=[0, 1], label=[0, 1])
    with pytest.raises(SettingError, match="at least 2"):
        deal(votes, folds=1)


def test_a_vote_is_foretold_by_the_posterior_of_its_item_and_the_confusion_of_its_annotator() -> None:
    votes = crowdwise.Annotations.from_arrays(item=[0, 0, 1, 1], annotator=["a", "b", "a", "c"], label=["x", "y", "y", "x"])
    posterior = np.array([[0.9, 0.1], [0.3, 0.7]])
    confusion = np.array([[[0.8, 0.2], [0.4, 0.6]], [[0.5, 0.5], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]])
    seen = votes.take_votes(np.array([True, True, True, False]))
    result = SimpleNamespace(votes=seen, model_posterior=posterior, confusion=confusion)
    found = np.exp(log_prob_by(cast(Any, result), votes, np.array([0, 1, 3])))
    # c has no votes in the fit: two parts of a, one of b.
    crowd = (2 * confusion[0] + confusion[1]) / 3
    expected = [0.9 * 0.8 + 0.1 * 0.4, 0.9 * 0.5 + 0.1 * 0.9, 0.3 * crowd[0, 0] + 0.7 * crowd[1, 0]]
    np.testing.assert_allclose(found, expected)


def test_a_held_out_vote_does_not_reach_the_fit_that_foretells_it() -> None:
    votes = crowdwise.Annotations.from_arrays(
        item=np.repeat(range(30), 5), annotator=[*range(5)] * 30, label=[0, 1, 1, 0, 1] * 30
    )
    fold = deal(votes, folds=3)
    given = []

    def fit(part: crowdwise.Annotations) -> crowdwise.Result:
        given.append(part.n_votes)
        return crowdwise.make("majority").fit(part).result_

    log_prob = held_out(fit, votes, fold)
    assert given == [votes.n_votes - int((fold == number).sum()) for number in range(3)]
    assert np.isfinite(log_prob).all()
    alone = held_out(fit, votes, np.where(np.arange(150) == 7, 0, -1))
    assert np.isnan(np.delete(alone, 7)).all()
    flipped = crowdwise.Annotations.from_arrays(
        item=votes.item, annotator=votes.annotator, label=np.where(np.arange(150) == 7, 1 - votes.label, votes.label)
    )
    # Its label is foretold, so another label gets the rest of the probability.
    other = held_out(fit, flipped, np.where(np.arange(150) == 7, 0, -1))
    np.testing.assert_allclose(np.exp(alone[7]) + np.exp(other[7]), 1)
