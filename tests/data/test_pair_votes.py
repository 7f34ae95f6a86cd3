"""What votes on pairs have in common."""

from __future__ import annotations

import pytest

from crowdwise.data.comparisons import Comparisons
from crowdwise.data.pair_votes import PairVotes
from crowdwise.data.similarities import Similarities
from crowdwise.errors import InputError

KINDS = (Comparisons, Similarities)


@pytest.mark.parametrize("kind", KINDS)
def test_an_item_is_not_paired_with_itself(kind: type[PairVotes]) -> None:
    with pytest.raises(InputError, match=r"row 1: item 'x' is paired with itself"):
        kind.from_arrays(["x", "x"], ["y", "x"], ["ann", "ann"], [1, 1])


@pytest.mark.parametrize("kind", KINDS)
def test_missing_answers_are_dropped_and_counted(kind: type[PairVotes]) -> None:
    votes = kind.from_arrays(["x", "y", "x"], ["y", "z", "z"], ["ann", "bob", "cy"], ["1", None, " "])
    assert (votes.n_votes, votes.n_missing) == (1, 2)
    assert votes.items.tolist() == ["x", "y", "z"]
    assert votes.n_annotators == 3
    assert "2 missing answers dropped" in repr(votes)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_give_no_votes(kind: type[PairVotes]) -> None:
    votes = kind.from_arrays([], [], [], [])
    assert (len(votes), votes.n_items, votes.n_annotators) == (0, 0, 0)
    assert votes.to_frame().height == 0
