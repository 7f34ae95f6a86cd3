from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.trust.crowd.crowds import fit, grouped_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.errors import SettingError
from crowdwise.estimator.registry import make
from crowdwise.kernels.numerics import best_class
from crowdwise.trust.crowd.cautious import cautious, lowered, settled_by_gold, settled_by_trust
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


def test_known_labels_choose_between_the_readings() -> None:
    votes, truth = judges()
    result = make("dawid-skene").fit(votes).result_
    found = find(votes)
    assert len(found.readings) > 1
    gold = np.where(np.arange(votes.n_items) < 60, truth, -1)
    known = replace(votes, gold=gold.astype(np.int16))
    settled = settled_by_gold(make("dawid-skene").fit(known).result_, found)
    assert [group.names(votes) for group in settled.groups] == [["judge-0", "judge-1", "judge-2"]]
    assert len(settled.readings) == 1
    # Known labels that agree with both readings decide nothing.
    assert settled_by_gold(result, found) is found


def judges() -> tuple[Annotations, np.ndarray]:
    """Three judges who share errors, four who do not; two classes."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=600)

    def seen(right: float, what: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(what)) < right, what, 1 - what)

    shared = seen(0.75, truth)
    columns = [seen(0.97, shared) for _ in range(3)] + [seen(0.85, truth) for _ in range(4)]
    names = [f"judge-{j}" for j in range(7)]
    return Annotations.from_matrix(np.column_stack(columns), annotators=names), truth


def test_a_trusted_annotator_chooses_between_the_readings() -> None:
    votes, _ = judges()
    found = find(votes)
    assert len(found.readings) == 2
    (family,), (others,) = (reading.groups for reading in found.readings)
    for group, left in ((others, family), (family, others)):
        settled = settled_by_trust(votes, found, [group.names(votes)[0]])
        assert [one.names(votes) for one in settled.groups] == [left.names(votes)]
    # Somebody of each side cannot both be right: then both readings stay.
    both = [family.names(votes)[0], others.names(votes)[0]]
    assert settled_by_trust(votes, found, both).readings == found.readings
    with pytest.raises(SettingError, match="no annotator is called 'nobody'"):
        settled_by_trust(votes, found, ["nobody"])
