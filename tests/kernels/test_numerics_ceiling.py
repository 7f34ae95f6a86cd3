"""The bound on what a network may claim: cases by hand, and what must hold for any distribution and any bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.kernels.numerics import below_ceiling


def bounded(rows: list[list[float]], ceiling: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.exp(below_ceiling(np.log(np.array(rows, float)), ceiling))


@pytest.mark.parametrize(
    ("row", "ceiling", "expected"),
    [
        # Two classes: clamped to [1 - c, c].
        ([0.95, 0.05], 0.9, [0.9, 0.1]),
        ([0.02, 0.98], 0.7, [0.3, 0.7]),
        ([0.85, 0.15], 0.9, [0.85, 0.15]),
        ([1.0, 0.0], 0.6, [0.6, 0.4]),
        ([0.99, 0.01], 0.5, [0.5, 0.5]),
        # Three: 0.3 too much, 0.15 for each of the others.
        ([0.8, 0.15, 0.05], 0.5, [0.5, 0.3, 0.2]),
        ([1.0, 0.0, 0.0], 0.6, [0.6, 0.2, 0.2]),
        # The second class gets 0.15 and is then 0.03 too high itself; the third takes that.
        ([0.7, 0.28, 0.02], 0.4, [0.4, 0.4, 0.2]),
        # Two too high at once: 0.05 + 0.05 for the third.
        ([0.47, 0.47, 0.06], 0.42, [0.42, 0.42, 0.16]),
        ([0.7, 0.28, 0.02], 1 / 3, [1 / 3, 1 / 3, 1 / 3]),
        # Four: 0.25 / 3 each; the second is then 1/30 too high, 1/60 for each of the last two.
        ([0.6, 0.3, 0.06, 0.04], 0.35, [0.35, 0.35, 0.16, 0.14]),
        ([0.04, 0.6, 0.06, 0.3], 0.35, [0.14, 0.35, 0.16, 0.35]),
        # Three passes: 0.67 / 3 -> (.3, .483, .303, .243); then .183 + .003 over two -> third and fourth over in turn.
        ([0.97, 0.02, 0.007, 0.003], 0.25, [0.25, 0.25, 0.25, 0.25]),
        ([0.97, 0.03, 0.0, 0.0], 0.9, [0.9, 0.03 + 0.07 / 3, 0.07 / 3, 0.07 / 3]),
    ],
)
def test_cases_by_hand(row: list[float], ceiling: float, expected: list[float]) -> None:
    np.testing.assert_allclose(bounded([row], ceiling)[0], expected, rtol=1e-12, atol=1e-15)


def test_every_row_is_bounded_on_its_own() -> None:
    rows = [[0.8, 0.15, 0.05], [0.3, 0.3, 0.4], [0.7, 0.28, 0.02]]
    together = bounded(rows, 0.45)
    for row, got in zip(rows, together, strict=True):
        np.testing.assert_allclose(got, bounded([row], 0.45)[0], rtol=1e-14)
    np.testing.assert_allclose(together[1], rows[1], rtol=1e-14)


@pytest.mark.parametrize("ceiling", [1.0, 1.5])
def test_a_bound_of_one_is_none(ceiling: float) -> None:
    log_prob = np.log([[0.999, 0.001], [0.5, 0.5]])
    np.testing.assert_array_equal(below_ceiling(log_prob, ceiling), log_prob)


def test_the_input_is_left_alone() -> None:
    log_prob = np.log([[0.99, 0.01]])
    kept = log_prob.copy()
    below_ceiling(log_prob, 0.6)
    np.testing.assert_array_equal(log_prob, kept)


def test_one_class_has_all_mass_under_any_bound() -> None:
    np.testing.assert_array_equal(below_ceiling(np.zeros((3, 1)), 0.4), np.zeros((3, 1)))


def test_no_rows() -> None:
    assert below_ceiling(np.zeros((0, 3)), 0.5).shape == (0, 3)


@st.composite
def distributions(draw: st.DrawFn) -> tuple[np.ndarray, float]:
    """Rows of up to six classes, from flat to hopelessly sure, and a bound that they can meet."""
    n_classes = draw(st.integers(2, 6))
    logits = st.lists(st.floats(-800, 800), min_size=n_classes, max_size=n_classes)
    rows = np.array(draw(st.lists(logits, min_size=1, max_size=4)))
    log_prob = rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)
    share = draw(st.floats(0, 1))
    return log_prob, min(max(1 / n_classes + share * (1 - 1 / n_classes), 1 / n_classes), 1.0)


@given(distributions())
@settings(max_examples=200, deadline=None)
def test_it_is_a_distribution_below_the_bound_in_the_old_order(case: tuple[np.ndarray, float]) -> None:
    log_prob, ceiling = case
    before, after = np.exp(log_prob), np.exp(below_ceiling(log_prob, ceiling))
    np.testing.assert_allclose(after.sum(axis=1), 1, atol=1e-12)
    assert after.max() <= ceiling * (1 + 1e-12)
    for old, new in zip(before, after, strict=True):
        assert (np.diff(new[np.argsort(old, kind="stable")]) >= -1e-12).all()
        # Mass is taken from classes above the bound only.
        assert (new >= np.minimum(old, ceiling) - 1e-12).all()
        if old.max() <= ceiling:
            np.testing.assert_allclose(new, old, atol=1e-12)
        else:
            assert new.max() >= ceiling * (1 - 1e-12)
