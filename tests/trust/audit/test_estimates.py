from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from tests.trust.audit.test_bets import chance_of

from crowdwise.trust.audit.estimates import estimate_right, wrong_interval

STRATA = np.array([0, 0, 0, 1, 1])
SIZE, WEIGHT, ERROR = np.array([3, 2]), np.array([1.0, 2.5]), np.array([0.1, 0.4])


def test_over_all_orders_the_interval_misses_with_probability_alpha_at_most() -> None:
    strata, size = np.array([0, 0, 1, 1]), np.array([2, 2])
    orders = [np.array(order) for order in permutations(range(4))]
    chance = np.array([chance_of(tuple(order), WEIGHT[strata]) for order in orders])
    for pattern in product([False, True], repeat=4):
        wrong = np.array(pattern)
        missed = np.zeros(len(orders), bool)
        for index, order in enumerate(orders):
            for look in (1, 2, 3):
                low, high = wrong_interval(size, WEIGHT, ERROR, strata[order[:look]], wrong[order[:look]], alpha=0.4)
                missed[index] |= not low <= wrong.sum() <= high
        assert chance[missed].sum() <= 0.4 + 1e-9


def test_all_checked_is_exact() -> None:
    wrong = np.array([0, 1, 0, 0, 1], bool)
    found = estimate_right(SIZE, WEIGHT, ERROR, STRATA, wrong)
    assert (found.share, found.low, found.high) == pytest.approx((0.6, 0.6, 0.6))
    assert (found.n_items, found.n_checked, found.n_wrong) == (5, 5, 2)


def test_the_estimate_is_unbiased() -> None:
    """Over all orders of three draws, before it is kept inside its interval."""
    from crowdwise.trust.audit.estimates import _difference_estimate

    wrong = np.array([1, 0, 0, 1, 0], bool)
    total = 0.0
    for order in permutations(range(5), 3):
        drawn = np.array(order)
        total += chance_of(order, WEIGHT[STRATA]) * _difference_estimate(SIZE, WEIGHT, ERROR, STRATA[drawn], wrong[drawn])
    # `chance_of` divides by the weight of all five items from the start.
    assert total == pytest.approx(2)


def test_nothing_checked_leaves_everything_possible() -> None:
    found = estimate_right(SIZE, WEIGHT, ERROR, np.array([], int), np.array([], bool))
    assert (found.low, found.high) == (0, 1)
    assert found.share == pytest.approx(1 - (0.3 + 0.8) / 5)
