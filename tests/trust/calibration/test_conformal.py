from __future__ import annotations

import numpy as np
import pytest
from tests.trust.calibration.crowds import calibrated

from crowdwise.errors import InputError, SettingError
from crowdwise.trust.calibration import ConformalSets
from crowdwise.trust.calibration.decisions import credible_sets


def test_lac_threshold_by_hand():
    q = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.5, 0.5]]
    truth = [0, 0, 1, 1, -1]
    # Scores 0.1, 0.2, 0.3, 0.6; ceil(5 * 0.8) = 4th.
    assert ConformalSets.fit(q, truth, 0.2).threshold == pytest.approx([0.6, 0.6])
    # ceil(5 * 0.81) = 5 > 4: nothing can be excluded.
    assert ConformalSets.fit(q, truth, 0.19).sets([[1.0, 0.0]]).tolist() == [[True, True]]


def test_rounding_does_not_add_to_the_rank():
    # 10 * (1 - 0.1) = 9, though the product of floats may say otherwise: the 9th of 9 scores.
    q = np.array([[1 - s, s] for s in np.arange(1, 10) / 20])
    assert ConformalSets.fit(q, np.zeros(9, int), 0.1).threshold[0] == pytest.approx(9 / 20)


def test_adaptive_scores_by_hand():
    q = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]]
    # True classes 0, 2, 1: 0.5; 0.6 + 0.3; then 0.6 + 0.2 (class 0 first) + 0.2.
    made = ConformalSets.fit(q, [0, 2, 1], 0.5, score="aps")
    assert made.threshold[0] == pytest.approx(0.9)  # ceil(4 * 0.5) = 2nd of 0.5, 0.9, 1.0
    assert made.sets([[0.85, 0.1, 0.05], [0.2, 0.3, 0.5], [0.95, 0.03, 0.02]]).tolist() == [
        [True, False, False],
        [False, True, True],
        [True, False, False],  # empty by its score, so the most probable class
    ]


def test_an_empty_set_may_be_asked_for():
    made = ConformalSets.fit([[0.99, 0.01]] * 30, [0] * 30, 0.1)
    assert made.sets([[0.5, 0.5]], never_empty=False).tolist() == [[False, False]]
    assert made.sets([[0.4, 0.6]]).tolist() == [[False, True]]


@pytest.mark.parametrize(("score", "randomised"), [("lac", False), ("aps", False), ("aps", True)])
@pytest.mark.parametrize("by_class", [False, True])
def test_coverage_holds_though_the_probabilities_are_wrong(score, randomised, by_class):
    alpha, n_known, n_new, runs = 0.2, 60, 200, 150
    hits = np.zeros((runs, 2, 3))
    for run in range(runs):
        q, truth = calibrated(n_known + n_new, 3, seed=run)
        # Too sharp and biased: the guarantee must not care.
        q = q**3 * [1.0, 0.5, 2.0]
        q /= q.sum(axis=1, keepdims=True)
        known = np.where(np.arange(len(q)) < n_known, truth, -1)
        made = ConformalSets.fit(q, known, alpha, score=score, by_class=by_class, randomised=randomised, seed=run)
        covered = made.sets(q[n_known:], never_empty=False)[np.arange(n_new), truth[n_known:]]
        hits[run, 0] = [(covered & (truth[n_known:] == k)).sum() for k in range(3)]
        hits[run, 1] = np.bincount(truth[n_known:], minlength=3)
    marginal = hits[:, 0].sum(axis=1) / n_new
    # Coverage of one run is about Beta distributed with sd 0.05; the mean of 150 has a standard error of 0.005.
    assert marginal.mean() > 1 - alpha - 0.015
    # ... and is not more than (1 - alpha) + 1 / (n + 1) without ties (of each class, with by_class).
    if not by_class and (randomised or score == "lac"):
        assert marginal.mean() < 1 - alpha + 1 / (n_known + 1) + 0.015
    if by_class:
        per_class = hits[:, 0].sum(axis=0) / hits[:, 1].sum(axis=0)
        assert (per_class > 1 - alpha - 0.02).all()


def test_classes_with_too_few_known_items_are_in_every_set():
    q, truth = calibrated(200, 2, seed=0)
    known = np.where((truth == 1) & (np.arange(200) > 5), -1, truth)
    made = ConformalSets.fit(q, known, 0.05, by_class=True)
    assert np.isinf(made.threshold[1])
    assert made.sets(q)[:, 1].all()


def test_credible_sets_by_hand():
    q = np.array([[0.5, 0.3, 0.2], [0.05, 0.95, 0.0], [0.4, 0.3, 0.3]])
    assert credible_sets(q, 0.2).tolist() == [[True, True, False], [False, True, False], [True, True, True]]


def test_bad_settings_are_named():
    with pytest.raises(SettingError, match="alpha"):
        ConformalSets.fit([[1.0]], [0], 1.0)
    with pytest.raises(SettingError, match="lac"):
        ConformalSets.fit([[1.0]], [0], score="raps")
    with pytest.raises(SettingError, match="randomised"):
        ConformalSets.fit([[1.0]], [0], randomised=True)
    with pytest.raises(InputError, match="add true labels"):
        ConformalSets.fit([[1.0]], [-1])
