from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tests.trust.audit.crowds import crowd, filled, strata
from tests.trust.audit.test_bets import chance_of

from crowdwise.trust.audit import certify, draw
from crowdwise.trust.audit.rates import drawn_chances, error_rates
from crowdwise.trust.audit.strata import drawing_order, drawing_weights


def test_chances_of_being_drawn_are_those_of_all_orders() -> None:
    size, weight, stratum = np.array([3, 3]), np.array([1.0, 2.5]), np.array([0, 0, 0, 1, 1, 1])
    exact = np.zeros(6)
    for order in permutations(range(6), 3):
        exact[list(order)] += chance_of(order, weight[stratum])
    found = drawn_chances(size, weight, 3)
    assert size @ found == pytest.approx(3)
    assert found == pytest.approx(exact[[0, 3]], abs=0.02)


def test_checked_items_are_known_and_others_follow_them() -> None:
    cut, group = strata([50, 50], [0.05, 0.3]), np.tile([0, 1], 50)
    place = np.arange(0, 100, 3)
    all_right, all_wrong = (
        error_rates(cut, np.full(2, 0.01), group, place, np.full(len(place), wrong)) for wrong in (False, True)
    )
    assert set(all_right[place]) == {0}
    assert set(all_wrong[place]) == {1}
    other = np.setdiff1d(np.arange(100), place)
    expected = cut.error[cut.stratum[other]]
    assert (all_right[other] < expected).all()
    assert (all_wrong[other] > expected).all()
    # Errors of one class speak of that class most.
    one = error_rates(cut, np.full(2, 0.01), group, place, group[place] == 1)
    assert one[other][group[other] == 1].mean() > 2 * one[other][group[other] == 0].mean()


@pytest.mark.parametrize("model", [0.03, 0.12, 0.35])
def test_the_estimate_follows_the_truth_and_not_the_model(model: float) -> None:
    """12 % are wrong, 3 to 21 % from the surest band down; the model expects fewer, as many and far more, everywhere alike."""
    cut = strata([250] * 4, [model] * 4)
    wrong = np.random.default_rng(0).random(1000) < np.repeat([0.03, 0.09, 0.15, 0.21], 250)
    weight = drawing_weights(cut, 0.05)
    off = []
    for seed in range(40):
        place = drawing_order(cut, weight, seed)[:200]
        off.append(error_rates(cut, weight, np.zeros(1000, int), place, wrong[place]).mean() - wrong.mean())
    assert abs(np.mean(off)) < 0.02
    assert np.std(off) < 0.03


@pytest.mark.slow
def test_shares_of_classes_add_up_to_that_of_all_and_lie_inside_their_intervals() -> None:
    result, gold = crowd(1500, 3)
    for seed in range(6):
        audit = certify(result, filled(draw(result, 60, seed=seed).frame(), gold))
        sizes = [found.n_items for found in audit.by_class.values()]
        assert sum(sizes) == audit.right.n_items
        mean = np.average([found.share for found in audit.by_class.values()], weights=sizes)
        assert audit.right.share == pytest.approx(mean)
        assert audit.right.low < audit.right.share < audit.right.high
