from __future__ import annotations

import numpy as np
import pytest
from tests.trust.crowd.crowds import fit

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, SettingError
from crowdwise.trust.crowd import capacity, covariance
from crowdwise.trust.crowd.report import benjamini_hochberg


def test_benjamini_and_hochbergs_own_example() -> None:
    # Table of their 1995 paper (section 3.2): fifteen p-values, four rejected at 0.05.
    p = np.array(
        [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    )
    assert int((benjamini_hochberg(p) <= 0.05).sum()) == 4
    shuffled = np.random.default_rng(0).permutation(15)
    np.testing.assert_allclose(benjamini_hochberg(p[shuffled]), benjamini_hochberg(p)[shuffled])


def test_what_was_not_tested_does_not_count() -> None:
    q = benjamini_hochberg(np.array([0.01, np.nan, 0.02]))
    np.testing.assert_allclose(q, [0.02, np.nan, 0.02])


def test_levels_and_foreign_votes_are_refused() -> None:
    votes = Annotations.from_arrays([0, 0, 1, 1], ["x", "y"] * 2, [0, 0, 1, 1])
    result = fit(votes)
    for fdr in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(SettingError, match="fdr"):
            covariance.score(result, fdr=fdr)
    with pytest.raises(InputError, match="annotators"):
        capacity.score(result, votes.drop(annotators=["x"]))
