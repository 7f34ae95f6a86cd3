from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.trust.crowd.crowds import draw, symmetric

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, SettingError
from crowdwise.trust.crowd import jaffe


def crowd(n_items: int = 4000) -> Annotations:
    """Three groups of four, each of which sees an answer of its own; two classes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=n_items)
    labels = []
    for _ in range(3):
        seen = draw(rng, symmetric(0.75, 2)[truth])
        labels += [draw(rng, symmetric(0.9, 2)[seen]) for _ in range(4)]
    return Annotations.from_matrix(np.column_stack(labels), annotators=range(12))


def test_scores_by_a_loop_over_all_four() -> None:
    votes = crowd(60)
    table = np.empty((60, 12))
    table[votes.item, votes.annotator] = 2.0 * votes.label - 1
    q = np.cov(table.T, bias=True)
    found = jaffe.pair_scores(votes)
    for a, b in ((0, 1), (3, 7)):
        others = [c for c in range(12) if c not in (a, b)]
        expected = sum(abs(q[a, b] * q[c, d] - q[a, d] * q[c, b]) for c, d in product(others, repeat=2) if c != d)
        assert found[a, b] == pytest.approx(expected)
    np.testing.assert_array_equal(found, found.T)


def test_groups_are_the_clusters_of_the_scores() -> None:
    found = jaffe.groups(crowd(), 3)
    codes = [found[a] for a in range(12)]
    assert [len(set(codes[start : start + 4])) for start in (0, 4, 8)] == [1, 1, 1]
    assert len(set(codes)) == 3


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(InputError, match="needs two classes"):
        jaffe.pair_scores(Annotations.from_arrays([0, 0, 1], ["x", "y", "x"], ["a", "b", "c"]))
    with pytest.raises(SettingError, match="n_groups"):
        jaffe.groups(crowd(20), 13)
