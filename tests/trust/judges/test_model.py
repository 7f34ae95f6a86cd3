"""Judges in families: posterior by enumeration, an objective that never falls, and recovery."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.trust.judges.models import FAMILY, joint, some_model

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.kernels.numerics import log_floored
from crowdwise.trust.judges.cells import Cells, log_sum
from crowdwise.trust.judges.model import JudgeModel
from crowdwise.trust.judges.resampling import drawn


@pytest.mark.parametrize("n_classes", [2, 3])
def test_posterior_by_enumeration(n_classes: int) -> None:
    model = some_model(1, n_classes)
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


def test_confusion_is_that_of_a_judge_alone() -> None:
    model = some_model(4, 3)
    for a in range(4):
        table = np.array([joint(model, (a,), (v,)) for v in range(3)]).T
        np.testing.assert_allclose(model.confusion[a], table / table.sum(axis=1, keepdims=True))


def test_no_round_lowers_the_objective() -> None:
    votes = Annotations.from_matrix(drawn(some_model(5, 3), 80, seed=1)[0])
    cells = Cells.of(answers_of(votes), FAMILY, votes.n_items)
    model = JudgeModel._start(votes, cells, FAMILY, np.full((80, 3), 0.2) + 0.4 * np.eye(3)[votes.label[::4]])
    trace = []
    for _ in range(40):
        log_ms = log_sum(model.messages(cells, model.probability(cells)))
        # One pseudo-vote per row, spread as the labels are: that of a Dirichlet prior.
        pseudo = (cells.family_labels(FAMILY)[:1, None] * log_floored(model.shared_fsc[:1, :3])).sum()
        pseudo += (cells.labels_al[:, None] * log_floored(model.own_asl[:, :3])).sum()
        trace.append(float(log_sum(model.scores(cells, log_ms)).sum() + pseudo))
        model = model._update(cells, *model._expect(cells, np.empty(0, np.int16)))
    assert (np.diff(trace) > -1e-7).all()
    assert trace[-1] > trace[0] + 1


@pytest.mark.slow
def test_recovery_of_a_family_and_of_hard_items() -> None:
    k, family = 3, np.array([0, 0, 0, 1, 2, 3, 4])
    table = np.full((k, k), 0.1) + 0.7 * np.eye(k)
    guess = 0.3 * table + 0.7 / k
    true = JudgeModel(
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
    np.testing.assert_allclose(model.lam_a[:3], true.lam_a[:3], atol=0.12)
    np.testing.assert_allclose(model.confusion, true.confusion, atol=0.08)
    best = true.posterior(votes)
    assert (posterior.argmax(axis=1) == truth).mean() > (best.argmax(axis=1) == truth).mean() - 0.01
