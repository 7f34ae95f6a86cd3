"""The bets: fair by enumeration, equal to likelihood ratios of an urn, and never ahead of their level."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.trust.audit.bets import SHIFTS, STAKES, shifted_errors, start_bets


def test_one_stratum_is_the_likelihood_ratio_of_an_urn() -> None:
    """By hand: 30 labels, H0 says 6 are wrong; before each draw mu of the R that remain are."""
    bets = start_bets(np.ones((1, 1), bool), np.ones(1), [30], np.array([0.1]), [6])
    wrong = np.array([0, 0, 1, 0, 0, 0, 1, 0], bool)
    _, path = bets.after(np.zeros(len(wrong), int), wrong)
    by_hand = 0.0
    for p, stake in zip(bets.expected[:, 0, 0], STAKES, strict=True):
        wealth, remaining, mu = stake, 30, 6
        for z in wrong:
            r = mu / remaining
            if p < r:
                wealth *= p / r if z else (1 - p) / (1 - r)
            remaining, mu = remaining - 1, mu - z
        by_hand += wealth
    assert np.exp(path[-1, 0]) == pytest.approx(by_hand, rel=1e-3)
    # The search stops on the side of the house: never more than the exact payoff of labels that are right.
    two_right = (1 - bets.expected[:, 0, 0]) ** 2 / (0.8 * (1 - 6 / 29))
    assert np.exp(path[2, 0]) <= two_right @ STAKES + 1e-12


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    weights=st.lists(st.floats(0.1, 5), min_size=4, max_size=4),
    errors=st.lists(st.floats(0.001, 0.6), min_size=4, max_size=4),
    data=st.data(),
)
def test_no_bet_gains_on_average_where_h0_holds(
    sizes: list[int], weights: list[float], errors: list[float], data: st.DataObject
) -> None:
    n = sum(sizes)
    total = data.draw(st.integers(1, n))
    strata = np.repeat(np.arange(len(sizes)), sizes)
    wrong = np.array(data.draw(st.permutations([True] * total + [False] * (n - total))))
    weight = np.array(weights[: len(sizes)])
    bets = start_bets(
        np.ones((1, len(sizes)), bool), weight, sizes, np.array(errors[: len(sizes)]), [data.draw(st.integers(1, total))]
    )
    right_pays, wrong_pays = (np.exp(part[:, 0]) for part in bets.payoffs())
    chance = weight[strata] / weight[strata].sum()
    payoff = np.where(wrong, wrong_pays[:, strata], right_pays[:, strata]) @ chance
    assert (payoff <= 1 + 1e-9).all()


def chance_of(order: tuple[int, ...], weight: np.ndarray) -> float:
    """Probability of drawing all items in this order, each in proportion to its weight among the remaining."""
    left, chance = weight.sum(), 1.0
    for item in order:
        chance *= weight[item] / left
        left -= weight[item]
    return float(chance)


@pytest.mark.slow
@pytest.mark.parametrize("total", [1, 2, 3])
def test_over_all_orders_the_wealth_reaches_1_over_alpha_with_probability_alpha_at_most(total: int) -> None:
    """Every order of six items, every set of wrong ones under H0, looked at after every draw."""
    strata = np.array([0, 0, 0, 1, 1, 2])
    weight = np.array([1.0, 2.0, 0.4])
    bets = start_bets(np.ones((1, 3), bool), weight, [3, 2, 1], np.array([0.01, 0.1, 0.3]), [total])
    orders = list(permutations(range(6)))
    chances = np.array([chance_of(order, weight[strata]) for order in orders])
    assert chances.sum() == pytest.approx(1)
    for wrong in product([False, True], repeat=6):
        if sum(wrong) >= total:
            z = np.array(wrong)
            best = np.array([bets.after(strata[list(order)], z[list(order)])[1].max() for order in orders])
            for alpha in (0.05, 0.2, 0.5):
                assert chances[best >= -np.log(alpha) - 1e-12].sum() <= alpha + 1e-9


def test_what_is_decided_is_decided() -> None:
    bets = start_bets(np.ones((1, 1), bool), np.ones(1), [4], np.array([0.1]), [2])
    assert bets.after([0, 0], [True, True])[1][-1, 0] == -np.inf
    assert bets.after([0, 0, 0], [False, False, False])[1][-1, 0] == np.inf


def test_expected_errors_follow_the_model_and_lie_below_h0() -> None:
    size = np.array([50, 50])
    p = shifted_errors(np.array([[True, True]]), size, np.array([0.01, 0.3]), np.array([10.0]))
    assert (p[..., 0] < p[..., 1]).all()
    mean = p[:, 0] @ size / 100
    logit = np.log(mean / (1 - mean))
    assert logit == pytest.approx(np.log(0.1 / 0.9) - np.array(SHIFTS), abs=1e-6)
