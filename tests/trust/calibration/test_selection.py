from __future__ import annotations

import numpy as np
import pytest

from crowdwise.errors import InputError, SettingError
from crowdwise.trust.calibration import select
from crowdwise.trust.calibration.selection import least_known


def test_without_truth_expected_errors_are_counted_by_hand():
    confidence = [0.6, 0.99, 0.9, 0.97]
    # From the surest: 0.01; (0.01 + 0.03) / 2 = 0.02; 0.14 / 3 = 0.047; 0.54 / 4 = 0.135.
    for rate, accepted in ((0.005, 0), (0.01, 1), (0.02, 2), (0.05, 3), (0.13, 3), (0.14, 4)):
        found = select(confidence, rate)
        assert found.accept.sum() == accepted
        assert found.bound is None
    assert select(confidence, 0.05).accept.tolist() == [False, True, True, True]
    assert select(confidence, 0.05).expected == pytest.approx(0.14 / 3)


def test_equal_confidences_are_accepted_together_or_not_at_all():
    assert select([0.9, 0.9, 0.9, 1.0], 0.06).accept.tolist() == [False, False, False, True]
    assert select([0.9, 0.9, 0.9, 1.0], 0.08).accept.all()


def test_how_many_known_items_it_takes():
    for rate, delta in ((0.05, 0.05), (0.01, 0.05), (0.1, 0.2)):
        n = least_known(rate, delta)
        assert (1 - rate) ** n <= delta < (1 - rate) ** (n - 1)


def test_with_truth_the_sequence_stops_at_the_first_failure():
    # 100 items, all known; the surest 70 right, then wrong ones. Steps of two items.
    confidence = np.linspace(1, 0.5, 100)
    wrong = np.zeros(100, int)
    wrong[70:] = 1
    found = select(confidence, 0.1, wrong)
    # 70 right and 2 wrong: upper bound 0.085; 4 wrong of 74: 0.120 > 0.1.
    assert found.accept.sum() == 72
    assert (found.n_checked, found.n_wrong) == (72, 2)
    assert found.bound == pytest.approx(0.085, abs=0.001)
    # Later items being right does not help any more.
    wrong[74:] = 0
    assert select(confidence, 0.1, wrong).accept.sum() == 72


def test_too_few_known_items_accept_nothing():
    found = select(np.linspace(0.9, 1, 58), 0.05, np.zeros(58, int))
    assert not found.accept.any()
    assert found.interval is None
    assert found.facts()["threshold"] is None
    assert select(np.linspace(0.9, 1, 59), 0.05, np.zeros(59, int)).accept.all()


def test_the_error_of_the_accepted_exceeds_the_rate_at_most_as_often_as_allowed():
    rate, delta, runs = 0.1, 0.2, 300
    rng = np.random.default_rng(0)
    exceeded, accepted = 0, []
    for _ in range(runs):
        score = rng.random(1000)
        # True error at a score: 0.3 (1 - score); of all items above t: 0.15 (1 - t). Rate 0.1 is at t = 1/3.
        wrong = rng.random(1000) < 0.3 * (1 - score)
        known = np.where(rng.random(1000) < 0.3, wrong, -1)
        found = select(score, rate, known, delta=delta)
        exceeded += bool(found.accept.any()) and 0.15 * (1 - found.threshold) > rate
        accepted.append(found.accept.mean())
    # 300 runs at 0.2: a standard error of 0.023.
    assert exceeded / runs < delta + 3 * 0.023
    # It is not safe merely because it accepts nothing: the most that could be accepted is 2/3.
    assert np.mean(accepted) > 0.3


def test_bad_inputs_are_named():
    with pytest.raises(SettingError, match="rate"):
        select([0.5], 0)
    with pytest.raises(SettingError, match="delta"):
        select([0.5], 0.1, delta=1)
    with pytest.raises(InputError, match="finite"):
        select([np.nan], 0.1)
    with pytest.raises(InputError, match="unknown"):
        select([0.5], 0.1, [2])
    assert select([], 0.1, []).accept.size == 0
