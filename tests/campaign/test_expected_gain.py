"""What answers are worth: closed forms against enumeration and Monte Carlo."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.conftest import rows

from crowdwise.campaign import expected_gain


def enumerated(q: list[float], matrix: list[list[float]]) -> tuple[float, float]:
    """Information and error reduction of one answer by the tutorial's definition: what each answer makes of the label."""
    information, best_after = 0.0, 0.0
    for label in range(len(matrix[0])):
        mu = sum(q[k] * matrix[k][label] for k in range(len(q)))
        if mu == 0:
            continue
        after = [q[k] * matrix[k][label] / mu for k in range(len(q))]
        information += mu * sum(p * math.log(p / q[k]) for k, p in enumerate(after) if p > 0)
        best_after += mu * max(after)
    return information, best_after - max(q)


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_gains_equal_their_enumeration(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    q, confusion = rows(rng, 3, n_classes), rows(rng, 2, n_classes, n_classes)
    information, reduction = expected_gain.information(q, confusion), expected_gain.error_reduction(q, confusion)
    for n in range(3):
        for a in range(2):
            expected = enumerated(q[n].tolist(), confusion[a].tolist())
            assert information[n, a] == pytest.approx(expected[0], abs=1e-12)
            assert reduction[n, a] == pytest.approx(expected[1], abs=1e-12)


def test_information_equals_monte_carlo() -> None:
    rng = np.random.default_rng(1)
    q, matrix = np.array([0.5, 0.3, 0.2]), np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]])
    z = rng.choice(3, size=200_000, p=q)
    y = (rng.random((len(z), 1)) > matrix[z].cumsum(axis=1)[:, :-1]).sum(axis=1)
    # log p(y | z) / p(y), averaged over draws; its standard error is about 0.002.
    ratio = np.log(matrix[z, y]) - np.log((q @ matrix)[y])
    assert expected_gain.information(q[None], matrix[None])[0, 0] == pytest.approx(ratio.mean(), abs=0.008)


def test_a_perfect_annotator_is_worth_the_entropy_and_a_coin_nothing() -> None:
    q = np.array([[0.25, 0.75]])
    crowd = np.stack([np.eye(2), np.full((2, 2), 0.5), np.eye(2)[::-1]])
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    # One who is always wrong is as good as one who is always right.
    assert expected_gain.information(q, crowd)[0] == pytest.approx([entropy, 0, entropy])
    assert expected_gain.error_reduction(q, crowd)[0] == pytest.approx([0.25, 0, 0.25])
    assert expected_gain.rightness(q, crowd)[0] == pytest.approx([1, 0.5, 0])
    assert expected_gain.entropy(q)[0] == pytest.approx(entropy)


def test_scores_of_items_by_hand() -> None:
    q = np.array([[0.5, 0.3, 0.2], [1, 0, 0]])
    assert expected_gain.ambiguity(q) == pytest.approx([0.8, 0])
    assert expected_gain.error(q) == pytest.approx([0.5, 0])
    assert expected_gain.ambiguity(np.ones((2, 1))).tolist() == [0, 0]
    label, item = np.array([0, 1, 0, 0]), np.array([0, 0, 2, 2])
    assert expected_gain.vote_entropy(label, item, 3, 2) == pytest.approx([math.log(2), 0, 0])


@given(st.integers(0, 1000))
def test_an_answer_is_never_worth_more_than_what_is_open(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, confusion = rows(rng, 4, 3), rows(rng, 3, 3, 3)
    assert (expected_gain.information(q, confusion) <= expected_gain.entropy(q)[:, None] + 1e-12).all()
    assert (expected_gain.error_reduction(q, confusion) <= expected_gain.error(q)[:, None] + 1e-12).all()


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    q_nk, concentration = rng.dirichlet(np.ones(3), size=400), rng.gamma(2.0, size=(700, 3, 3)) + 0.1
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("CROWDWISE_THREADS", threads)
        found.append(expected_gain.expected_information(q_nk, concentration))
    np.testing.assert_array_equal(*found)
    # A row and a column of the table are the same alone, up to rounding.
    alone = expected_gain.expected_information(q_nk[7:8], concentration[5:6])
    np.testing.assert_allclose(alone, found[0][7:8, 5:6], rtol=1e-12)
