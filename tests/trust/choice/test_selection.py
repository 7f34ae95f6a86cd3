"""Paired differences, the rule of one standard error and the weights of a stack."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from crowdwise.trust.choice.selection import Row, frame_of, paired, simplest, stacking_weights

EACH = np.arange(4)


def test_the_standard_error_of_a_paired_difference_is_that_of_a_mean() -> None:
    best, other = np.array([-0.1, -0.2, -0.3, -0.4]), np.array([-0.2, -0.2, -0.6, -0.5])
    # Differences 0.1, 0, 0.3, 0.1: mean 0.125, sample variance 0.0475 / 3, divided by 4.
    mean, error = paired(best, other, EACH)
    assert mean == pytest.approx(0.125)
    assert error == pytest.approx(np.sqrt(0.0475 / 3 / 4))


def test_votes_of_an_item_count_as_one_observation() -> None:
    rng = np.random.default_rng(0)
    difference = rng.normal(size=50)
    alone = paired(difference, np.zeros(50), np.arange(50))
    # Every item three times over: no more is known of the mean.
    repeated = paired(np.repeat(difference, 3), np.zeros(150), np.repeat(np.arange(50), 3))
    np.testing.assert_allclose(repeated, alone)


def rows(*means: float, noise: float = 0.0) -> list[Row]:
    wave = noise * np.array([1.0, -1.0, 1.0, -1.0])
    return [Row(f"m{k}", k, terms=np.full(4, mean) + (wave if k else 0)) for k, mean in enumerate(means)]


def test_the_simplest_within_a_standard_error_of_the_best_is_taken() -> None:
    # Differences from the best are 0.2 +- 0.1 in waves: standard error 0.1 * sqrt(4 / 3) / 2 = 0.0577.
    assert simplest(rows(-0.5, -0.3, noise=0.1), EACH) == (1, 1)
    assert simplest(rows(-0.35, -0.3, noise=0.1), EACH) == (0, 1)
    assert simplest(rows(-0.35, -0.3, noise=0.1), EACH, standard_errors=0) == (1, 1)
    assert simplest(rows(-0.5, -0.3, noise=0.1), EACH, standard_errors=4) == (0, 1)


def test_of_equally_simple_ones_the_best_is_taken() -> None:
    given = rows(-0.5, -0.35, -0.3, noise=0.1)
    given[1].rank = given[2].rank = 1
    given[2].terms = np.array([-0.3, -0.3, -0.3, -0.3])
    assert simplest(given, EACH) == (2, 2)


def test_equal_scores_give_the_simplest() -> None:
    assert simplest(rows(-0.3, -0.3, -0.3), EACH) == (0, 0)


def test_rows_that_were_not_measured_are_passed_over() -> None:
    given = [Row("absent", eligible=False, note="skipped"), *rows(-0.4, -0.3)]
    assert simplest(given, EACH) == (2, 2)
    table = frame_of(given, EACH)
    assert table["score"].to_list()[0] is None
    np.testing.assert_allclose(table["difference"].to_list()[1:], [0.1, 0.0])
    assert table.columns == ["method", "score", "difference", "se", "seconds", "note"]


# -- stacking -------------------------------------------------------------------------------------


def test_stacking_weights_maximise_the_likelihood_of_the_mixture() -> None:
    rng = np.random.default_rng(1)
    chance = rng.uniform(0.05, 0.95, size=(2, 40))
    found = stacking_weights(np.log(chance))
    best = minimize_scalar(
        lambda w: -np.log(w * chance[0] + (1 - w) * chance[1]).sum(), bounds=(0, 1), method="bounded", options={"xatol": 1e-9}
    )
    assert found.sum() == pytest.approx(1)
    assert found[0] == pytest.approx(best.x, abs=1e-3)


def test_a_candidate_that_is_always_worse_gets_no_weight() -> None:
    log_prob = np.log(np.array([[0.6] * 30, [0.3] * 30]))
    np.testing.assert_allclose(stacking_weights(log_prob), [1, 0], atol=1e-6)
