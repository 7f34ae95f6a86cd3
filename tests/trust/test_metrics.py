from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.errors import InputError, SettingError
from crowdwise.trust import metrics

MEASURES = [metrics.accuracy, metrics.macro_f1, metrics.auc, metrics.log_loss, metrics.brier, metrics.ece]
MEASURES += [metrics.mean_true_probability, metrics.ece_by_chance, metrics.ece_debiased]


def random_case(seed: int, n: int = 40, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k), n), rng.integers(-1, k, n)


def test_ties_share_the_credit():
    third = [1 / 3, 1 / 3, 1 / 3]
    assert metrics.accuracy([third, [0.4, 0.4, 0.2], [0.4, 0.4, 0.2]], [2, 0, 2]) == pytest.approx((1 / 3 + 1 / 2 + 0) / 3)


def test_rounding_does_not_break_a_tie():
    # 0.1 + 0.2 != 0.3 in floats, but they are the same probability.
    assert metrics.accuracy([[0.1 + 0.2, 0.3, 0.4 - 0.0]] * 2, [2, 2]) == 1.0
    assert metrics.accuracy([[0.1 + 0.2 + 0.2, 0.5]], [1]) == 0.5


@given(st.integers(0, 10_000))
def test_measures_against_plain_loops(seed):
    posterior, truth = random_case(seed)
    known = [(row, z) for row, z in zip(posterior, truth, strict=True) if z >= 0]
    assert metrics.accuracy(posterior, truth) == pytest.approx(np.mean([row.argmax() == z for row, z in known]))
    assert metrics.log_loss(posterior, truth) == pytest.approx(np.mean([-np.log(row[z]) for row, z in known]))
    assert metrics.brier(posterior, truth) == pytest.approx(np.mean([((row - np.eye(3)[z]) ** 2).sum() for row, z in known]))
    assert metrics.mean_true_probability(posterior, truth) == pytest.approx(np.mean([row[z] for row, z in known]))


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(0, 10_000))
def test_f1_and_log_loss_equal_scikit_learns(seed):
    from sklearn.metrics import f1_score, log_loss

    posterior, truth = random_case(seed)
    known = truth >= 0
    expected = f1_score(truth[known], posterior[known].argmax(axis=1), average="macro", zero_division=0)
    assert metrics.macro_f1(posterior, truth) == pytest.approx(expected)
    assert metrics.log_loss(posterior, truth) == pytest.approx(log_loss(truth[known], posterior[known], labels=[0, 1, 2]))


def test_macro_f1_splits_ties():
    # Chosen: item 0 half and half, item 1 class 1. F1: 2 (1/2) / (1/2 + 1), 2 (1) / (3/2 + 1).
    assert metrics.macro_f1([[0.5, 0.5], [0.1, 0.9]], [0, 1]) == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_auc_by_hand():
    # Pairs (class 0, class 1) by P(1): (.1, .4) right, (.1, .8) right, (.4, .4) tied, (.4, .8) right.
    assert metrics.auc([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1, 1]) == pytest.approx(3.5 / 4)
    assert metrics.auc([[0.5, 0.5]] * 5, [0, 1, 1, 0, 1]) == 0.5


def pairs_won(posterior: np.ndarray, truth: np.ndarray, first: int, second: int) -> float:
    won = [
        (own > other) + 0.5 * (own == other)
        for own in posterior[truth == first, first]
        for other in posterior[truth == second, first]
    ]
    return float(np.mean(won))


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(2, 40), st.booleans())
def test_auc_is_the_share_of_pairs_in_the_right_order(seed, k, n, coarse):
    rng = np.random.default_rng(seed)
    drawn = rng.integers(1, 4, (n, k)) + 0.0 if coarse else rng.random((n, k)) + 0.01
    # Equal quotients of whole numbers are equal in floats, too, so that the coarse ones have ties.
    posterior = drawn / drawn.sum(axis=1, keepdims=True)
    truth = rng.integers(-1, k, n)
    present = np.unique(truth[truth >= 0])
    expected = [pairs_won(posterior, truth, i, j) for i in present for j in present if i != j]
    found = metrics.auc(posterior, truth)
    assert found == pytest.approx(np.mean(expected)) if expected else np.isnan(found)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(0, 10_000), st.integers(2, 6), st.booleans())
def test_auc_equals_scikit_learns(seed, k, tied):
    from sklearn.metrics import roc_auc_score

    posterior, truth = random_case(seed, n=60, k=k)
    if tied:
        posterior = np.round(posterior * 4 + 1) / np.round(posterior * 4 + 1).sum(axis=1, keepdims=True)
    truth[:k] = np.arange(k)  # scikit-learn wants every class
    q, z = posterior[truth >= 0], truth[truth >= 0]
    expected = roc_auc_score(z, q[:, 1]) if k == 2 else roc_auc_score(z, q, multi_class="ovo", average="macro")
    assert metrics.auc(posterior, truth) == pytest.approx(expected)


def test_auc_is_undefined_where_only_one_class_is_known():
    assert np.isnan(metrics.auc([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], [1, 1, -1]))
    assert np.isnan(metrics.auc(np.ones((3, 1)), [0, 0, 0]))
    # Of three classes the two that occur are compared: .7 and .3 of the first, .6 and .1 of the second.
    assert metrics.auc([[0.7, 0.1, 0.2], [0.3, 0.6, 0.1]], [0, 1]) == 1


def test_auc_tells_small_probabilities_apart_but_not_rounding_errors():
    small = np.array([1e-15, 1e-13, 1e-11, 1e-9])
    assert metrics.auc(np.stack([1 - small, small], axis=1), [0, 1, 0, 1]) == 0.75
    assert metrics.auc([[0.7, 0.1 + 0.2], [0.7, 0.3]], [0, 1]) == metrics.auc([[0.7, 0.3], [0.7, 0.1 + 0.2]], [0, 1]) == 0.5


def test_resamples_without_a_class_do_not_make_the_interval_of_the_auc_undefined():
    # Four items: one resample of eight has a single class.
    low, high = metrics.bootstrap_interval(metrics.auc, [[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1, 1])
    assert (low, high) == (0.0, 1.0)
    assert np.isnan(metrics.bootstrap_interval(metrics.auc, [[0.9, 0.1], [0.4, 0.6]], [0, 0])).all()


def test_log_loss_is_floored():
    assert metrics.log_loss([[1.0, 0.0]], [1]) == pytest.approx(-np.log(1e-12))


def test_ece_by_hand():
    # Two bins of two: confidences (0.6, 0.7), one right: |0.5 - 0.65|; (0.8, 1.0), both right: |1 - 0.9|.
    posterior = [[0.6, 0.4], [1.0, 0.0], [0.3, 0.7], [0.2, 0.8]]
    assert metrics.ece(posterior, [1, 0, 1, 1], n_bins=2) == pytest.approx((0.15 + 0.1) / 2)
    assert metrics.ece(posterior, [1, 0, 1, 1], n_bins=1) == pytest.approx(abs(0.75 - 0.775))


def test_calibration_bins_by_hand():
    posterior = [[0.6, 0.4], [1.0, 0.0], [0.3, 0.7], [0.2, 0.8], [0.5, 0.5]]
    confidence, right, size = metrics.calibration_bins(posterior, [1, 0, 1, 1, -1], n_bins=2)
    assert confidence == pytest.approx([0.65, 0.9])
    assert right == pytest.approx([0.5, 1.0])
    assert size.tolist() == [2, 2]
    # More bins than items: one item each.
    assert metrics.calibration_bins(posterior, [1, 0, 1, 1, 0], n_bins=9)[2].tolist() == [1] * 5


@pytest.mark.slow
def test_the_interval_of_the_ece_is_not_above_it():
    # Calibrated by construction: the true error is 0, the estimate is chance alone, and resamples have more of it.
    # A percentile interval lies above the estimate; the basic one does not.
    rng = np.random.default_rng(0)
    share = rng.uniform(0.5, 1, 500)
    posterior, truth = np.stack([1 - share, share], axis=1), (rng.random(500) < share).astype(int)
    low, high = metrics.ece_interval(posterior, truth, n_resamples=200)
    estimate = metrics.ece(posterior, truth)
    assert low <= estimate
    assert metrics.bootstrap_interval(metrics.ece, posterior, truth, n_resamples=200)[0] > 1.2 * low
    # Always certain, right four times in five: the error is 0.2 with a binomial standard error of 0.018.
    sure, right = np.tile([0.0, 1.0], (500, 1)), (np.arange(500) % 5 > 0).astype(int)
    assert metrics.ece_interval(sure, right) == pytest.approx((0.2 - 1.96 * 0.0179, 0.2 + 1.96 * 0.0179), abs=0.004)
    assert high >= low >= 0
    assert np.isnan(metrics.ece_interval(posterior, np.full(500, -1))).all()


@given(st.integers(0, 1000), st.integers(1, 20))
def test_ece_ignores_row_order_even_with_ties(seed, n_bins):
    rng = np.random.default_rng(seed)
    share = rng.integers(0, 4, 30) / 3
    posterior, truth = np.stack([share, 1 - share], axis=1), rng.integers(0, 2, 30)
    order = rng.permutation(30)
    assert metrics.ece(posterior[order], truth[order], n_bins) == pytest.approx(metrics.ece(posterior, truth, n_bins))


def test_perfect_and_calibrated_posteriors():
    result = metrics.score(np.eye(3), [0, 1, 2])
    assert result == {
        "n_known": 3,
        "accuracy": 1,
        "macro_f1": 1,
        "auc": 1,
        "log_loss": 0,
        "brier": 0,
        "ece": 0,
        "ece_debiased": 0,
        "mean_true_probability": 1,
    }


def test_one_class_is_always_right():
    result = metrics.score(np.ones((4, 1)), [0, 0, -1, 0])
    assert (result["n_known"], result["accuracy"], result["log_loss"], result["brier"]) == (3, 1, 0, 0)


@pytest.mark.parametrize("measure", MEASURES)
def test_nothing_known_is_undefined(measure):
    assert np.isnan(measure([[0.5, 0.5]], [-1]))
    assert np.isnan(measure(np.empty((0, 2)), []))


@pytest.mark.parametrize("measure", MEASURES)
def test_single_precision_is_accepted(measure):
    posterior, truth = random_case(0, n=200, k=100)
    assert measure(posterior.astype(np.float32), truth) == pytest.approx(measure(posterior, truth), rel=1e-4)


@pytest.mark.parametrize(
    ("posterior", "truth", "message"),
    [
        ([0.5, 0.5], [0, 1], r"shape \[N, K\]"),
        (np.empty((2, 0)), [0, 0], "K >= 1"),
        ([[0.5, 0.5]], [0, 1], "one class code per item"),
        ([[0.5, 0.5]], [2], "item 0 is 2; codes go from 0 to 1"),
        ([[0.5, 0.5]], [-2], "item 0 is -2"),
        ([[0.5, 0.5]], ["cat"], "integer class codes"),
        ([[0.5, 0.5]], [0.0], "integer class codes"),
        ([[0.5, 0.5], [0.9, 0.9]], [0, 0], "row 1"),
        ([[np.nan, 1.0]], [0], "row 0"),
        ([[-0.5, 1.5]], [0], "row 0"),
    ],
)
def test_bad_inputs_are_named(posterior, truth, message):
    with pytest.raises(InputError, match=message):
        metrics.score(posterior, truth)


def test_confusion_error_by_hand_and_alignment():
    truth = np.array([[[0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    assert metrics.confusion_error(truth, truth) == 0
    renamed = truth[:, [2, 0, 1]]
    assert metrics.confusion_error(renamed, truth) == pytest.approx(0)
    assert metrics.confusion_error(renamed, truth, align=False) == pytest.approx(np.abs(renamed - truth).sum() / 6)
    # Switching the classes of one annotator only is an error that a global renaming cannot repair.
    half = np.stack([truth[0][[1, 0, 2]], truth[1]])
    assert metrics.confusion_error(half, truth) > 0.1
    # The transpose is another matrix.
    assert metrics.confusion_error(truth.transpose(0, 2, 1), truth) > 0.1


def test_confusion_error_checks_shapes():
    with pytest.raises(InputError, match=r"\[A, K, K\]"):
        metrics.confusion_error(np.ones((2, 3, 3)), np.ones((2, 2, 2)))
    assert np.isnan(metrics.confusion_error(np.ones((0, 2, 2)), np.ones((0, 2, 2))))


def test_bootstrap_covers_and_repeats():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    right = rng.random(400) < 0.8
    posterior = np.eye(2)[np.where(right, truth, 1 - truth)]
    low, high = metrics.bootstrap_interval(metrics.accuracy, posterior, truth)
    # A binomial standard error of 0.02 on either side.
    assert low < right.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.8 * 0.2 / 400), rel=0.2)
    assert (low, high) == metrics.bootstrap_interval(metrics.accuracy, posterior, truth)
    assert np.isnan(metrics.bootstrap_interval(metrics.accuracy, posterior, np.full(400, -1))).all()


def test_settings_are_checked():
    for bad in ({"level": 1.0}, {"n_resamples": 0}):
        with pytest.raises(SettingError, match=next(iter(bad))):
            metrics.bootstrap_interval(metrics.accuracy, [[1.0]], [0], **bad)
    with pytest.raises(SettingError, match="n_bins"):
        metrics.ece([[1.0]], [0], n_bins=0)


def test_ordinal_measures_equal_scikit_learns():
    from sklearn.metrics import cohen_kappa_score
    from sklearn.metrics import mean_absolute_error as reference

    rng = np.random.default_rng(5)
    posterior, truth = rng.dirichlet(np.ones(4), 60), rng.integers(0, 4, 60)
    chosen = posterior.argmax(axis=1)
    unknown = np.append(truth, -1)
    with_one_more = np.vstack([posterior, [0.25] * 4])
    assert metrics.mean_absolute_error(with_one_more, unknown) == pytest.approx(reference(truth, chosen))
    expected = cohen_kappa_score(truth, chosen, weights="quadratic", labels=range(4))
    assert metrics.quadratic_kappa(with_one_more, unknown) == pytest.approx(expected)


def test_ordinal_measures_split_ties_and_know_what_is_undefined():
    assert metrics.mean_absolute_error([[0.5, 0.0, 0.5]], [0]) == 1.0
    assert np.isnan(metrics.mean_absolute_error([[0.5, 0.5]], [-1]))
    assert np.isnan(metrics.quadratic_kappa([[0.5, 0.5]], [-1]))
    assert np.isnan(metrics.quadratic_kappa([[1.0, 0.0], [1.0, 0.0]], [0, 0]))
    assert metrics.quadratic_kappa([[1.0, 0.0], [0.0, 1.0]], [0, 1]) == 1.0
