from __future__ import annotations

import numpy as np
import pytest
from tests.trust.fairness.crowds import biased_crowd

from crowdwise.errors import InputError, SettingError
from crowdwise.trust.fairness import fair_assignment
from crowdwise.trust.fairness.assignment import solve_assignment


def test_of_two_annotators_the_best_mix_is_that_of_a_grid() -> None:
    accuracy = np.array([[0.9, 0.8], [0.7, 0.75]])
    rates = np.array([[0.3, 0.1], [0.1, 0.2]])
    weight = np.array([0.6, 0.4])
    share = solve_assignment(accuracy, rates, weight, 0.05, 1.0)
    p, r = np.meshgrid(np.linspace(0, 1, 501), np.linspace(0, 1, 501))
    gap = np.abs(p * 0.3 + (1 - p) * 0.1 - (r * 0.1 + (1 - r) * 0.2))
    value = 0.6 * (p * 0.9 + (1 - p) * 0.7) + 0.4 * (r * 0.8 + (1 - r) * 0.75)
    best = value[gap <= 0.05 + 1e-9].max()
    assert weight @ (share * accuracy).sum(axis=0) == pytest.approx(best, abs=2e-3)
    assert share.sum(axis=0) == pytest.approx([1, 1])
    found = (share * rates).sum(axis=0)
    assert abs(found[0] - found[1]) <= 0.05 + 1e-9


def test_without_a_constraint_everybody_gets_what_they_do_best() -> None:
    accuracy = np.array([[0.9, 0.6], [0.7, 0.8]])
    assert solve_assignment(accuracy, np.zeros((2, 2)), np.array([0.5, 0.5]), 0.0, 1.0) == pytest.approx(np.eye(2))


def test_nobody_gets_more_than_their_share() -> None:
    rng = np.random.default_rng(0)
    weight = np.array([0.7, 0.3])
    share = solve_assignment(rng.random((6, 2)), rng.random((6, 2)) * 0.2, weight, 0.1, 0.25)
    assert ((share * weight).sum(axis=1) <= 0.25 + 1e-9).all()


def test_votes_on_known_items_give_an_assignment_and_its_price() -> None:
    crowd = biased_crowd(0, n_items=300, n_annotators=8)
    found = fair_assignment(crowd.votes, crowd.group, crowd.gold, within=0.01, most=0.3)
    assert found.gap <= 0.01 + 1e-9
    assert found.share.sum(axis=0) == pytest.approx([1, 1])
    frame = found.frame()
    assert frame.columns == ["annotator", "group", "share"]
    assert frame["share"].sum() == pytest.approx(2)
    assert 0.5 < found.accuracy < 1


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(InputError, match="no assignment"):
        solve_assignment(np.ones((1, 2)), np.array([[0.1, 0.5]]), np.array([0.5, 0.5]), 0.1, 1.0)
    with pytest.raises(SettingError, match="does not cover"):
        solve_assignment(np.ones((2, 1)), np.ones((2, 1)), np.ones(1), 0.1, 0.4)
    crowd = biased_crowd(0, n_items=20)
    first = int(np.flatnonzero(crowd.group == 0)[0])
    with pytest.raises(InputError, match="every group needs items of known class"):
        fair_assignment(crowd.votes, crowd.group, {first: 1})
