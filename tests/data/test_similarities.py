"""Whether two items are the same: answers understood, faults named."""

from __future__ import annotations

import pytest

from crowdwise.data.similarities import Similarities
from crowdwise.errors import InputError


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([1, 0], [1, -1]),
        ([True, False], [1, -1]),
        (["Yes", "no"], [1, -1]),
        (["same", "different"], [1, -1]),
        ([1.0, 0.0], [1, -1]),
    ],
)
def test_same_and_different_have_many_spellings(answers: list[object], outcome: list[int]) -> None:
    votes = Similarities.from_arrays(["x", "x"], ["y", "z"], ["ann", "bob"], answers)
    assert votes.outcome.tolist() == outcome


def test_an_answer_that_is_neither_names_its_row() -> None:
    with pytest.raises(InputError, match=r"row 1: the answer 'perhaps' is none of 1, 0"):
        Similarities.from_arrays(["x", "x"], ["y", "z"], ["ann", "bob"], ["yes", "perhaps"])
