"""Made-up answers on pairs, to try methods on where the truth is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.data.similarities import Similarities
from crowdwise.kernels.types import Array, Floats

__all__ = ["simulate_pairs"]


def simulate_pairs(
    truth: ArrayLike,
    n_answers: int,
    n_annotators: int = 20,
    *,
    hit: tuple[float, float] = (0.7, 0.95),
    false_alarm: tuple[float, float] = (0.05, 0.3),
    balanced: bool = False,
    random_state: int = 0,
) -> tuple[Similarities, Floats, Floats]:
    """Answers on random pairs of items whose true clusters are given.

    Parameters
    ----------
    truth : [N]
        True cluster of every item; items are called 0, 1, ...
    hit, false_alarm : (low, high)
        Ranges of the annotators' rates, drawn evenly.
    balanced : bool
        Ask about linked pairs half of the time, rather than as often as chance has them.

    Returns
    -------
    (Similarities, hit rates [A], false-alarm rates [A])

    Examples
    --------
    >>> votes, hits, alarms = simulate_pairs([0, 0, 1, 1], 10, 3)
    >>> votes.n_votes, len(hits)
    (10, 3)
    """
    rng = np.random.default_rng(random_state)
    labels = np.unique(np.asarray(truth), return_inverse=True)[1]
    size = len(labels)
    first = rng.integers(0, size, n_answers)
    second = (first + rng.integers(1, size, n_answers)) % size
    if balanced:
        _link_half(first, second, labels, rng)
    who = rng.integers(0, n_annotators, n_answers)
    hits, alarms = rng.uniform(*hit, n_annotators), rng.uniform(*false_alarm, n_annotators)
    share = np.where(labels[first] == labels[second], hits[who], alarms[who])
    same = (rng.random(n_answers) < share).astype(int)
    votes = Similarities.from_arrays(first, second, who, same, items=np.arange(size).tolist())
    # Only annotators who answered are in the vocabulary.
    seen = votes.annotators.astype(int)
    return votes, hits[seen], alarms[seen]


def _link_half(first: Array, second: Array, labels: Array, rng: np.random.Generator) -> None:
    """Replace the second item of half the pairs by another one of the same cluster, in place."""
    order = np.argsort(labels, kind="stable")
    size = np.bincount(labels)
    begin = np.concatenate([[0], np.cumsum(size)])[labels]
    place = np.empty(len(labels), int)
    place[order] = np.arange(len(labels))
    chosen = np.flatnonzero((rng.random(len(first)) < 0.5) & (size[labels[first]] > 1))
    mate = first[chosen]
    step = 1 + (rng.random(len(mate)) * (size[labels[mate]] - 1)).astype(int)
    second[chosen] = order[begin[mate] + (place[mate] - begin[mate] + step) % size[labels[mate]]]
