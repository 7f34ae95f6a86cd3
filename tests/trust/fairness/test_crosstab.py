from __future__ import annotations

import pytest
from scipy.stats import binomtest

from crowdwise.errors import InputError
from crowdwise.trust.fairness import flagged_by_group


def test_counts_and_exact_intervals() -> None:
    groups = {n: "minority" if n < 5 else "majority" for n in range(25)}
    frame = flagged_by_group([0, 1, 2, 7, 7], groups)
    assert frame.select("group", "n_annotators", "n_flagged").rows() == [("majority", 20, 1), ("minority", 5, 3)]
    for row in frame.iter_rows(named=True):
        exact = binomtest(row["n_flagged"], row["n_annotators"]).proportion_ci(method="exact")
        assert (row["low"], row["high"]) == pytest.approx((exact.low, exact.high))


def test_none_or_all_flagged_have_an_interval() -> None:
    assert flagged_by_group([], {"x": "a"}).select("share", "low", "high").row(0) == pytest.approx((0, 0, 0.975))
    assert flagged_by_group(["x"], {"x": "a"}).select("share", "low", "high").row(0) == pytest.approx((1, 0.025, 1))


def test_annotators_without_a_group_are_refused() -> None:
    with pytest.raises(InputError, match="have no group"):
        flagged_by_group(["y"], {"x": "a"})
    with pytest.raises(InputError, match="'x' has no group"):
        flagged_by_group([], {"x": None})
