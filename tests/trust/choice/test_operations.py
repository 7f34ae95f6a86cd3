"""Operations, counted before anything is fitted."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd

from crowdwise.trust.choice.classifiers import CANDIDATES, Candidate
from crowdwise.trust.choice.operations import keep_affordable, operations_of, training_operations
from crowdwise.trust.choice.selection import Row


@pytest.mark.parametrize(
    ("method", "expected"), [("majority", 345), ("dawid-skene", 50 * 345), ("glad", 100 * 345), ("ebcc", 60 * 80 * 345)]
)
def test_a_fit_takes_rounds_over_votes_and_tables(method: str, expected: float) -> None:
    # 20 items with 5 votes each on 3 classes: 3 x (100 + 5 x 3) = 345 numbers per round.
    votes, _ = crowd(0, 20, diagonal_crowd(5, 3, 0.8))
    assert operations_of(method, votes) == expected


def test_training_takes_rounds_over_rows_and_parameters() -> None:
    table, images = np.zeros((1000, 20)), np.zeros((1000, 3, 8, 8))
    assert training_operations(Candidate("raykar", "raykar"), table, 4) == 100 * 1000 * 20 * 4
    assert training_operations(Candidate("two-stage", "two-stage"), table, 4) == 500 * 1000 * 20 * 4
    assert training_operations(Candidate("svgpcr", "svgpcr"), table, 4) == 50 * 1000 * 100 * (20 + 4 * 100)
    # 64 units for 1000 rows, which have 8 steps per epoch of the 1000 that a network gets.
    assert training_operations(Candidate("ccem", "ccem"), table, 4) == 128 * 1000 * 64 * (20 + 4)
    assert training_operations(Candidate("ccem", "ccem"), np.zeros((5000, 20)), 4) == 100 * 5000 * 64 * (20 + 4)
    assert training_operations(Candidate("ccem", "ccem"), images, 4) == 100 * 1000 * 192 * 128


def test_every_default_classifier_can_be_counted() -> None:
    assert all(training_operations(candidate, np.zeros((10, 2)), 2) > 0 for candidate in CANDIDATES)


def test_what_does_not_fit_is_skipped_and_what_follows_may_still_fit() -> None:
    rows = [Row("a"), Row("b"), Row("c"), Row("absent", eligible=False, note="left out")]
    keep_affordable(rows, {"a": 5.0, "b": 6.0, "c": 5.0}, 10.0)
    assert [row.eligible for row in rows] == [True, False, True, False]
    assert rows[1].note == "skipped: it takes about 6.0e+00 operations, and 5.0e+00 of 1.0e+01 are left"
    assert rows[3].note == "left out"
