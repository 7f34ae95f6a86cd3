"""Third moments of sampled triples of annotators, for small numbers of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats, Integers

__all__ = ["Triples", "sample_triples"]


@dataclass(frozen=True, eq=False)
class Triples:
    """Annotators of each triple, [T, 3], and the counts of their labels on items that all three saw, [T, K, K, K]."""

    ends: Integers
    count: Floats

    @property
    def met(self) -> Floats:
        """N_abc, [T]."""
        return np.asarray(self.count.sum(axis=(1, 2, 3)))


def sample_triples(
    votes: Annotations, rng: np.random.Generator, per_annotator: int, min_met: float, met: Any = None
) -> Triples:
    """Draw triples that met often and count their labels exactly.

    Triples are drawn as three votes on one item, so those who share many items come up most; the
    most frequent draws, up to `per_annotator` A / 3, are counted and kept if they met `min_met` times.
    `met` says how often pairs met (sparse, [A, A]), by which most triples that did not are known before they are counted.
    """
    n_classes, n_annotators = votes.n_classes, votes.n_annotators
    weight = votes.weights
    use = np.flatnonzero(weight > 0)
    # One entry per (annotator, item, label), sorted; repeats add up.
    key = (votes.annotator[use].astype(np.int64) * votes.n_items + votes.item[use]) * n_classes + votes.label[use]
    cell, position = np.unique(key, return_inverse=True)
    count = segment_sum(position.reshape(-1), weight[use], len(cell))
    seen, label = cell // n_classes, cell % n_classes
    ends = _drawn(seen // votes.n_items, seen % votes.n_items, rng, 60 * n_annotators, per_annotator * n_annotators // 3)
    if met is not None and len(ends):
        # Sum_n c_a c_b c_c, c the votes of an annotator on item n, is at most the sum of c_a c_b times the largest c.
        largest = np.add.reduceat(count, np.flatnonzero(np.diff(seen, prepend=-1))).max()
        least = np.minimum.reduce([np.asarray(met[ends[:, i], ends[:, j]]).ravel() for i, j in ((0, 1), (0, 2), (1, 2))])
        ends = ends[least * largest >= min_met * (1 - 1e-9)]
    owner_ptr = np.searchsorted(seen, np.arange(n_annotators + 1) * votes.n_items)
    triple, at = _spread(owner_ptr[ends[:, 0]], owner_ptr[ends[:, 0] + 1])
    code, mass, item = label[at], count[at], seen[at] % votes.n_items
    for place in (1, 2):
        wanted = ends[triple, place] * votes.n_items + item
        entry, at = _spread(np.searchsorted(seen, wanted, "left"), np.searchsorted(seen, wanted, "right"))
        triple, item = triple[entry], item[entry]
        code, mass = code[entry] * n_classes + label[at], mass[entry] * count[at]
    size = n_classes**3
    counts = segment_sum(triple * size + code, mass, len(ends) * size).reshape(len(ends), n_classes, n_classes, n_classes)
    keep = counts.sum(axis=(1, 2, 3)) >= min_met
    return Triples(ends[keep], counts[keep])


def _drawn(annotator: Integers, item: Integers, rng: np.random.Generator, draws: int, most: int) -> Integers:
    """Distinct triples of annotators on one item, the most frequently drawn first, [T, 3]."""
    order = np.argsort(item, kind="stable")
    annotator, item = annotator[order], item[order]
    pointer = np.searchsorted(item, np.arange(item.max(initial=-1) + 2))
    size = np.diff(pointer)
    rich = np.flatnonzero(size >= 3)
    if len(rich) == 0:
        return np.empty((0, 3), np.int64)
    # Items by their number of triples, which makes every meeting of three equally likely.
    chance = size[rich].astype(float) ** 3
    chosen = rich[np.searchsorted(np.cumsum(chance) / chance.sum(), rng.random(draws)).clip(max=len(rich) - 1)]
    picks = np.sort(
        annotator[pointer[chosen][:, None] + (rng.random((draws, 3)) * size[chosen][:, None]).astype(np.int64)], axis=1
    )
    picks = picks[(np.diff(picks, axis=1) > 0).all(axis=1)]
    triples, times = np.unique(picks, axis=0, return_counts=True)
    return np.asarray(triples[np.argsort(-times, kind="stable")[:most]], np.int64).reshape(-1, 3)


def _spread(start: Integers, stop: Integers) -> tuple[Integers, Integers]:
    """All positions of the ranges start:stop, each with the number of its range."""
    size = stop - start
    which = np.repeat(np.arange(len(size)), size)
    return which, np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + np.repeat(start, size)
