"""Ordered classes: the scale with thresholds, and one question per border."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet, random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.errors import CostWarning
from crowdwise.estimator import estimator as cost
from crowdwise.estimator.registry import make
from crowdwise.kernels.cumulative import Ridge, climb, log_table
from crowdwise.kernels.numerics import expected_rank, median_class
from crowdwise.parts.annotators.targets import falling, of_classes
from crowdwise.trust.choice.candidates import CANDIDATES
from crowdwise.trust.compare.choose import chosen
from crowdwise.trust.metrics import accuracy, mean_absolute_error


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def scale_crowd(seed: int, n_items: int = 400, n_annotators: int = 30, n_classes: int = 5, per_item: int = 5) -> Any:
    """Items anywhere on a scale; annotators shift it, add noise, and lapse in a tenth of the cases."""
    rng = np.random.default_rng(seed)
    place = rng.normal((n_classes - 1) / 2, n_classes / 4, n_items)
    truth = np.clip(np.rint(place), 0, n_classes - 1).astype(int)
    shift, noise = rng.normal(0, 0.4, n_annotators), rng.lognormal(np.log(0.5), 0.5, n_annotators)
    annotator = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :per_item].ravel()
    item = np.repeat(np.arange(n_items), per_item)
    label = np.rint(place[item] + shift[annotator] + noise[annotator] * rng.normal(size=len(item)))
    label = np.clip(label, 0, n_classes - 1).astype(int)
    label = np.where(rng.random(len(item)) < 0.1, rng.integers(0, n_classes, len(item)), label)
    votes = Annotations.from_arrays(item, annotator, label, items=range(n_items), classes=range(n_classes))
    return votes, truth, shift, noise


# -- the kernel -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [2, 3, 6])
def test_probabilities_of_labels_are_differences_of_the_cumulative_ones(n_labels: int) -> None:
    rng = np.random.default_rng(n_labels)
    threshold, position = np.arange(n_labels - 1) + 0.5, rng.normal(1, 2, 7)
    offset, slope = rng.normal(0, 0.1, (4, n_labels - 1)), rng.uniform(0.5, 3, 4)
    table = np.exp(log_table(offset, slope, threshold, position))
    for a, s in itertools.product(range(4), range(7)):
        up_to = [sigmoid(offset[a, j] + slope[a] * (threshold[j] - position[s])) for j in range(n_labels - 1)]
        np.testing.assert_allclose(table[a, :, s], np.diff([0, *up_to, 1]), atol=1e-12)


def test_newton_steps_end_where_a_general_optimiser_ends() -> None:
    rng = np.random.default_rng(1)
    threshold, position, ridge = np.arange(3) + 0.5, np.linspace(-0.4, 3.4, 12), Ridge(0.7, 2.0, 1.5)
    counts = rng.gamma(0.5, 1.0, (3, 4, 12))
    start = np.zeros((3, 3)), np.full(3, 2.0)
    offset, slope = climb(counts, *start, threshold, position, ridge, 50)
    for a in range(3):

        def loss(x: np.ndarray, a: int = a) -> float:
            if (np.diff(x[:3]) + x[3] <= 0).any():
                return 1e9
            up_to = sigmoid(x[:3, None] + x[3] * (threshold[:, None] - position))
            prob = np.diff(np.vstack([np.zeros(12), up_to, np.ones(12)]), axis=0)
            prior = 0.5 * (x[:3] ** 2).sum() / 0.7**2 + 0.5 * (x[3] - 2) ** 2 / 1.5**2
            return float(prior - (counts[a] * np.log(prob)).sum())

        best = minimize(
            loss, np.array([0, 0, 0, 2.0]), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999}
        )
        np.testing.assert_allclose([*offset[a], slope[a]], best.x, atol=1e-4)


def test_no_newton_step_goes_down() -> None:
    rng = np.random.default_rng(2)
    threshold, position, ridge = np.arange(4) + 0.5, np.linspace(-0.4, 4.4, 15), Ridge(3.0, 1.0, 3.0)
    counts = rng.gamma(0.05, 20.0, (50, 5, 15))
    offset, slope = np.zeros((50, 4)), np.ones(50)

    def value() -> np.ndarray:
        return (counts * log_table(offset, slope, threshold, position)).sum(axis=(1, 2)) + ridge.log_density(offset, slope)

    before = value()
    for _ in range(20):
        offset, slope = climb(counts, offset, slope, threshold, position, ridge, 1)
        after = value()
        assert (after >= before - 1e-9 * np.abs(before)).all()
        before = after


# -- cumulative-link ------------------------------------------------------------------------------


def test_the_posterior_is_the_sum_over_all_nodes() -> None:
    votes = random_votes(np.random.default_rng(4), 6, 3, 3, 14)
    with quiet():
        model = make("cumulative-link", nodes=9).fit(votes, gold={0: 2})
    part, prior = model.result_.annotators, model.prior_
    assert part.n_nodes == 3
    total = 0.0
    for n in range(6):
        joint = np.zeros(3)
        for k in range(3):
            for m in range(3):
                x, product = k + (m + 0.5) / 3 - 0.5, prior[k] / 3
                for e in np.flatnonzero(votes.item == n):
                    a, l = votes.annotator[e], votes.label[e]
                    up_to = [0, *(sigmoid(part.offset_aj[a, j] + part.slope_a[a] * (j + 0.5 - x)) for j in range(2)), 1]
                    product *= part.lapse_a[a] * part.habit_al[a, l] + (1 - part.lapse_a[a]) * (up_to[l + 1] - up_to[l])
                joint[k] += product
        if n == 0:
            joint *= [0, 0, 1]
        total += np.log(joint.sum())
        np.testing.assert_allclose(model.result_.model_posterior[n], joint / joint.sum(), atol=1e-9)
    assert model.result_.trace["votes"][-1] == pytest.approx(total)


def test_the_reported_matrix_is_the_mean_over_the_stretch_of_a_class() -> None:
    votes, *_ = scale_crowd(0, 60)
    model = make("cumulative-link", nodes=1, tol=1e-4).fit(votes)
    part, a, k = model.result_.annotators, 3, 2
    up_to = sigmoid(part.offset_aj[a] + part.slope_a[a] * (np.arange(4) + 0.5 - k))
    expected = part.lapse_a[a] * part.habit_al[a] + (1 - part.lapse_a[a]) * np.diff([0, *up_to, 1])
    np.testing.assert_allclose(model.confusion_[a, k], expected, atol=1e-12)


@pytest.mark.slow
def test_bias_and_noise_are_recovered() -> None:
    votes, truth, shift, noise = scale_crowd(1, 600, 15, per_item=6)
    model = make("cumulative-link", tol=1e-4).fit(votes)
    part = model.result_.annotators
    # Thresholds move down where labels move up.
    found = -(part.offset_aj / part.slope_a[:, None]).mean(axis=1)
    assert np.corrcoef(found, shift)[0, 1] > 0.9
    assert np.corrcoef(np.log(part.slope_a), -np.log(noise))[0, 1] > 0.7
    assert part.lapse_a.mean() == pytest.approx(0.1, abs=0.08)
    assert (
        accuracy(model.result_.model_posterior, truth)
        > accuracy(make("majority").fit(votes).result_.model_posterior, truth) + 0.03
    )


@pytest.mark.slow
def test_the_scale_beats_methods_that_know_no_order_on_votes_from_a_scale() -> None:
    gains = []
    for seed in range(4):
        votes, truth, *_ = scale_crowd(seed)
        own, other, counted = (
            make(name).fit(votes).result_.model_posterior for name in ("cumulative-link", "dawid-skene", "majority")
        )
        own_error = mean_absolute_error(own, truth)
        gains.append([mean_absolute_error(other, truth) - own_error, mean_absolute_error(counted, truth) - own_error])
    assert (np.mean(gains, axis=0) > 0.03).all()


def test_one_who_turns_the_scale_round_is_read_upside_down() -> None:
    votes, truth = crowd(3, 200, diagonal_crowd(4, 3, 0.75))
    turned = votes.concat(Annotations.from_arrays(np.arange(200), ["turned"] * 200, 2 - truth))
    model = make("cumulative-link").fit(turned)
    assert model.result_.annotators.slope_a[list(turned.annotators).index("turned")] < 0
    assert (model.labels_ == truth).mean() > (make("cumulative-link").fit(votes).labels_ == truth).mean() + 0.02


def test_a_long_fit_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, *_ = scale_crowd(0, 20)
    monkeypatch.setattr(cost, "_PER_SECOND", 1e3)
    with pytest.warns(CostWarning, match="ordinal-binary, or set nodes=1"):
        make("cumulative-link", tol=1e-2).fit(votes)


# -- ordinal-binary -------------------------------------------------------------------------------


def test_two_classes_are_dawid_skene() -> None:
    votes, _ = crowd(5, 80, diagonal_crowd(5, 2, 0.7))
    one, other = make("ordinal-binary", tol=1e-10).fit(votes), make("dawid-skene", tol=1e-10).fit(votes)
    np.testing.assert_allclose(one.result_.model_posterior, other.result_.model_posterior, atol=1e-9)
    np.testing.assert_allclose(one.confusion_, other.confusion_, atol=1e-9)


def test_every_border_is_a_dawid_skene_of_two_classes() -> None:
    votes, _ = crowd(6, 120, diagonal_crowd(6, 4, 0.75))
    model = make("ordinal-binary").fit(votes)
    above = np.column_stack(
        [
            make("dawid-skene", tol=1e-8, smoothing=0.5)
            .fit(Annotations.from_arrays(votes.item, votes.annotator, votes.label > j, items=range(120)))
            .result_.model_posterior[:, 1]
            for j in range(3)
        ]
    )
    low = np.minimum.accumulate(above, axis=1)
    agree = np.isclose(low, above, atol=1e-12).all(axis=1)
    assert agree.mean() > 0.2
    expected = -np.diff(np.column_stack([np.ones(120), above, np.zeros(120)]), axis=1)
    # Class shares are made to fall as well, which moves the evidence of the borders a little where they did not.
    np.testing.assert_allclose(model.result_.model_posterior[agree], expected[agree], atol=1e-6)


def test_a_curve_that_falls_stays_and_any_other_is_made_to_fall_alike_from_both_ends() -> None:
    np.testing.assert_allclose(falling(np.array([0.9, 0.5, 0.5, 0.1])), [0.9, 0.5, 0.5, 0.1])
    rng = np.random.default_rng(0)
    above = rng.random((50, 6))
    made = falling(above)
    assert (np.diff(made, axis=1) <= 1e-15).all()
    # Turned round: the chance to be above becomes that to be below.
    np.testing.assert_allclose(falling(1 - above[:, ::-1]), 1 - made[:, ::-1], atol=1e-15)
    shares = of_classes(above)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)


# -- around them ----------------------------------------------------------------------------------


def test_nobody_gets_an_ordinal_method_unasked() -> None:
    named = ("ordinal-binary", "cumulative-link")
    assert not set(named) & set(CANDIDATES)
    assert not set(named) & set(chosen("all", {}, 4, False))
    assert chosen(["cumulative-link"], {}, 4, False) == ["cumulative-link"]


def test_the_median_is_the_class_of_least_expected_steps() -> None:
    q = np.random.default_rng(3).dirichlet(np.ones(5) / 2, 200)
    steps = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    np.testing.assert_array_equal(median_class(q), (q @ steps).argmin(axis=1))
    np.testing.assert_allclose(expected_rank(np.array([[0.5, 0.0, 0.5], [0, 1, 0]])), [2, 2])
    # Half on either side: the lower one, whatever rounding says.
    assert median_class(np.array([[0.1 + 0.2 + 0.2, 0.5], [0.5 - 1e-17, 0.5]])).tolist() == [0, 0]
