"""Compiled loops over pairs of annotators beside numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crowdwise.data.meetings import answers_of
from crowdwise.data.simulate import simulate
from crowdwise.engines.independence import agreement_of


@pytest.mark.parametrize("lowest", [-1.0, -0.2])
def test_background_is_that_of_numpy(lowest: float) -> None:
    votes = simulate(120, 15, 3, 6, {"one-coin": 0.8, "cyclic-adversary": 0.2}, random_state=0).votes
    pairs = agreement_of(answers_of(votes))
    inside = np.arange(len(pairs.first)) % 7 == 0
    given = pairs.unit_variance(0.3), inside, 0.3, lowest
    ours, numpy_s = (part.explained_by_skill(*given) for part in (replace(pairs, compiled=True), pairs))
    # The second of two fits starts where the first ended; both stop at steps of 1e-4.
    np.testing.assert_allclose(ours.skill, numpy_s.skill, atol=2e-3)
    assert ours.misfit == pytest.approx(numpy_s.misfit, abs=1e-3)


def test_products_are_those_of_numpy() -> None:
    pairs = agreement_of(answers_of(simulate(60, 9, 4, 3, random_state=1).votes))
    np.testing.assert_allclose(replace(pairs, compiled=True).products(pairs.own_al), pairs.chance, rtol=1e-12)
