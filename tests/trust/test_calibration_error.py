"""What chance leaves of the calibration error, and the error without it, against enumeration and simulated predictions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from crowdwise.trust.metrics import ece, ece_by_chance, ece_debiased, without_chance


def two_classes(confidence: np.ndarray) -> np.ndarray:
    return np.stack([confidence, 1 - confidence], axis=1)


@pytest.mark.parametrize(("n", "p"), [(1, 0.9), (7, 0.8), (40, 0.95), (300, 0.55)])
def test_chance_in_one_bin_is_the_mean_deviation_of_a_binomial(n: int, p: float) -> None:
    wrong = np.arange(n + 1)
    expected = float(binom.pmf(wrong, n, 1 - p) @ np.abs(wrong / n - (1 - p)))
    found = ece_by_chance(two_classes(np.full(n, p)), np.zeros(n, int), n_bins=1)
    # A thousand draws, each with a standard deviation of about three quarters of the mean (more where n = 1).
    assert found == pytest.approx(expected, rel=0.1)


def test_ties_earn_their_share_by_chance_too() -> None:
    # Three classes at 0.4, 0.4 and 0.2: the choice earns 1/2 in four cases of five, which is 0.4 on average.
    expected = 0.8 * abs(0.5 - 0.4) + 0.2 * abs(0 - 0.4)
    assert ece_by_chance([[0.4, 0.4, 0.2]], [0]) == pytest.approx(expected, rel=0.05)
    # Items of one confidence share their accuracy: 30 in 15 bins are one bin of 30, not 15 of two.
    posterior, truth = two_classes(np.full(30, 0.7)), np.zeros(30, int)
    assert ece_by_chance(posterior, truth) == pytest.approx(ece_by_chance(posterior, truth, n_bins=1))


def test_order_of_rows_and_unknown_items_change_nothing() -> None:
    rng = np.random.default_rng(0)
    posterior, truth = rng.dirichlet(np.ones(3), 40), rng.integers(-1, 3, 40)
    posterior[:10] = [0.4, 0.4, 0.2]
    order = rng.permutation(40)
    assert ece_by_chance(posterior[order], truth[order]) == pytest.approx(ece_by_chance(posterior, truth), rel=1e-12)
    assert ece_debiased(posterior[truth >= 0], truth[truth >= 0]) == ece_debiased(posterior, truth)


@pytest.mark.parametrize("gap", [0.001, 0.03, 0.1, 0.4])
def test_what_is_left_is_the_gap_behind_the_mean_of_a_folded_normal(gap: float) -> None:
    spread = 0.05
    mean, _ = quad(lambda z: abs(gap + spread * z) * norm.pdf(z), -12, 12, points=[-gap / spread] if gap < 0.5 else None)
    chance = spread * quad(lambda z: abs(z) * norm.pdf(z), -12, 12, points=[0])[0]
    # Near zero the mean hardly tells gaps apart, and the integral is good to eight digits.
    assert without_chance(mean, chance) == pytest.approx(gap, rel=1e-3)
    assert without_chance(2 * chance - mean, chance) == pytest.approx(-gap, rel=1e-3) or mean > 2 * chance


def test_nothing_is_taken_off_where_chance_leaves_nothing() -> None:
    sure = np.tile([1.0, 0.0], (5, 1))
    assert ece_by_chance(sure, np.zeros(5, int)) == 0
    assert ece_debiased(sure, [0, 0, 0, 0, 1]) == ece(sure, [0, 0, 0, 0, 1]) == pytest.approx(0.2)
    assert without_chance(0.3, 0.3) == 0
    assert np.isnan(without_chance(float("nan"), float("nan")))


SHAPES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    # Accuracy by confidence, uniform between 1/2 and 1, and the mean gap in endless data.
    "perfect": (lambda q: q, 0.0),
    "0.06 too sure": (lambda q: q - 0.06, 0.06),
    "0.1 too sure": (lambda q: q - 0.1, 0.1),
    # Logarithms of the odds twice too large: the mean of q - sqrt(q) / (sqrt(q) + sqrt(1 - q)) over q.
    "twice too sure": (
        lambda q: np.sqrt(q) / (np.sqrt(q) + np.sqrt(1 - q)),
        quad(lambda q: 2 * (q - np.sqrt(q) / (np.sqrt(q) + np.sqrt(1 - q))), 0.5, 1)[0],
    ),
}


@pytest.mark.parametrize("n", [50, 160, 1000, 10_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_without_chance_is_that_of_endless_data_and_the_plain_one_is_above(shape: str, n: int) -> None:
    accuracy, expected = SHAPES[shape]
    rng = np.random.default_rng(n)
    q = rng.uniform(0.5, 1, n)
    posterior = two_classes(q)
    chance = ece_by_chance(posterior, np.zeros(n, int))
    plain = np.array([ece(posterior, (rng.random(n) > accuracy(q)).astype(int)) for _ in range(150 if n < 5000 else 40)])
    debiased = np.array([without_chance(one, chance) for one in plain])
    error = debiased.std() / np.sqrt(len(debiased))
    # Gaps that differ from bin to bin leave it somewhat large while chance is as large as they are.
    slack = 0.3 * expected * min(1.0, chance / expected) ** 2 if shape == "twice too sure" else 0.0
    assert abs(debiased.mean() - expected) < 4 * error + slack + 0.002
    if n <= 160:
        assert plain.mean() > expected + 0.3 * chance > debiased.mean()
