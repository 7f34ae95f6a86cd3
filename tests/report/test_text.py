"""What a fit leaves, in a few lines."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.report.text import match_line


def test_labels_are_compared_where_there_are_votes_and_a_known_class() -> None:
    votes = Annotations.from_arrays(["i", "j", "k"], ["a"] * 3, ["x", "y", "x"], items=["i", "j", "k", "silent"])
    result = make("majority").fit(votes).result_
    line = match_line(result, np.array([0, 0, -1, 1]))
    assert line == "compared with gold, which the fit did not see: 1 of 2 labels are right (50.0%)"
    assert match_line(result, None) == ""
