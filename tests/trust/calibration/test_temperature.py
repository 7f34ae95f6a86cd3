from __future__ import annotations

import numpy as np
import pytest
from tests.trust.calibration.crowds import calibrated

from crowdwise.errors import InputError, SettingError
from crowdwise.trust.calibration import Dirichlet, Isotonic, Temperature, cross_fitted
from crowdwise.trust.metrics import ece, log_loss


def sharpened(q: np.ndarray, power: float) -> np.ndarray:
    raised = q**power
    return raised / raised.sum(axis=1, keepdims=True)


def test_tempering_divides_log_odds():
    # Log-odds of 9 to 1, 3 to 1 ... halved are the square roots: 3 to 1, sqrt(3) to 1.
    out = Temperature(2.0).apply([[0.9, 0.1], [0.25, 0.75]])
    assert out == pytest.approx(np.array([[3, 1], [1, np.sqrt(3)]]) / np.array([[4], [1 + np.sqrt(3)]]))


def test_exact_zeros_and_tiny_probabilities_stay_finite():
    out = Temperature(3.0).apply([[1.0, 0.0], [1.0, 1e-280]])
    assert np.isfinite(out).all()
    assert out.sum(axis=1) == pytest.approx(1)
    assert out[1, 1] == pytest.approx(1e-280 ** (1 / 3), rel=1e-6)


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_temperature_finds_the_power_that_sharpened_calibrated_probabilities(power):
    q, truth = calibrated(4000, 3, seed=1)
    assert Temperature.fit(sharpened(q, power), truth).value == pytest.approx(power, rel=0.1)


def test_temperature_is_the_minimum_on_a_grid():
    q, truth = calibrated(60, 3, seed=2)
    q = sharpened(q, 2)

    def loss(t: float) -> float:
        return 60 * log_loss(sharpened(q, 1 / t), truth) + np.log(t) ** 2 / 2

    grid = np.exp(np.linspace(-1, 2, 3001))
    assert Temperature.fit(q, truth).value == pytest.approx(grid[np.argmin([loss(t) for t in grid])], rel=2e-3)


def test_a_few_right_labels_do_not_make_everything_certain():
    # Without its second term the objective falls for ever as T goes to zero.
    assert 0.3 < Temperature.fit([[0.9, 0.1]] * 5, [0] * 5).value < 1


def test_unknown_items_do_not_count():
    q, truth = calibrated(50, 2, seed=3)
    hidden = np.concatenate([truth, np.full(50, -1)])
    assert Temperature.fit(np.concatenate([q, q[::-1]]), hidden) == Temperature.fit(q, truth)


def test_dirichlet_repairs_a_class_bias_that_no_temperature_can():
    q, truth = calibrated(3000, 3, seed=4)
    # Multiplying by class weights is b = log weights in log-space, so the inverse is inside the family.
    biased = q * [4.0, 1.0, 0.5]
    biased /= biased.sum(axis=1, keepdims=True)
    fitted = Dirichlet.fit(biased, truth)
    # Back at the probabilities that the classes were drawn from, before the bias.
    assert np.abs(fitted.apply(biased) - q).mean() < 0.02 < np.abs(biased - q).mean()
    assert log_loss(fitted.apply(biased), truth) < log_loss(q, truth) + 0.01
    assert log_loss(Temperature.fit(biased, truth).apply(biased), truth) > log_loss(q, truth) + 0.05


def test_a_strong_pull_makes_dirichlet_a_temperature():
    q, truth = calibrated(200, 4, seed=5)
    q = sharpened(q, 2)
    assert Dirichlet.fit(q, truth, l2=1e9).apply(q) == pytest.approx(Temperature.fit(q, truth).apply(q), abs=1e-5)


def test_dirichlet_is_at_a_minimum_by_finite_differences():
    q, truth = calibrated(80, 3, seed=6)
    fitted = Dirichlet.fit(q, truth, l2=2.0)
    x = np.log(np.maximum(Temperature(fitted.temperature).apply(q), 1e-12))

    def objective(matrix: np.ndarray, offset: np.ndarray) -> float:
        scores = x @ matrix.T + offset
        log_q = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        penalty = ((matrix - np.eye(3)) ** 2).sum() + (offset**2).sum()
        return float(-log_q[np.arange(80), truth].sum() + penalty)

    for row in range(3):
        for column in range(3):
            step = np.zeros((3, 3))
            step[row, column] = 1e-4
            slope = objective(fitted.matrix + step, fitted.offset) - objective(fitted.matrix - step, fitted.offset)
            assert slope / 2e-4 == pytest.approx(0, abs=0.05)


def test_isotonic_by_hand():
    # Pool adjacent violators: outcomes 0 1 0 1 at rising scores become 0, 1/2, 1/2, 1; the ends are 1/(4 + 2) from 0 and 1.
    q = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.2, 0.8]])
    out = Isotonic.fit(q, [0, 1, 0, 1]).apply(q)
    assert out[:, 1] == pytest.approx([1 / 6, 0.5, 0.5, 5 / 6])


def test_isotonic_of_three_classes_gives_distributions_and_calibrates():
    q, truth = calibrated(6000, 3, seed=7)
    sharp = sharpened(q, 3)
    fitted = Isotonic.fit(sharp[:3000], truth[:3000])
    out = fitted.apply(sharp[3000:])
    assert out.sum(axis=1) == pytest.approx(1)
    assert (out > 0).all()
    assert ece(out, truth[3000:]) < 0.05 < ece(sharp[3000:], truth[3000:])


def test_known_items_are_judged_by_fits_that_have_not_seen_them():
    q, truth = calibrated(40, 2, seed=8)
    truth[30:] = -1
    out, fitted = cross_fitted(Temperature.fit, q, truth, folds=30)
    assert out[30:] == pytest.approx(fitted.apply(q[30:]))
    for n in range(0, 30, 7):
        others = truth.copy()
        others[n] = -1
        assert out[n] == pytest.approx(Temperature.fit(q, others).apply(q[n : n + 1])[0])


def test_cross_fitting_does_not_flatter_where_nothing_can_be_learned():
    # Truth independent of q: in sample, isotonic maps find patterns; out of fold they cannot beat the class shares.
    rng = np.random.default_rng(9)
    q = rng.dirichlet(np.ones(2), 120)
    truth = rng.integers(2, size=120)
    out, fitted = cross_fitted(Isotonic.fit, q, truth)
    assert log_loss(fitted.apply(q), truth) < np.log(2) < log_loss(out, truth)


def test_folds_share_out_rare_classes():
    q = np.full((50, 2), 0.5)
    truth = np.array([1] * 5 + [0] * 45)
    seen = []

    def fit(probability: np.ndarray, known: np.ndarray) -> Temperature:
        seen.append(int((known == 1).sum()))
        return Temperature(1.0)

    cross_fitted(fit, q, truth)
    assert seen == [5, 4, 4, 4, 4, 4]


def test_too_little_and_bad_settings_are_named():
    with pytest.raises(InputError, match="needs at least 2"):
        Temperature.fit([[0.5, 0.5]], [-1])
    with pytest.raises(InputError, match="at least 4"):
        cross_fitted(Temperature.fit, [[0.5, 0.5]] * 3, [0, 1, 0])
    with pytest.raises(SettingError, match="temperature"):
        Temperature(0.0)
    with pytest.raises(SettingError, match="l2"):
        Dirichlet.fit([[0.5, 0.5]] * 4, [0, 1, 0, 1], l2=0)
    with pytest.raises(SettingError, match="folds"):
        cross_fitted(Temperature.fit, [[0.5, 0.5]] * 4, [0, 1, 0, 1], folds=1)
