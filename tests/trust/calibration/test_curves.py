from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.trust.calibration.crowds import calibrated

from crowdwise.errors import InputError
from crowdwise.report.plot.calibration import draw_reliability, plot_reliability
from crowdwise.trust.calibration import reliability
from crowdwise.trust.calibration.intervals import share_interval, upper_bound


def test_the_curve_by_hand():
    q = [[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6]]
    curve = reliability(q, [0, 1, 1, 1], n_bins=2, n_resamples=20)
    # Sorted by confidence: 0.6 right, 0.7 wrong | 0.8 right, 0.9 right.
    assert curve.confidence == pytest.approx([0.65, 0.85])
    assert curve.accuracy == pytest.approx([0.5, 1.0])
    assert curve.ece == pytest.approx((0.15 + 0.15) / 2)
    assert curve.mean_confidence == pytest.approx(0.75)
    assert (curve.mean_accuracy, curve.n_known, curve.n_items.tolist()) == (0.75, 4, [2, 2])
    assert curve.facts()["brier"] == pytest.approx(2 * (0.01 + 0.49 + 0.04 + 0.16) / 4)


def test_intervals_cover_the_truth_of_calibrated_bins():
    q, truth = calibrated(4000, 3, seed=0)
    curve = reliability(q, truth, n_resamples=20)
    inside = (curve.low <= curve.confidence) & (curve.confidence <= curve.high)
    # 15 exact 95 % intervals: at least 12 cover except with probability 0.005.
    assert inside.sum() >= 12


def test_share_intervals_solve_the_binomial_tails():
    from scipy.stats import binom

    low, high = share_interval(3, 17)
    assert binom.sf(2, 17, low) == pytest.approx(0.025)
    assert binom.cdf(3, 17, high) == pytest.approx(0.025)
    assert binom.cdf(3, 17, upper_bound(3, 17)) == pytest.approx(0.05)
    assert [float(end) for end in share_interval(0, 0)] == [0, 1]
    assert float(share_interval(5, 5)[0]) == pytest.approx(0.025 ** (1 / 5))


def test_nothing_known_is_undefined():
    curve = reliability([[0.5, 0.5]], [-1], n_resamples=5)
    assert curve.n_known == 0
    assert np.isnan([curve.ece, curve.brier, curve.mean_confidence]).all()


def test_the_diagram_is_drawn_and_written_whole(tmp_path: Path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    q, truth = calibrated(100, 2, seed=1)
    curve = reliability(q, truth, n_resamples=5)
    axes = figure.subplots()
    assert draw_reliability(axes, {"cost $1": curve}) is axes
    assert axes.get_xlabel() == "confidence"
    plot_reliability({"before": curve, "after": curve}, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="a plot ends in"):
        plot_reliability({"before": curve}, tmp_path / "curve.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]
