"""The test of one group against loops over pairs and items, on crowds small enough to count."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import SingleAnswers, answers_of
from crowdwise.engines.independence import Agreement, Background, agreement_of
from crowdwise.engines.shared_errors import Trial, confirmed_excess


@pytest.fixture
def crowd() -> tuple[np.ndarray, SingleAnswers, Agreement, Background]:
    """Labels of eight annotators on 60 items, -1 where there is none, and what is computed from them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=60)
    labels = np.where(rng.random((60, 8)) < 0.7, truth[:, None], rng.integers(3, size=(60, 8)))
    labels[:, 1:4] = np.where(rng.random((60, 3)) < 0.8, labels[:, :1], labels[:, 1:4])
    labels = np.where(rng.random((60, 8)) < 0.6, labels, -1)
    item, who = np.nonzero(labels >= 0)
    votes = Annotations.from_arrays(item, who, labels[item, who], items=range(60), annotators=range(8), classes=range(3))
    answers = answers_of(votes)
    pairs = agreement_of(answers)
    nobody = np.zeros(len(pairs.first), bool)
    return labels, answers, pairs, pairs.explained_by_skill(pairs.unit_variance(0.3), nobody, 0.3)


def counted(
    labels: np.ndarray, pairs: Agreement, background: Background, members: list[int]
) -> tuple[float, float, list[float]]:
    """T over its standard deviation, T over its most, and the mean excess of every member, by loops."""
    t = np.zeros(len(labels))
    most = model = misfit = 0.0
    excess, met = dict.fromkeys(members, 0.0), dict.fromkeys(members, 0)
    for a, b in combinations(members, 2):
        e = pairs.own_al[a] @ pairs.own_al[b] + pairs.scale * background.skill[a] * background.skill[b]
        n = 0
        for i, row in enumerate(labels):
            if row[a] >= 0 and row[b] >= 0:
                d = float(row[a] == row[b]) - e
                t[i] += d
                n += 1
                for member in (a, b):
                    excess[member] += d
                    met[member] += 1
        most += n * max(1 - e, 0.02)
        model += n * min(max(e, 0.02), 0.98) * (1 - min(max(e, 0.02), 0.98))
        misfit += (n * pairs.scale) ** 2 * background.misfit
    some = (labels[:, members] >= 0).any(axis=1)
    over_items = float((t[some] ** 2).sum() - t.sum() ** 2 / some.sum())
    ratio = t.sum() / np.sqrt(max(over_items, model) + misfit + 1e-9)
    return max(ratio, 0.0), t.sum() / most, [excess[m] / max(met[m], 1) for m in members]


def test_the_test_is_a_sum_over_pairs_and_items(crowd: tuple) -> None:
    labels, answers, pairs, background = crowd
    members = [0, 1, 2, 3, 5, 7]
    trial = Trial(answers, pairs, background, np.array(members))
    while len(members) > 2:
        ratio, excess, by_member = counted(labels, pairs, background, members)
        assert trial.ratio == pytest.approx(ratio, rel=1e-9)
        assert trial.excess == pytest.approx(excess, rel=1e-9)
        np.testing.assert_allclose(trial.by_member, by_member, rtol=1e-9)
        gone = int(np.argmin(by_member))
        trial.drop(gone)
        del members[gone]
    np.testing.assert_array_equal(trial.members, members)


def test_confirmation_compares_with_habits_given_those_outside(crowd: tuple) -> None:
    labels, answers, _, _ = crowd
    members = [0, 1, 2]
    counts = np.stack([(labels == k).sum(axis=1) for k in range(3)], axis=1).astype(float)
    others = np.stack([(np.delete(labels, members, axis=1) == k).sum(axis=1) for k in range(3)], axis=1)
    stratum = others.argmax(axis=1) + 3 * (others.max(axis=1) < 2 / 3 * others.sum(axis=1))
    heard = others.sum(axis=1) > 0
    habit = np.zeros((3, 6, 3))
    for x, member in enumerate(members):
        for i in np.flatnonzero(heard & (labels[:, member] >= 0)):
            habit[x, stratum[i], labels[i, member]] += 1
    base = habit.sum(axis=(0, 1)) + 0.5
    habit = (habit + base / base.sum()) / (habit.sum(axis=2, keepdims=True) + 1)
    agreed = expected = meetings = 0.0
    for (x, a), (y, b) in combinations(enumerate(members), 2):
        for i in np.flatnonzero(heard & (labels[:, a] >= 0) & (labels[:, b] >= 0)):
            agreed += labels[i, a] == labels[i, b]
            expected += habit[x, stratum[i]] @ habit[y, stratum[i]]
            meetings += 1
    given = confirmed_excess(answers, counts, np.array(members))
    assert given == pytest.approx((agreed - expected) / (meetings - expected), rel=1e-9)


def test_without_outsiders_nothing_contradicts() -> None:
    votes = Annotations.from_matrix([[0, 0], [1, 1], [0, 1]])
    counts = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    assert confirmed_excess(answers_of(votes), counts, np.array([0, 1])) == 1.0
