"""MBEM: its step by hand, its agreement with EM where votes are many, and a crowd with one vote per item."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, random_logits, small_crowd, some_votes, votes_on

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.alternating import AlternatingHead
from crowdwise.estimator.loading import load
from crowdwise.methods.classify.mbem import MBEM
from crowdwise.parts.annotators.model import Confusion
from crowdwise.parts.heads.bootstrap import BootstrapHead

FAST: dict[str, Any] = {"epochs": 3, "batch_size": 32}


def untaught(votes: Annotations, pseudo: float = 0.5) -> Confusion:
    shape = (1, votes.n_classes, votes.n_classes)
    return Confusion.start(np.full(shape, pseudo), votes.n_annotators)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_step_is_that_of_the_paper_by_hand(weighted: bool) -> None:
    votes = some_votes(weighted=weighted)
    guess = np.array([0, 2, 1, 0, 2])
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    head = BootstrapHead(votes, untaught(votes), np.eye(3)[guess], torch.float64)
    counts = np.full((3, 3, 3), 0.5)
    for e in range(votes.n_votes):
        counts[votes.annotator[e], guess[votes.item[e]], votes.label[e]] += weight[e]
    confusion = counts / counts.sum(2, keepdims=True)
    np.testing.assert_allclose(head.confusion(), confusion, rtol=1e-12)
    expected = np.ones((5, 3))
    for e in range(votes.n_votes):
        expected[votes.item[e]] *= confusion[votes.annotator[e], :, votes.label[e]] ** weight[e]
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(head.target, expected, rtol=1e-9)
    logits, batch = random_logits(0, 5, 3), batch_of(votes)
    f = logits.softmax(1).numpy()
    loss = -np.mean([sum(expected[n, k] * math.log(f[n, k]) for k in range(3)) for n in range(5)])
    assert head.loss(logits, batch).item() == pytest.approx(loss, rel=1e-12)


def test_known_labels_judge_annotators_instead_of_predictions() -> None:
    votes = Annotations.from_arrays([0, 1, 1], [0, 0, 1], [1, 0, 1], items=range(2), annotators=range(2), classes=range(2))
    votes = votes.with_gold({0: 1})
    head = BootstrapHead(votes, untaught(votes, 1.0), np.eye(2)[[0, 0]], torch.float64)
    # Annotator 0: said 1 of the known 1, and 0 of what is predicted as 0.
    np.testing.assert_allclose(head.confusion()[0], [[2 / 3, 1 / 3], [1 / 3, 2 / 3]])
    np.testing.assert_array_equal(head.target[0], [0, 1])


def test_with_many_votes_the_labels_are_those_of_em() -> None:
    """Forty votes on an item leave the network no say: MBEM and AggNet have one fixed point."""
    truth = np.arange(30) % 3
    votes = votes_on(truth, even(40, 3, 0.7))
    sure = torch.tensor(np.eye(3)[truth]).clamp(min=0.05).log().log_softmax(1)
    em = AlternatingHead(votes, untaught(votes), torch.tensor(np.eye(3)[truth]))
    for epoch in range(5):
        em.begin_epoch(epoch, lambda: sure)
    head = BootstrapHead(votes, untaught(votes), np.eye(3)[truth], torch.float64)
    np.testing.assert_allclose(head.target, em.target, atol=1e-6)
    np.testing.assert_allclose(head.confusion(), em.confusion(), atol=1e-6)


# -- the classifier ----------------------------------------------------------------------------


def test_a_second_round_learns_the_labels_of_the_first_rounds_predictions() -> None:
    features, votes = small_crowd()
    with quiet():
        first = MBEM(**FAST, rounds=1, validation=0.0).fit(features, votes)
        second = MBEM(**FAST, rounds=2, validation=0.0).fit(features, votes)
    guess = np.eye(3)[first.network_(torch.tensor(features)).argmax(1).numpy()]
    expected = BootstrapHead(votes, second._annotators(votes, guess), guess, torch.float64)
    np.testing.assert_allclose(second.head_.target, expected.target, rtol=1e-9)
    # The matrices that are shown are counted under what the last network predicts.
    last = np.eye(3)[second.predict_proba(features).argmax(1)]
    shown = BootstrapHead(votes, second._annotators(votes, last), last, torch.float64).confusion()
    np.testing.assert_allclose(second.confusion_, shown, rtol=1e-9)


def test_a_run_resumes_in_its_second_round_to_the_same_bits_and_is_saved(tmp_path: Any) -> None:
    features, votes = small_crowd()
    calls = [0]

    def stop(*given: Any) -> None:
        calls[0] += 1
        if calls[0] == 5:
            raise KeyboardInterrupt

    settings = FAST | {"validation": 0.0, "checkpoint": tmp_path / "run"}
    with quiet():
        whole = MBEM(**(settings | {"checkpoint": None})).fit(features, votes)
        with pytest.raises(KeyboardInterrupt):
            MBEM(**settings).fit(features, votes, progress=stop)
        assert [path.name for path in tmp_path.iterdir()] == ["run.round1"]
        resumed = MBEM(**settings).fit(features, votes)
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(resumed.predict_proba(features), whole.predict_proba(features))
    resumed.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(features), whole.predict_proba(features))


def one_vote_each(seed: int = 0) -> tuple[np.ndarray, np.ndarray, Annotations]:
    """Ten annotators, four of them right in 19 of 20 votes and six guessing; one vote per item of the first 600."""
    features, truth = blobs(seed, 900, 3, gap=2.5)
    rng = np.random.default_rng(seed)
    who = rng.integers(0, 10, 600)
    right = rng.random(600) < np.where(who < 4, 0.95, 1 / 3)
    label = np.where(right, truth[:600], (truth[:600] + rng.integers(1, 3, 600)) % 3)
    return features, truth, Annotations.from_arrays(np.arange(600), who, label, annotators=range(10), classes=range(3))


@pytest.mark.slow
def test_one_vote_per_item_is_enough_to_tell_who_guesses() -> None:
    """One round learns the votes as they are: two stages with majority vote."""
    settings = {"epochs": 40, "validation": 0.0, "learning_rate": 5e-3, "init": "identity"}
    right = np.zeros((2, 2))
    for seed in range(2):
        features, truth, votes = one_vote_each(seed)
        with quiet():
            models = [MBEM(**settings, rounds=rounds).fit(features[:600], votes) for rounds in (1, 2)]
        right[seed] = [(model.predict(features[600:]) == truth[600:]).mean() for model in models]
        accuracy = models[1].confusion_.diagonal(axis1=1, axis2=2).mean(1)
        assert accuracy[:4].min() > accuracy[4:].max() + 0.1
    assert right[:, 1].mean() > right[:, 0].mean() + 0.01
