"""Agreement that independent annotators with confusion matrices explain, and agreement that they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.data.simulate import simulate
from crowdwise.engines.independence import agreement_of, find
from crowdwise.engines.latent_classes import explained_by_classes

MIX = {"dirichlet": 0.7, "uniform-spammer": 0.15, "cyclic-adversary": 0.15}


def explained(votes: Annotations, code: Any) -> bool:
    answers = answers_of(votes)
    return explained_by_classes(answers, agreement_of(answers), np.asarray(code))


def adversaries(seed: int, n_items: int = 1000) -> Annotations:
    return simulate(n_items, 20, 3, 8, MIX, class_prior=[0.5, 0.3, 0.2], random_state=seed).votes


def test_adversaries_are_explained_as_a_group_or_as_the_others() -> None:
    drawn = simulate(1000, 20, 3, 8, MIX, class_prior=[0.5, 0.3, 0.2], random_state=1)
    against = (drawn.confusion.argmax(axis=2) != np.arange(3)).all(axis=1) & (drawn.confusion.max(axis=2).min(axis=1) > 0.8)
    assert against.sum() == 3
    assert explained(drawn.votes, np.where(against, 0, -1))
    assert explained(drawn.votes, np.where(against, -1, 0))


def test_a_family_is_explained_neither_as_a_group_nor_as_the_others(crowds: Any) -> None:
    """Of seven judges three share errors: the fit takes their answers for the truth, and the other four show it."""
    drawn = crowds.judges(0, 3, 4)
    assert not explained(drawn.votes, drawn.code)
    assert not explained(drawn.votes, -1 - drawn.code)


def test_repeated_votes_are_one_answer() -> None:
    votes = adversaries(2, 300)
    code = np.repeat([0, -1], [10, 10])
    assert explained(votes.concat(votes), code) == explained(votes, code)


@pytest.mark.slow
def test_adversaries_among_independent_annotators_are_no_group() -> None:
    assert not [seed for seed in range(10) if find(adversaries(seed))]
