"""The certificate: by enumeration it fails with probability alpha at most; by simulation also over many looks."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from tests.trust.audit.crowds import strata
from tests.trust.audit.test_bets import chance_of

from crowdwise.trust.audit.certificate import allowed_wrong, certified_bands, levels_of_sets, passed_sets, start_sets
from crowdwise.trust.audit.growth import more_draws
from crowdwise.trust.audit.strata import drawing_order, drawing_weights


def test_over_all_orders_and_looks_the_certificate_fails_with_probability_alpha_at_most() -> None:
    """Bands of 2, 2 and 1 items, 40 % allowed; all 32 patterns of errors, all 120 orders, looks after every draw."""
    bands, weight, alpha = strata([2, 2, 1], [0.05, 0.1, 0.3]), np.array([2.0, 1.0, 0.5]), 0.4
    orders = [np.array(order) for order in permutations(range(5))]
    chance = np.array([chance_of(tuple(order), weight[bands.stratum]) for order in orders])
    start, level, worst = start_sets(bands, weight, 0.4), levels_of_sets(bands, alpha), 0.0
    for pattern in product([False, True], repeat=5):
        wrong = np.array(pattern)
        false = np.cumsum(wrong)[[1, 3, 4]] / [2, 4, 5] > 0.4
        failed = np.zeros(len(orders), bool)
        for index, order in enumerate(orders if false.any() else []):
            _, path = start.after(bands.stratum[order], wrong[order])
            # The set that is accepted at a look is the last that passes.
            for look in range(1, 6):
                passed = np.flatnonzero(passed_sets(path[: look + 1], level))
                failed[index] |= len(passed) > 0 and false[passed[-1]]
        worst = max(worst, float(chance[failed].sum()))
    assert worst <= alpha + 1e-9
    # The test can fail: some pattern of errors is certified wrongly now and then.
    assert worst > 0


def test_all_checked_certifies_exactly_what_holds() -> None:
    bands = strata([10, 10, 10, 10])
    wrong = np.zeros(40, bool)
    wrong[[5, 25, 26, 35, 36]] = True
    order = drawing_order(bands, drawing_weights(bands, 0.1), 0)
    found = certified_bands(bands, drawing_weights(bands, 0.1), bands.stratum[order], wrong[order], error=0.1, alpha=0.05)
    # Shares of errors: 0.1, 0.05, 0.1, 0.125.
    assert found.n_bands == 3


def test_levels_add_up_and_are_passed_on() -> None:
    level = levels_of_sets(strata([10] * 8), 0.05)
    assert level.sum() == pytest.approx(0.05)
    assert np.flatnonzero(level).tolist() == [1, 3]
    need = -np.log(0.05)
    # The first start fails: the second goes on alone, at its own level.
    assert (
        passed_sets(np.array([[9, 0, 9, -np.log(0.04), need, 9, 9, 9]]), level).tolist() == [False] * 3 + [True] + [False] * 4
    )
    # It passes: what it had is passed on, and everything after it is tested with all of alpha.
    high = -np.log(0.01)
    assert passed_sets(np.array([[0, high, high, need, need, 0, 9, 9]]), level).tolist() == [False] + [True] * 4 + [False] * 3


def test_allowed_wrong_counts_whole_labels() -> None:
    assert allowed_wrong(np.array([19, 20, 39, 40, 60]), 0.05).tolist() == [0, 1, 1, 2, 3]


def test_one_stratum_of_few_items_and_of_one() -> None:
    one = strata([1])
    found = certified_bands(one, np.ones(1), np.array([0]), np.array([False]), error=0.05, alpha=0.05)
    assert found.n_bands == 1
    assert certified_bands(one, np.ones(1), np.array([0]), np.array([True]), error=0.05, alpha=0.05).n_bands == 0
    assert certified_bands(one, np.ones(1), np.array([], int), np.array([], bool), error=0.05, alpha=0.05).n_bands == 0


@pytest.mark.slow
def test_simulated_audits_with_a_look_after_every_check_fail_rarely() -> None:
    """Every set just above the allowed share: any certificate is false. Alpha 0.1, 300 audits of up to 300 checks."""
    bands = strata([40] * 10, [0.01 * k for k in range(1, 11)])
    weight, rng = drawing_weights(bands, 0.05), np.random.default_rng(0)
    wrong = np.zeros(400, bool)
    # 3 of the first 40, then 2 of 40 each: 7.5 %, 6.25 %, 5.8 %, ...; 21 of 400 in all.
    for k in range(10):
        wrong[40 * k : 40 * k + (3 if k == 0 else 2)] = True
    assert (np.cumsum(wrong)[39::40] > 0.05 * np.arange(40, 401, 40)).all()
    failed = 0
    for _ in range(300):
        order = drawing_order(bands, weight, int(rng.integers(2**31)))[:300]
        found = certified_bands(bands, weight, bands.stratum[order], wrong[order], error=0.05, alpha=0.1)
        # Wealth that once sufficed is kept as long as the allowed errors are not found.
        failed += found.n_bands > 0
    assert failed / 300 <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 300)


@pytest.mark.slow
def test_the_outlook_says_about_how_many_checks_it_takes() -> None:
    """The median of simulated audits lies within a factor of two of what was said before the first."""
    bands, rng = strata([200] * 5, [0.01] * 5), np.random.default_rng(1)
    weight = drawing_weights(bands, 0.05)
    empty = certified_bands(bands, weight, np.array([], int), np.array([], bool), error=0.05, alpha=0.05)
    expected = more_draws(empty.bets, np.full(5, 0.01), np.full(5, 0.05))
    needed = []
    for _ in range(40):
        wrong = rng.random(1000) < 0.01
        order = drawing_order(bands, weight, int(rng.integers(2**31)))
        _, path = empty.bets.after(bands.stratum[order[:400]], wrong[order[:400]])
        needed.append(int(np.argmax(path[:, 2] >= -np.log(0.05))))
    assert expected[2] / 2 <= np.median(needed) <= 2 * expected[2]
