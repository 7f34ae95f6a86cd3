from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trust.crowd.crowds import fit, symmetric

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.trust.crowd import capacity
from crowdwise.trust.crowd.capacity import channel_capacity


def entropy(p: float) -> float:
    return 0.0 if p in (0, 1) else float(-p * np.log2(p) - (1 - p) * np.log2(1 - p))


@given(p=st.floats(0, 1))
def test_the_binary_symmetric_channel(p: float) -> None:
    assert channel_capacity(np.array([[[1 - p, p], [p, 1 - p]]]))[0] == pytest.approx(1 - entropy(p), abs=1e-7)


@pytest.mark.slow
@given(p=st.floats(0.01, 0.99))
def test_the_z_channel(p: float) -> None:
    # Cover and Thomas: log2(1 + (1 - p) p^(p / (1 - p))) when a one is lost with probability p.
    expected = np.log2(1 + (1 - p) * p ** (p / (1 - p)))
    assert channel_capacity(np.array([[[1.0, 0.0], [p, 1 - p]]]), tol=1e-6)[0] == pytest.approx(expected, abs=2e-6)


def test_channels_of_more_classes_all_at_once() -> None:
    # A symmetric channel is best used evenly: log2 K - H(row). A permutation loses nothing; equal rows lose all.
    rows = [symmetric(0.8, 4), np.roll(np.eye(4), 1, axis=1), np.tile([0.1, 0.2, 0.3, 0.4], (4, 1))]
    lost = -0.8 * np.log2(0.8) - 0.2 * np.log2(0.2 / 3)
    np.testing.assert_allclose(channel_capacity(np.array(rows)), [2 - lost, 2, 0], atol=1e-6)
    assert channel_capacity(np.ones((1, 1, 1))).tolist() == [0.0]


def test_spammers_are_flagged_adversaries_are_not_and_newcomers_are_unknown() -> None:
    crowd = simulate(3000, 12, 3, 6, {"one-coin": 0.5, "uniform-spammer": 0.25, "cyclic-adversary": 0.25}, random_state=0)
    extra = Annotations.from_arrays(crowd.votes.items[:2], ["newcomer"] * 2, crowd.votes.classes[[0, 1]])
    report = capacity.score(fit(crowd.votes.concat(extra)))
    verdict = dict(zip(report.frame["annotator"], report.frame["verdict"], strict=True))
    assert verdict.pop("newcomer") == "unknown"
    expected = np.where(crowd.kind == "uniform-spammer", "spammer", "informative")
    assert list(verdict.values()) == expected.tolist()


def test_the_same_seed_gives_the_same_report() -> None:
    result = fit(simulate(100, 6, 3, 3, "one-coin", random_state=0).votes)
    assert capacity.score(result).frame.equals(capacity.score(result).frame)


def test_asking_only_for_enough_decides_alike() -> None:
    rng = np.random.default_rng(0)
    confusion = rng.dirichlet(np.full(4, 0.7), size=(300, 4))
    capacities = channel_capacity(confusion)
    for enough in (0.1, 0.5, 1.0):
        np.testing.assert_array_equal(channel_capacity(confusion, enough=enough) >= enough, capacities >= enough)


def test_verdicts_are_those_of_the_report() -> None:
    crowd = simulate(200, 30, 3, 4, {"one-coin": 0.7, "uniform-spammer": 0.3}, random_state=0)
    result = fit(crowd.votes)
    assert capacity.verdicts(result).tolist() == capacity.score(result).frame["verdict"].to_list()
