"""Judges in families: posterior by enumeration, an objective that never falls, and recovery."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from tests.trust.judges.models import joint, nested_model, some_model

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.kernels.numerics import log_floored
from crowdwise.trust.judges.cells import Cells, log_sum
from crowdwise.trust.judges.model import JudgeModel, Level
from crowdwise.trust.judges.panels import Panels
from crowdwise.trust.judges.resampling import drawn


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [some_model, nested_model])
def test_posterior_by_enumeration(kind: Callable[[int, int], JudgeModel], n_classes: int) -> None:
    model = kind(1, n_classes)
    patterns = np.array(list(product(range(n_classes), repeat=4)))
    posterior = model.posterior(Annotations.from_matrix(patterns, classes=list(range(n_classes))))
    wanted = np.array([joint(model, (0, 1, 2, 3), tuple(row)) for row in patterns.tolist()])
    np.testing.assert_allclose(posterior, wanted / wanted.sum(axis=1, keepdims=True), rtol=1e-9)
    assert wanted.sum() == pytest.approx(1)


def test_absent_judges_are_left_out_and_gold_stays() -> None:
    model = some_model(2, 2)
    votes = Annotations.from_codes(
        np.array([0, 0, 1]), np.array([0, 2, 1]), np.array([0, 1, 1]), np.array([0, 1]), np.arange(4), np.array([0, 1])
    )
    wanted = np.array([joint(model, (0, 2), (0, 1)), joint(model, (1,), (1,))])
    wanted /= wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.posterior(votes), wanted)
    known = model.posterior(votes.with_gold({0: 1}))
    np.testing.assert_allclose(known, [[0, 1], wanted[1]])


def test_a_soft_vote_is_a_label_that_is_not_known() -> None:
    model = some_model(3, 2)
    votes = Annotations.from_probabilities(["x", "x"], [0, 1], [[0.7, 0.3], [1.0, 0.0]], classes=[0, 1])
    alone = model.of(np.array([0, 1]))
    mixed = 0.7 * joint(alone, (0, 1), (0, 0)) + 0.3 * joint(alone, (0, 1), (1, 0))
    np.testing.assert_allclose(alone.posterior(votes)[0], mixed / mixed.sum())


@pytest.mark.parametrize("kind", [some_model, nested_model])
def test_confusion_is_that_of_a_judge_alone(kind: Callable[[int, int], JudgeModel]) -> None:
    model = kind(4, 3)
    for a in range(4):
        table = np.array([joint(model, (a,), (v,)) for v in range(3)]).T
        np.testing.assert_allclose(model.confusion[a], table / table.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("kind", "several"),
    [(some_model, [[0, 1, 2, 3], [0]]), (nested_model, [[0, 1, 2, 3], [0], [0]])],
    ids=["families", "nested"],
)
def test_no_round_lowers_the_objective(kind: Callable[[int, int], JudgeModel], several: list[list[int]]) -> None:
    true = kind(5, 3)
    votes = Annotations.from_matrix(drawn(true, 80, seed=1)[0])
    cells = Cells.of(answers_of(votes), true.codes, votes.n_items)
    model = JudgeModel._start(votes, cells, np.full((80, 3), 0.2) + 0.4 * np.eye(3)[votes.label[::4]])
    trace = []
    for _ in range(40):
        # One pseudo-vote per row, spread as the labels are: that of a Dirichlet prior of judges and of groups of several.
        parts = zip(cells.labels, model.levels, several, strict=True)
        pseudo = sum((labels[who, None] * log_floored(level.own[who, :3])).sum() for labels, level, who in parts)
        trace.append(float(log_sum(model.scores(cells, model.upward(cells).log_ms)).sum() + pseudo))
        model = model._update(cells, *model._expect(cells, np.empty(0, np.int16)))
    assert (np.diff(trace) > -1e-7).all()
    assert trace[-1] > trace[0] + 1


@pytest.mark.slow
def test_recovery_of_a_family_and_of_hard_items() -> None:
    k, family = 3, np.array([0, 0, 0, 1, 2, 3, 4])
    table = np.full((k, k), 0.1) + 0.7 * np.eye(k)
    guess = 0.3 * table + 0.7 / k
    true = JudgeModel.in_families(
        np.concatenate([np.full(k, 0.75 / k), np.full(k, 0.25 / k)]),
        family,
        np.array([0.8, 0.7, 0.6, 0, 0, 0, 0]),
        np.repeat(np.concatenate([table, guess])[None], 5, axis=0),
        np.repeat(np.concatenate([table, guess])[None], 7, axis=0),
        0.3,
    )
    answers, truth = drawn(true, 1000, seed=3)
    votes = Annotations.from_matrix(answers)
    start = np.full((1000, k), 0.1) + 0.7 * np.eye(k)[answers[:, 3]]
    model, posterior = JudgeModel.fit(votes, family, start, rounds=60)
    np.testing.assert_allclose(model.levels[0].lam[:3], true.levels[0].lam[:3], atol=0.12)
    np.testing.assert_allclose(model.confusion, true.confusion, atol=0.08)
    best = true.posterior(votes)
    assert (posterior.argmax(axis=1) == truth).mean() > (best.argmax(axis=1) == truth).mean() - 0.01


@pytest.mark.parametrize(
    "codes",
    [
        np.array([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]]),
        np.array([[0, 0, 0, 1, 2], [0, 0, 0, 1, 2]]),
        np.array([[0, 1, 2, 3, 4], [2, 2, 2, 3, 4], [0, 0, 0, 1, 2]]),
    ],
    ids=["models of one prompt", "families of one model", "two levels of one"],
)
def test_a_level_without_groups_of_several_changes_nothing(codes: np.ndarray) -> None:
    family = codes[-1]
    answers, _ = drawn(some_model(6, 3, family), 120, seed=2)
    votes, start = Annotations.from_matrix(answers), np.full((120, 3), 0.2) + 0.4 * np.eye(3)[answers[:, 3]]
    flat, wanted = JudgeModel.fit(votes, family, start, rounds=15)
    deep, found = JudgeModel.fit(votes, codes, start, rounds=15)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    np.testing.assert_allclose(deep.confusion, flat.confusion, atol=1e-9)


@pytest.mark.slow
def test_recovery_of_models_within_a_family() -> None:
    """Three models of one family with three prompts each, and three judges alone."""
    k, codes = 3, np.array([[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 5], [0] * 9 + [1, 2, 3]])
    own, alone = np.full((k, k), 0.1) + 0.7 * np.eye(k), np.full((k, k), 0.15) + 0.55 * np.eye(k)
    tables = [np.repeat(np.tile(table, (2, 1))[None], n, axis=0) for table, n in ((own, 12), (own, 6), (alone, 4))]
    lams = [np.repeat([0.9, 0], [9, 3]), np.repeat([0.8, 0], [3, 3]), np.zeros(4)]
    # Those who stand alone answer as the family of one would.
    for table in tables:
        table[-3:] = np.tile(own, (2, 1))
    even = np.concatenate([np.full(k, 1 / k), np.zeros(k)])
    true = JudgeModel(even, codes, tuple(Level(lam, table) for lam, table in zip(lams, tables, strict=True)))
    answers, truth = drawn(true, 1500, seed=4)
    votes = Annotations.from_matrix(answers)
    start = np.full((1500, k), 0.1) + 0.7 * np.eye(k)[answers[:, 9]]
    model, posterior = JudgeModel.fit(votes, codes, start)
    np.testing.assert_allclose(model.levels[0].lam[:9], 0.9, atol=0.08)
    np.testing.assert_allclose(model.levels[1].lam[:3], 0.8, atol=0.15)
    np.testing.assert_allclose(model.confusion, true.confusion, atol=0.08)
    best = (true.posterior(votes).argmax(axis=1) == truth).mean()
    assert (posterior.argmax(axis=1) == truth).mean() > best - 0.01
    # Prompts of one model are closer to each other than models of one family: one level cannot say both, and counts them twice.
    flat = JudgeModel.fit(votes, codes[-1], start)[0]

    def mean(of: JudgeModel) -> float:
        return Panels(of).panel(range(9)).accuracy

    assert abs(mean(model) - mean(true)) < 0.03 < mean(flat) - mean(true)
