from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.trust.crowd.crowds import fit, grouped_crowd

from crowdwise.data.simulate import simulate
from crowdwise.kernels.numerics import best_class
from crowdwise.trust.crowd.cautious import cautious, lowered
from crowdwise.trust.crowd.dependence import Dependence, find

SHARES = arrays(float, (4, 3), elements=st.floats(0.001, 1)).map(lambda x: x / x.sum(axis=1, keepdims=True))


@given(SHARES, SHARES)
def test_lowered_keeps_labels_and_never_raises_confidence(posterior: np.ndarray, other: np.ndarray) -> None:
    label = best_class(posterior, np.full(3, 1 / 3))
    moved = lowered(posterior, other, label)
    rows = np.arange(4)
    np.testing.assert_allclose(moved.sum(axis=1), 1.0)
    assert (moved[rows, label] <= posterior[rows, label]).all()
    np.testing.assert_array_equal(best_class(moved, np.full(3, 1 / 3)), label)


@given(SHARES, SHARES)
def test_lowered_goes_all_the_way_where_the_label_allows(posterior: np.ndarray, other: np.ndarray) -> None:
    label = best_class(posterior, np.full(3, 1 / 3))
    moved, rows = lowered(posterior, other, label), np.arange(4)
    lead = other[rows, label] - np.where(np.arange(3) == label[:, None], -1, other).max(axis=1)
    free = (lead > 1e-6) & (other[rows, label] < posterior[rows, label])
    np.testing.assert_allclose(moved[free], other[free])


@pytest.mark.parametrize(("family", "alone"), [(3, 4), (5, 2)])
def test_labels_of_judges_stay_and_confidence_comes_near_the_truth(crowds: Any, family: int, alone: int) -> None:
    drawn = crowds.judges(1, family, alone)
    result = fit(drawn.votes)
    posterior = cautious(result, find(drawn.votes))
    label, rows = result.codes, np.arange(len(drawn.truth))
    np.testing.assert_array_equal(best_class(posterior, result.class_prior), label)
    assert (posterior[rows, label] <= result.confidence + 1e-12).all()
    right = (label == drawn.truth).mean()
    # The fit follows the family and is sure of it; the gap closes by more than half.
    assert result.confidence.mean() - right > 0.15
    assert posterior[rows, label].mean() - right < 0.5 * (result.confidence.mean() - right)


def test_items_on_which_everybody_agrees_stay_certain(crowds: Any) -> None:
    votes = crowds.judges(1, 3, 4).votes
    result = fit(votes)
    lowest = np.minimum.reduceat(votes.label, votes.item_ptr[:-1])
    unanimous = lowest == np.maximum.reduceat(votes.label, votes.item_ptr[:-1])
    assert unanimous.any()
    assert cautious(result, find(votes)).max(axis=1)[unanimous].min() > 0.85


def test_known_labels_stay_known(crowds: Any) -> None:
    drawn = crowds.judges(1, 3, 4)
    votes = drawn.votes.with_gold({n: int(drawn.truth[n]) for n in range(50)})
    result = fit(votes)
    np.testing.assert_array_equal(cautious(result, find(votes))[:50], result.posterior[:50])


def test_without_groups_the_posterior_is_as_it_was() -> None:
    result = fit(simulate(100, 10, 3, 5, random_state=0).votes)
    assert cautious(result, Dependence()) is result.posterior


@pytest.mark.slow
def test_a_chosen_method_and_history_are_fitted_again_as_they_were() -> None:
    votes, _, _ = grouped_crowd(2, n_items=300, n_annotators=12, n_groups=3)
    found = find(votes)
    assert found
    plain = fit(votes, "auto", operations=0)
    assert plain.method.startswith("auto: ")
    assert (cautious(plain, found).max(axis=1) <= plain.confidence + 1e-12).all()
