"""Items with the same votes, found and counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.data.patterns import patterns_of

NONE_KNOWN = np.empty(0, np.int16)


def crowd(seed: int = 0, n_items: int = 400) -> Annotations:
    """Four annotators who answer up to three times per item: many items have the same votes, some have none."""
    rng = np.random.default_rng(seed)
    votes = [(n, a, rng.integers(3)) for n in range(n_items) for a in range(4) for _ in range(rng.integers(2)) if n % 50]
    item, annotator, label = map(list, zip(*votes, strict=True))
    return Annotations.from_arrays(item, annotator, label, items=list(range(n_items)), classes=[0, 1, 2])


def of_items(votes: Annotations, known: Any = NONE_KNOWN) -> list[tuple[Any, ...]]:
    """What makes a pattern, item by item."""
    cuts = zip(votes.item_ptr[:-1], votes.item_ptr[1:], strict=True)
    own = [tuple(zip(votes.annotator[a:b].tolist(), votes.label[a:b].tolist(), strict=True)) for a, b in cuts]
    return [(votes_of, int(known[n]) if len(known) else -1) for n, votes_of in enumerate(own)]


@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_items_are_together_exactly_if_votes_and_known_class_are_the_same(seed: int, gold: bool) -> None:
    votes = crowd(seed)
    known = np.random.default_rng(seed).integers(-1, 3, votes.n_items).astype(np.int16) if gold else NONE_KNOWN
    found = patterns_of(votes, known, most=1)
    assert found is not None
    patterns, which = found
    expected = of_items(votes, known)
    assert len(set(zip(which.tolist(), expected, strict=True))) == len(set(expected)) == patterns.n_items
    times = Counter(expected)
    np.testing.assert_array_equal(patterns.times[which], [times[each] for each in expected])
    assert [each for each, _ in of_items(patterns.take_items(which))] == [each for each, _ in expected]


def test_parts_of_patterns_know_how_often_they_occur() -> None:
    patterns, _ = patterns_of(crowd(), NONE_KNOWN, most=1) or pytest.fail("there are patterns")
    np.testing.assert_array_equal(patterns.take_items(np.array([3, 1])).times, patterns.times[[3, 1]])


def test_none_where_too_much_is_left() -> None:
    votes = crowd()
    left = patterns_of(votes, NONE_KNOWN, most=1)[0].n_votes / votes.n_votes  # type: ignore[index]
    assert patterns_of(votes, NONE_KNOWN, most=left - 1e-9) is None
    assert patterns_of(votes, NONE_KNOWN, most=left + 1e-9) is not None


def test_none_for_weighted_soft_or_no_votes() -> None:
    weighted = Annotations.from_arrays(["a", "b"], ["x", "x"], [0, 0], [1.0, 2.0])
    soft = Annotations.from_probabilities(["a", "b"], ["x", "x"], [[0.8, 0.2], [0.8, 0.2]], classes=[0, 1])
    empty = Annotations.from_arrays([], [], [], items=["a"], annotators=["x"], classes=[0, 1])
    assert all(patterns_of(votes, NONE_KNOWN, most=1) is None for votes in (weighted, soft, empty))


def test_equal_sums_of_other_votes_are_not_taken_for_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zeros:
        def integers(self, low: int, high: int, size: int, dtype: Any) -> Any:
            return np.zeros(size, dtype)

    votes = crowd()
    monkeypatch.setattr("crowdwise.data.patterns.np.random.default_rng", lambda seed: Zeros())
    assert patterns_of(votes, NONE_KNOWN, most=1) is None
