"""KOS against its definition in plain loops, the singular vector it tends to, and crowds it must solve."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd
from tests.methods.labels.regular import accuracy_with_ties, regular_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.kos import KOS
from crowdwise.methods.labels.majority import MajorityVote


def direct_scores(votes: Annotations, rounds: int, seed: int) -> np.ndarray:
    """Sum of Y y over each item's edges after the rounds of the paper, unscaled; two classes, one vote per pair."""
    sign = 2.0 * votes.label - 1
    y = np.random.default_rng(seed).normal(1, 1, votes.n_votes)
    for _ in range(rounds):
        x, new = np.zeros(votes.n_votes), np.zeros(votes.n_votes)
        for e in range(votes.n_votes):
            for o in range(votes.n_votes):
                if o != e and votes.item[o] == votes.item[e]:
                    x[e] += sign[o] * y[o]
        for e in range(votes.n_votes):
            for o in range(votes.n_votes):
                if o != e and votes.annotator[o] == votes.annotator[e]:
                    new[e] += sign[o] * x[o]
        y = new
    return np.bincount(votes.item, weights=sign * y, minlength=votes.n_items) * np.sign(y.sum())


@pytest.mark.parametrize("rounds", [1, 2, 10])
def test_two_classes_follow_the_paper(rounds: int) -> None:
    votes, _ = crowd(1, 12, diagonal_crowd(6, 2, 0.75), votes_per_item=3)
    q = KOS(rounds=rounds, random_state=3).fit(votes).result_.model_posterior
    found, expected = np.log(q[:, 1] / q[:, 0]), direct_scores(votes, rounds, 3)
    np.testing.assert_allclose(found / np.abs(found).max(), expected / np.abs(expected).max(), atol=1e-12)


def test_on_a_full_table_it_tends_to_the_top_singular_vector() -> None:
    votes, _ = crowd(2, 300, diagonal_crowd(40, 2, 0.65))
    table = 2.0 * np.asarray(votes.to_matrix(), float) - 1
    left, _, _ = np.linalg.svd(table, full_matrices=False)
    q = KOS(rounds=30).fit(votes).result_.model_posterior
    score = np.log(q[:, 1] / q[:, 0])
    assert abs(np.corrcoef(score, left[:, 0])[0, 1]) > 0.99


def test_recovers_hammers_and_adversaries_that_mislead_a_majority() -> None:
    # Aggregation notes: BP reaches 98.5 % here and majority 74 %.
    votes, truth = regular_crowd(0, 1000, 3, 4, (0.2, 0.1))
    assert accuracy_with_ties(KOS().fit(votes).result_.model_posterior, truth) > 0.96
    assert accuracy_with_ties(MajorityVote().fit(votes).result_.model_posterior, truth) < 0.8


@pytest.mark.parametrize("n_classes", [3, 10])
def test_more_classes_beat_majority_where_annotators_differ(n_classes: int) -> None:
    accuracy = np.concatenate([np.full(20, 0.9), np.full(40, 1.5 / n_classes)])
    confusion = np.where(
        np.eye(n_classes, dtype=bool), accuracy[:, None, None], (1 - accuracy[:, None, None]) / (n_classes - 1)
    )
    votes, truth = crowd(4, 600, confusion, votes_per_item=6)
    ours, theirs = ((model.fit(votes).labels_ == truth).mean() for model in (KOS(), MajorityVote()))
    assert ours > theirs + 0.03


def test_relabelling_classes_permutes_the_result() -> None:
    votes, _ = crowd(5, 50, diagonal_crowd(8, 3, 0.7), votes_per_item=4)
    first, second = KOS().fit(votes), KOS().fit(votes.with_classes([2, 0, 1]))
    np.testing.assert_allclose(first.result_.model_posterior[:, [2, 0, 1]], second.result_.model_posterior, atol=1e-10)


def test_known_labels_teach_about_annotators() -> None:
    # Two camps that disagree everywhere; the known labels side with the smaller one.
    item, annotator = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
    truth = np.arange(40) % 2
    label = np.where(annotator < 2, truth[item], 1 - truth[item])
    votes = Annotations.from_arrays(item, annotator, label, classes=[0, 1])
    assert (KOS().fit(votes).labels_ == truth).mean() == 0
    known = KOS().fit(votes, gold={n: int(truth[n]) for n in range(30)})
    assert (known.labels_ == truth).mean() == 1
    history = {a: (60, 0) if a < 2 else (0, 60) for a in range(5)}
    assert (KOS().fit(votes, history=history).labels_ == truth).mean() == 1


def test_the_seed_moves_scores_and_few_labels() -> None:
    votes, truth = crowd(6, 200, diagonal_crowd(20, 2, 0.8), votes_per_item=5)
    first, second = (KOS(random_state=seed).fit(votes) for seed in (0, 1))
    assert not np.allclose(first.result_.model_posterior, second.result_.model_posterior, atol=1e-9)
    assert (first.labels_ == second.labels_).mean() > 0.95
    assert (first.labels_ == truth).mean() > 0.9
