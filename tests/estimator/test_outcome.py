"""Intervals of confusion entries: against scipy's Beta distribution, against draws of Dirichlets, and in the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import NotFittedError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.parts.annotators.model import DirichletConfusion
from crowdwise.parts.priors.marginals import Marginals

# [annotator, true, observed], uneven throughout.
CONCENTRATION = np.array(
    [[[9.0, 2.5, 0.5], [1.0, 4.0, 3.0], [0.2, 0.3, 6.0]], [[1.0, 1.0, 1.0], [40.0, 8.0, 2.0], [0.05, 12.0, 3.0]]]
)


def result_of(concentration_akl: np.ndarray) -> Result:
    n_annotators, n_classes, _ = concentration_akl.shape
    names = [chr(ord("u") + a) for a in range(n_annotators)]
    votes = Annotations.from_arrays(
        [0] * n_annotators, names, [0] * n_annotators, items=[0], annotators=names, classes=list(range(n_classes))
    )
    beta_alk = np.ascontiguousarray(concentration_akl.transpose(0, 2, 1))
    return Result(
        method="bayes-gc",
        settings={},
        seed=None,
        votes=votes,
        posterior=np.full((1, n_classes), 1 / n_classes),
        prior=Marginals(np.full(n_classes, 1 / n_classes)),
        annotators=DirichletConfusion(beta_alk[:1], beta_alk),
        history=None,
        trace={},
        n_iter=1,
        converged=True,
    )


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_ends_are_quantiles_of_a_beta_distribution(level: float) -> None:
    low, high = result_of(CONCENTRATION).confusion_interval(level)
    for a, k, observed in np.ndindex(2, 3, 3):
        own = CONCENTRATION[a, k, observed]
        marginal = stats.beta(own, CONCENTRATION[a, k].sum() - own)
        assert low[a, k, observed] == pytest.approx(marginal.ppf((1 - level) / 2), rel=1e-9, abs=1e-12)
        assert high[a, k, observed] == pytest.approx(marginal.ppf((1 + level) / 2), rel=1e-9, abs=1e-12)


def test_draws_of_the_rows_fall_inside_as_often_as_the_level_says() -> None:
    low, high = result_of(CONCENTRATION).confusion_interval(0.9)
    rng, n_draws = np.random.default_rng(0), 20_000
    for a, k in np.ndindex(2, 3):
        rows = rng.dirichlet(CONCENTRATION[a, k], n_draws)
        below, above = (rows < low[a, k]).mean(axis=0), (rows > high[a, k]).mean(axis=0)
        # Four standard errors of a share of 0.05.
        np.testing.assert_allclose(below, 0.05, atol=0.0062)
        np.testing.assert_allclose(above, 0.05, atol=0.0062)


def test_two_classes_have_mirrored_intervals() -> None:
    """R[k, 1] = 1 - R[k, 0]."""
    low, high = result_of(np.array([[[5.0, 2.0], [1.5, 9.0]]])).confusion_interval()
    np.testing.assert_allclose(low[0, :, 0], 1 - high[0, :, 1], rtol=1e-9)
    np.testing.assert_allclose(low[0, :, 1], 1 - high[0, :, 0], rtol=1e-9)
    # Beta(5, 2), from tables of its quantiles.
    assert (round(low[0, 0, 0], 4), round(high[0, 0, 0], 4)) == (0.3588, 0.9567)


def test_one_class_leaves_no_doubt() -> None:
    low, high = result_of(np.array([[[7.0]]])).confusion_interval()
    np.testing.assert_allclose(low, [[[1.0]]])
    np.testing.assert_allclose(high, [[[1.0]]])


@pytest.mark.parametrize("level", [0, 1, 0.0, 1.0, -0.5, 95, float("nan"), float("inf")])
def test_a_level_outside_0_and_1_is_refused(level: float) -> None:
    with pytest.raises(SettingError, match="level must be between 0 and 1; got"):
        result_of(CONCENTRATION).confusion_interval(level)


def test_a_higher_level_has_a_wider_interval_that_holds_the_mean() -> None:
    result = result_of(CONCENTRATION)
    narrow, wide = result.confusion_interval(0.8), result.confusion_interval(0.99)
    assert (wide[0] < narrow[0]).all()
    assert (wide[1] > narrow[1]).all()
    mean = CONCENTRATION / CONCENTRATION.sum(axis=2, keepdims=True)
    assert ((wide[0] < mean) & (mean < wide[1])).all()


def test_the_table_has_the_95_percent_interval_beside_every_entry() -> None:
    frame = result_of(CONCENTRATION).confusion_frame()
    assert frame.columns == ["annotator", "true", "observed", "probability", "sd", "low", "high"]
    assert frame.height == 18
    for row in frame.iter_rows(named=True):
        rows = CONCENTRATION[["u", "v"].index(row["annotator"]), row["true"]]
        own = rows[row["observed"]]
        marginal = stats.beta(own, rows.sum() - own)
        assert row["probability"] == pytest.approx(marginal.mean(), rel=1e-9)
        assert row["sd"] == pytest.approx(marginal.std(), rel=1e-9)
        assert (row["low"], row["high"]) == pytest.approx((marginal.ppf(0.025), marginal.ppf(0.975)), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(
    "method", [crowdwise.BayesGC(), crowdwise.DawidSkene(), crowdwise.MeanField(), crowdwise.BeliefPropagation()]
)
def test_every_method_has_parameters_and_intervals_for_its_matrices(method: Any) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 30)
    label = np.where(rng.random((30, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
    votes = Annotations.from_arrays(np.repeat(np.arange(30), 3), np.tile(["x", "y", "z"], 30), label.ravel())
    fitted = method.fit(votes)
    assert fitted.concentration_.shape == (3, 2, 2)
    assert (fitted.concentration_ > 0).all()
    low, high = fitted.confusion_interval(0.9)
    other_low, other_high = fitted.result_.confusion_interval(0.9)
    np.testing.assert_array_equal(low, other_low)
    np.testing.assert_array_equal(high, other_high)
    assert ((low >= 0) & (low < high) & (high <= 1)).all()


def test_an_unfitted_method_has_no_intervals() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        crowdwise.BayesGC().confusion_interval()
