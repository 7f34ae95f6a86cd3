from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trust.crowd.crowds import fit

from crowdwise.data.simulate import simulate
from crowdwise.trust.crowd import raykar_yu
from crowdwise.trust.crowd.raykar_yu import spammer_score

share = st.floats(0, 1)


@pytest.mark.slow
@given(sensitivity=share, specificity=share)
def test_two_classes(sensitivity: float, specificity: float) -> None:
    matrix = np.array([[[specificity, 1 - specificity], [1 - sensitivity, sensitivity]]])
    youden = sensitivity + specificity - 1
    assert spammer_score(matrix)[0] == pytest.approx(youden**2, abs=1e-12)
    assert spammer_score(matrix, signed=True)[0] == pytest.approx(np.sign(youden) * youden**2, abs=1e-12)


def test_the_sum_over_pairs_of_rows() -> None:
    matrix = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 4))
    by_hand = [sum(((m[k] - m[j]) ** 2).sum() for k in range(4) for j in range(k + 1, 4)) / 12 for m in matrix]
    np.testing.assert_allclose(spammer_score(matrix), by_hand)
    np.testing.assert_allclose(spammer_score(np.array([np.eye(4), np.full((4, 4), 0.25)])), [1, 0])
    assert spammer_score(np.ones((1, 1, 1))).tolist() == [0.0]


def test_spammers_are_flagged_and_the_inverted_have_a_sign() -> None:
    crowd = simulate(3000, 12, 3, 6, {"one-coin": 0.5, "constant-spammer": 0.25, "cyclic-adversary": 0.25}, random_state=0)
    report = raykar_yu.score(fit(crowd.votes))
    np.testing.assert_array_equal(report.frame["flag"], crowd.kind == "constant-spammer")
    assert (report.frame["signed"].to_numpy()[crowd.kind == "cyclic-adversary"] < -0.3).all()


def test_many_sure_spammers_make_no_room_for_flags_of_the_informative() -> None:
    """Of 42 flags, 40 of them certain, two that are surely wrong would keep to a rate of 5 %."""
    crowd = simulate(400, 50, 3, 20, {"one-coin": 0.2, "constant-spammer": 0.8}, random_state=0)
    report = raykar_yu.score(fit(crowd.votes))
    np.testing.assert_array_equal(report.frame["flag"], crowd.kind == "constant-spammer")
