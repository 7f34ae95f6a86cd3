from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from tests.trust.audit.crowds import strata
from tests.trust.audit.test_bets import chance_of

from crowdwise.trust.audit.estimates import estimate_right, wrong_interval
from crowdwise.trust.audit.rates import error_rates

STRATA = np.array([0, 0, 0, 1, 1])
SIZE, WEIGHT, ERROR = np.array([3, 2]), np.array([1.0, 2.5]), np.array([0.1, 0.4])


@pytest.mark.slow
def test_over_all_orders_the_interval_misses_with_probability_alpha_at_most() -> None:
    stratum, size = np.array([0, 0, 1, 1]), np.array([2, 2])
    orders = [np.array(order) for order in permutations(range(4))]
    chance = np.array([chance_of(tuple(order), WEIGHT[stratum]) for order in orders])
    for pattern in product([False, True], repeat=4):
        wrong = np.array(pattern)
        missed = np.zeros(len(orders), bool)
        for index, order in enumerate(orders):
            for look in (1, 2, 3):
                low, high = wrong_interval(size, WEIGHT, ERROR, stratum[order[:look]], wrong[order[:look]], alpha=0.4)
                missed[index] |= not low <= wrong.sum() <= high
        assert chance[missed].sum() <= 0.4 + 1e-9


def test_all_checked_is_exact() -> None:
    wrong = np.array([0, 1, 0, 0, 1], bool)
    rate = error_rates(strata([3, 2], [0.1, 0.4]), WEIGHT, np.zeros(5, int), np.arange(5), wrong)
    found = estimate_right(SIZE, WEIGHT, ERROR, STRATA, wrong, rate=rate)
    assert (found.share, found.low, found.high) == pytest.approx((0.6, 0.6, 0.6))
    assert (found.n_items, found.n_checked, found.n_wrong) == (5, 5, 2)


def test_nothing_checked_leaves_everything_possible() -> None:
    none = np.array([], int)
    rate = error_rates(strata([3, 2], [0.1, 0.4]), WEIGHT, np.zeros(5, int), none, none.astype(bool))
    found = estimate_right(SIZE, WEIGHT, ERROR, none, none.astype(bool), rate=rate)
    assert (found.low, found.high) == (0, 1)
    assert found.share == pytest.approx(1 - (0.3 + 0.8) / 5)


def test_an_estimate_outside_of_its_interval_widens_it() -> None:
    size, weight, stratum, wrong = np.array([100]), np.array([0.01]), np.zeros(60, int), np.zeros(60, bool)
    low, high = wrong_interval(size, weight, np.array([0.1]), stratum, wrong)
    assert (low, high < 30) == (0, True)
    found = estimate_right(size, weight, np.array([0.1]), stratum, wrong, rate=np.full(100, 0.3))
    assert (found.share, found.low, found.high) == pytest.approx((0.7, 0.7, 1.0))
