"""Numbers that mean no answer; what is expected is written down by hand."""

from __future__ import annotations

import numpy as np
import pytest

import crowdwise
from crowdwise.data.missing_codes import missing_codes
from crowdwise.errors import DataWarning


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([1, 2, 3, 99], [99]),
        ([1, 2, 3, 4, 5, 9], [9]),
        ([-9, 1, 2, 3], [-9]),
        ([-9, -8, 0, 1], [-9, -8]),
        ([-99, -1, 1, 2], [-99, -1]),
        ([-2, 0, 1, 2], [-2]),
        ([1, 2, 98, 99], [98, 99]),
        ([0, 1, 999], [999]),
        # Scales, counts and digits.
        ([-3, -2, -1, 0, 1, 2, 3], []),
        ([-2, -1, 0, 1], []),
        ([-2, 0, 2], []),
        ([10, 50, 99], []),
        ([0, 1, 9], []),
        ([7, 8, 9], []),
        ([1, 99], []),
        ([-9, 9], []),
        ([0.5, 3.25, 99.0], [99]),
        ([], []),
    ],
)
def test_codes_are_told_from_answers(values: list[float], codes: list[float]) -> None:
    assert missing_codes(values) == codes


def test_labels_that_may_be_codes_are_warned_of() -> None:
    items, people = np.repeat(np.arange(6), 2), np.tile([0, 1], 6)
    labels = [1, 2, 3, 3, 2, 99, 1, 1, 2, 2, 3, 99]
    with pytest.warns(DataWarning, match=r"'99' \(2\) counts as a class; if it means a missing answer, add --missing 99"):
        votes = crowdwise.Annotations.from_arrays(items, people, labels)
    assert votes.classes.tolist() == [1, 2, 3, 99]
    assert crowdwise.Annotations.from_arrays(items, people, labels, missing=[99]).n_missing == 2
    assert crowdwise.Annotations.from_arrays(items, people, labels, classes=[1, 2, 3, 99]).n_missing == 0


def test_values_that_may_be_codes_are_warned_of() -> None:
    items, people = np.repeat(np.arange(3), 2), np.tile([0, 1], 3)
    with pytest.warns(DataWarning, match=r"-99 \(2\) counts as a value; where it means a missing answer, leave the cell empty"):
        crowdwise.Ratings.from_arrays(items, people, [1.5, 2.0, -99, 3.0, 2.5, -99])
    crowdwise.Ratings.from_arrays(items, people, [1.5, 2.0, -98.5, 3.0, 2.5, -0.5])
