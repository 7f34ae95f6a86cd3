"""Crowds of classifiers and the simulated crowd have the sizes, shares and error rates that the page names."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def machine_crowds():
    from benchmarks.papers import machine_crowds

    return machine_crowds


def test_every_item_is_answered_by_fifteen_classifiers_that_never_saw_it(machine_crowds):
    votes, truth = machine_crowds.machines("digits", 0, 50, 0)
    assert (votes.n_items, votes.n_annotators, votes.n_classes) == (1797 - 150, 15, 10)
    assert (votes.votes_per_item == 15).all()
    right = np.bincount(votes.annotator, votes.label == truth[votes.item]) / votes.n_items
    # Better than guessing, and not the truth itself.
    assert right.min() > 0.2
    assert right.max() < 0.97


def test_classes_have_the_shares_of_the_sets_they_are_like(machine_crowds):
    _, truth = machine_crowds.made("covertype-like", 20_000, 0)
    # 283,301 of 581,012 and 2,747 of 581,012 items of CoverType.
    assert np.mean(truth == 1) == pytest.approx(0.4876, abs=0.01)
    assert np.mean(truth == 3) == pytest.approx(0.0047, abs=0.002)


def test_weak_annotators_lie_in_their_span_and_nobody_is_left_without_a_vote(machine_crowds, monkeypatch):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10, 3000)
    centres = rng.standard_normal((10, 20)) * 2
    X = centres[truth] + rng.standard_normal((3000, 20))
    monkeypatch.setattr(machine_crowds, "digits", lambda: (X[:2500], truth[:2500], X[2500:], truth[2500:]))
    crowd = machine_crowds.weak_digits(4, 500, 0, 0.5, (0.2, 0.8))
    edges = np.linspace(0.2, 0.8, 5)
    # Each is chosen by its accuracy on 2,000 items and judged here on the half that it answered: 4 standard errors.
    assert (crowd.right > edges[:-1] - 0.064).all()
    assert (crowd.right < edges[1:] + 0.064).all()
    assert crowd.votes.votes_per_item.min() >= 1
    assert crowd.votes.n_items == len(crowd.truth) == len(crowd.X) < 2000


def test_votes_of_the_simulated_crowd_are_wrong_as_often_as_asked(machine_crowds):
    crowd = machine_crowds.similar_classes(machine_crowds.Size(items=6000, tested=10), 0)
    wrong = np.mean(crowd.votes.label != crowd.truth[crowd.votes.item])
    # 18,000 votes: 4 standard errors of a share of 0.43 are 0.015; items without meaning come in threes.
    assert wrong == pytest.approx(0.4268, abs=0.02)
    assert (crowd.votes.votes_per_item == 3).all()
    assert (crowd.votes.n_annotators, crowd.votes.n_classes) == (100, 15)
