from __future__ import annotations

import numpy as np
import pytest

from crowdwise.parts.priors.anchored import Anchored
from crowdwise.parts.priors.recalibrated import Correction, Recalibrated, expected_loss


def by_the_book(slope: float, unsure: float, shares: np.ndarray, f_nk: np.ndarray) -> np.ndarray:
    """One item at a time."""
    rows, mean = [], f_nk.mean(axis=0)
    for f in f_nk:
        power = (f / mean) ** slope * shares
        rows.append((1 - unsure) * power / power.sum() + unsure * shares)
    return np.array(rows)


def objective(slope: float, unsure: float, shares: np.ndarray, f_nk: np.ndarray, q_nk: np.ndarray) -> float:
    """Expected log-likelihood, and the log densities of log t and of the log-odds of e."""
    prior = -(np.log(slope) ** 2) / 2 + 0.5 * np.log(unsure * (1 - unsure))
    return float((q_nk * np.log(by_the_book(slope, unsure, shares, f_nk))).sum() + prior)


def drawn(seed: int, n_items: int, n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(n_classes))
    return rng.dirichlet(np.ones(n_classes), n_items), rng.dirichlet(np.ones(n_classes), n_items), shares


def odds(unsure: float) -> float:
    return float(np.log(unsure / (1 - unsure)))


def test_probabilities_are_tempered_beyond_their_shares_and_mixed() -> None:
    f_nk, _, shares = drawn(0, 7, 3)
    correction = Correction(np.log(1.7), odds(0.2), np.log(f_nk.mean(axis=0)), np.log(shares))
    np.testing.assert_allclose(np.exp(correction.apply(np.log(f_nk))), by_the_book(1.7, 0.2, shares, f_nk), atol=1e-12)


def test_value_and_slope_are_those_of_the_formula() -> None:
    f_nk, q_nk, shares = drawn(1, 9, 4)
    at = np.array([0.3, -1.0])
    value, slope = expected_loss(at, np.log(f_nk / f_nk.mean(axis=0)), np.log(shares), q_nk)

    def by_hand(log_slope: float, log_odds: float) -> float:
        return -objective(np.exp(log_slope), 1 / (1 + np.exp(-log_odds)), shares, f_nk, q_nk)

    assert value == pytest.approx(by_hand(*at))
    for d in range(2):
        nudge = 1e-6 * np.eye(2)[d]
        assert slope[d] == pytest.approx((by_hand(*(at + nudge)) - by_hand(*(at - nudge))) / 2e-6, rel=1e-5, abs=1e-6)


def test_an_update_cannot_be_improved_and_its_penalty_is_the_log_prior() -> None:
    f_nk, q_nk, _ = drawn(2, 60, 3)
    voted = np.array([30.0, 20.0, 10.0])
    prior = Recalibrated.start(np.log(f_nk), Anchored.start(voted)).update(q_nk)
    # The geometric mean of what votes and labels say, one item more in every class.
    shares = np.sqrt((1 + voted) * (1 + q_nk.sum(axis=0)))
    shares /= shares.sum()
    slope, unsure = np.exp(prior.correction.log_slope), 1 / (1 + np.exp(-prior.correction.log_odds))
    best = objective(slope, unsure, shares, f_nk, q_nk)
    assert float((q_nk * prior.log_prob()).sum()) - prior.penalty() == pytest.approx(best)
    around = [(slope * a, unsure * b) for a in (0.9, 1.0, 1.1) for b in (0.9, 1.0, 1.1)]
    assert max(objective(a, b, shares, f_nk, q_nk) for a, b in around) <= best + 1e-6


@pytest.mark.parametrize(("slope", "unsure"), [(0.4, 0.02), (2.5, 0.02), (1.0, 0.3)])
def test_a_correction_is_recovered_from_labels_drawn_by_it(slope: float, unsure: float) -> None:
    rng = np.random.default_rng(3)
    f_nk = rng.dirichlet(np.full(3, 0.5), 5_000).clip(1e-6)
    shares = np.array([0.5, 0.2, 0.3])
    p_nk = by_the_book(slope, unsure, shares, f_nk)
    label = (rng.random((len(p_nk), 1)) > p_nk.cumsum(axis=1)[:, :-1]).sum(axis=1)
    # A prior whose shares are those that the labels were drawn with, whatever labels say.
    fixed = Anchored(shares**2 / p_nk.sum(axis=0), np.ones(3))
    prior = Recalibrated.start(np.log(f_nk), fixed).update(np.eye(3)[label])
    np.testing.assert_allclose(np.exp(prior.log_prob()), p_nk, atol=0.05)
    assert np.exp(prior.correction.log_slope) == pytest.approx(slope, rel=0.15)
    assert 1 / (1 + np.exp(-prior.correction.log_odds)) == pytest.approx(unsure, abs=0.05)


def test_a_classifier_that_says_nothing_leaves_the_shares() -> None:
    prior = Recalibrated.start(np.full((50, 3), -np.log(3)), Anchored.start(np.array([30.0, 20.0, 0.0])))
    updated = prior.update(np.tile([0.6, 0.4, 0.0], (50, 1)))
    np.testing.assert_allclose(np.exp(updated.log_prob()), np.tile(np.array([31, 21, 1]) / 53, (50, 1)))
