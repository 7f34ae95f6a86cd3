"""What votes can carry."""

from __future__ import annotations

import numpy as np
from tests.methods.labels.helpers import crowd, diagonal_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.trust.choice.data_check import check_data, components


def test_a_full_table_of_votes_carries_everything() -> None:
    votes, _ = crowd(0, 100, diagonal_crowd(5, 3, 0.8))
    found = check_data(votes)
    assert (found.level, found.comparable, found.reasons) == (3, True, ())


def test_few_votes_in_company_carry_no_comparison() -> None:
    votes, _ = crowd(0, 39, diagonal_crowd(5, 3, 0.8))
    found = check_data(votes)
    assert not found.comparable
    assert found.level == 0
    assert "195 votes" in found.reasons[0]
    # Alone on their items, votes foretell nothing of each other.
    alone = Annotations.from_arrays(range(1000), np.arange(1000) % 7, np.arange(1000) % 2)
    assert "only 0 votes" in check_data(alone).reasons[0]


def test_votes_without_weight_do_not_count() -> None:
    votes, _ = crowd(0, 100, diagonal_crowd(5, 3, 0.8))
    weight = (votes.item < 39).astype(float)
    weighted = Annotations.from_arrays(votes.item, votes.annotator, votes.label, weight)
    assert not check_data(weighted).comparable


def test_one_class_carries_nothing() -> None:
    votes = Annotations.from_arrays(np.repeat(range(100), 3), [0, 1, 2] * 100, ["yes"] * 300)
    assert check_data(votes).reasons == ("there is one class only",)


def test_mostly_single_votes_carry_one_number_per_annotator() -> None:
    votes, _ = crowd(0, 100, diagonal_crowd(5, 2, 0.8))
    more = Annotations.from_arrays(np.arange(150) + 100, np.arange(150) % 5, np.arange(150) % 2)
    found = check_data(votes.concat(more))
    assert (found.level, found.comparable) == (1, True)
    assert found.reasons == ("most items have one vote",)


def test_parts_that_never_meet_are_counted_and_limit_the_models() -> None:
    first, _ = crowd(0, 60, diagonal_crowd(5, 2, 0.8))
    second, _ = crowd(1, 40, diagonal_crowd(5, 2, 0.8))
    apart = first.concat(Annotations.from_arrays(second.item + 1000, second.annotator + 100, second.label))
    np.testing.assert_allclose(np.sort(components(apart)), [0.4, 0.6])
    found = check_data(apart)
    assert found.level == 1
    assert "60%" in found.reasons[0]


def test_annotators_with_few_votes_carry_simple_models_unless_they_have_a_record() -> None:
    rng = np.random.default_rng(0)
    # Five votes per item by annotators of six votes each, on four classes: a number per class, no matrix.
    people = rng.permutation(np.repeat(np.arange(100), 6))
    votes = Annotations.from_arrays(np.repeat(np.arange(120), 5), people, rng.integers(0, 4, 600))
    found = check_data(votes)
    assert found.level == 2
    assert "at most 6 votes" in found.reasons[0]
    assert check_data(votes, has_history=True).level == 3
    eight = Annotations.from_arrays(votes.item, votes.annotator, rng.integers(0, 8, 600))
    assert check_data(eight).level == 1
    # Two votes each: nothing to learn of anybody.
    two = Annotations.from_arrays(votes.item, rng.permutation(np.repeat(np.arange(300), 2)), votes.label)
    assert check_data(two).level == 0
