from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.trust.audit.crowds import crowd, strata

from crowdwise.trust.audit.strata import drawing_order, drawing_weights, first_set, strata_of


def test_bands_cut_by_confidence_from_the_surest_down() -> None:
    result, _ = crowd()
    found = strata_of(result)
    assert found.size.sum() == found.n_items == 400
    band = found.band[found.stratum]
    confidence = result.confidence[found.item]
    for j, threshold in enumerate(found.threshold):
        assert confidence[band == j].min() == pytest.approx(threshold)
        if j:
            assert confidence[band == j].max() < confidence[band == j - 1].min()
    assert (np.diff(found.member @ found.size) > 0).all()


def test_known_items_and_items_without_votes_are_not_drawn() -> None:
    result, gold = crowd()
    some = dict(list(gold.items())[:50])
    found = strata_of(replace(result, votes=result.votes.with_gold(some)))
    assert found.n_items == 350
    assert (result.votes.with_gold(some).gold[found.item] == -1).all()


def test_equal_confidences_make_one_band() -> None:
    result, _ = crowd()
    flat = np.full(result.posterior.shape, 1 / 3)
    assert len(strata_of(replace(result, posterior=flat, inferred=flat)).threshold) == 1


def test_weights_sum_to_one_and_favour_what_can_be_certified() -> None:
    found = strata([50] * 10, [0.002 * k for k in range(1, 11)])
    weight = drawing_weights(found, 0.05)
    assert weight @ found.size == pytest.approx(1)
    assert (weight > 0).all()
    assert first_set(found) == 4
    assert weight[:5].min() > 2 * weight[8:].max()
    assert drawing_weights(found, 0.05, even=True) == pytest.approx(1 / 500)


def test_within_a_set_more_is_drawn_where_more_errors_are_expected() -> None:
    weight = drawing_weights(strata([50] * 10, [0.001, 0.01, 0.05, 0.1, 0.3] + [0.4] * 5), 0.2)
    assert (np.diff(weight[:5]) > 0).all()


def test_rare_classes_are_drawn_more_often() -> None:
    result, _ = crowd()
    rare = result.posterior.copy()
    rare[:380] = [0.9, 0.06, 0.04]
    rare[380:] = [0.04, 0.06, 0.9]
    found = strata_of(replace(result, posterior=rare, inferred=rare))
    assert sorted(np.unique(found.boost)) == [1, 2]


def test_draws_follow_the_weights() -> None:
    """First draws of 3,000 seeds against the weights: within four standard errors."""
    found = strata([2, 3, 5])
    weight = np.array([3.0, 1.0, 0.2])
    first = np.array([found.stratum[drawing_order(found, weight, seed)[0]] for seed in range(3000)])
    share = weight * found.size / (weight @ found.size)
    assert np.abs(np.bincount(first, minlength=3) / 3000 - share).max() < 4 * np.sqrt(0.25 / 3000)
    order = drawing_order(found, weight, 7)
    assert sorted(order.tolist()) == list(range(10))
    assert (order == drawing_order(found, weight, 7)).all()


def test_no_items_no_strata() -> None:
    result, gold = crowd()
    found = strata_of(replace(result, votes=result.votes.with_gold(gold)))
    assert found.n_items == 0
    assert len(drawing_weights(found, 0.05)) == 0
