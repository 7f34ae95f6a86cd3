"""Whether votes can carry a comparison."""

from __future__ import annotations

import numpy as np
from tests.methods.labels.helpers import crowd, diagonal_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.trust.choice.data_check import not_comparable


def test_a_full_table_of_votes_carries_a_comparison() -> None:
    votes, _ = crowd(0, 40, diagonal_crowd(5, 3, 0.8))
    assert not_comparable(votes) == ""


def test_few_votes_in_company_carry_no_comparison() -> None:
    votes, _ = crowd(0, 39, diagonal_crowd(5, 3, 0.8))
    assert "195 votes" in not_comparable(votes)
    # Alone on their items, votes predict nothing of each other.
    alone = Annotations.from_arrays(range(1000), np.arange(1000) % 7, np.arange(1000) % 2)
    assert "only 0 votes" in not_comparable(alone)


def test_votes_without_weight_do_not_count() -> None:
    votes, _ = crowd(0, 100, diagonal_crowd(5, 3, 0.8))
    weight = (votes.item < 39).astype(float)
    weighted = Annotations.from_arrays(votes.item, votes.annotator, votes.label, weight)
    assert "195 votes" in not_comparable(weighted)


def test_one_class_carries_nothing() -> None:
    votes = Annotations.from_arrays(np.repeat(range(100), 3), [0, 1, 2] * 100, ["yes"] * 300)
    assert not_comparable(votes) == "there is one class only"
