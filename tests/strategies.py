"""Hypothesis strategies that several test files share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from crowdwise.data.annotations import Annotations


@st.composite
def small_votes(
    draw: st.DrawFn,
    max_items: int = 6,
    max_annotators: int = 4,
    max_classes: int = 3,
    allow_empty_items: bool = True,
    repeats: bool = True,
    min_classes: int = 1,
) -> Annotations:
    """Draw votes on a few items, named i0, i1, ...; a0, ...; c0, ....

    With `allow_empty_items`, items (and annotators) may have no votes and there may be no vote at
    all; otherwise every item has one. With `repeats`, an annotator may vote on an item twice.
    """
    n_items = draw(st.integers(1, max_items))
    n_annotators = draw(st.integers(1, max_annotators))
    n_classes = draw(st.integers(min_classes, max_classes))
    # A vote is one number, since every number drawn takes time: item * A * K + annotator * K + label.
    by_item = n_annotators * n_classes
    unique = None if repeats else (lambda vote: vote // n_classes)
    votes = draw(st.lists(st.integers(0, n_items * by_item - 1), max_size=2 * n_items * n_annotators, unique_by=unique))
    if not allow_empty_items:
        voted = {vote // by_item for vote in votes}
        votes += [n * by_item + draw(st.integers(0, by_item - 1)) for n in range(n_items) if n not in voted]
    codes = np.unravel_index(np.array(votes, dtype=np.int64), (n_items, n_annotators, n_classes))
    names = [
        np.array([f"{prefix}{i}" for i in range(size)], dtype=object)
        for prefix, size in (("i", n_items), ("a", n_annotators), ("c", n_classes))
    ]
    # From codes: thousands of examples need no look-up of names, which has tests of its own.
    return Annotations.from_codes(*codes, *names)


def edges(votes: Annotations) -> list[tuple[object, object, object]]:
    """Return the votes by name, sorted: what must survive every change of representation."""
    return sorted(
        zip(votes.items[votes.item], votes.annotators[votes.annotator], votes.classes[votes.label], strict=True), key=repr
    )
