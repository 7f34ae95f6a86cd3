"""Paired bootstrap over items: every method is measured on the same resamples, so that differences have intervals too.

A resample is a count per item. All measures are functions of weighted items, so none of them needs the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.known_items import TIE
from crowdwise.trust.metrics import FLOOR
from crowdwise.trust.ranking import ClassRanks, class_ranks

__all__ = ["ItemScores", "bootstrap", "item_scores", "n_resamples_for"]


N_BINS = 15
# Items times resamples: some ten seconds per method.
_WORK = 50_000_000


@dataclass(frozen=True, eq=False)
class ItemScores:
    """What a posterior says of items with a known class, reduced to what the measures need.

    Attributes
    ----------
    truth : [n]
    right : [n]
        Share of the true class among those tied for the highest probability.
    surprise : [n]
        ``-log q(true class)``.
    chosen : sparse [n, K]
        1/m at the m classes tied for the highest probability.
    group : [n]
        Place of the item's confidence among `confidence`.
    confidence : [G]
        The different confidences, rising.
    ranks : ClassRanks
        The order of the items by every class's probability.
    """

    truth: Integers
    right: Floats
    surprise: Floats
    chosen: Any
    group: Integers
    confidence: Floats
    ranks: ClassRanks

    def measure(self, weight: Floats) -> Floats:
        """Accuracy, macro F1, AUC, log loss and ECE of items that count `weight` [n] times, as `trust.metrics` has them."""
        total = weight.sum()
        return np.array(
            [
                (weight @ self.right) / total,
                self._macro_f1(weight),
                self.ranks.auc(weight),
                (weight @ self.surprise) / total,
                self._ece(weight, total),
            ]
        )

    def _macro_f1(self, weight: Floats) -> float:
        n_classes = self.chosen.shape[1]
        hits = np.bincount(self.truth, weight * self.right, minlength=n_classes)
        size = weight @ self.chosen + np.bincount(self.truth, weight, minlength=n_classes)
        return float((2 * hits[size > 0] / size[size > 0]).mean())

    def _ece(self, weight: Floats, total: float) -> float:
        """Sorted by confidence, the summed gap between accuracy and confidence is piecewise linear; bins are cuts of it."""
        size = np.bincount(self.group, weight, minlength=len(self.confidence))
        gap = np.bincount(self.group, weight * self.right, minlength=len(self.confidence)) - self.confidence * size
        n = round(total)
        cuts = np.unique(np.linspace(0, n, min(N_BINS, n) + 1).astype(int))
        summed = np.interp(cuts, np.append(0, np.cumsum(size)), np.append(0, np.cumsum(gap)))
        return float(np.abs(np.diff(summed)).sum() / total)


def item_scores(posterior: Floats, truth: Integers) -> ItemScores:
    """Reduce a posterior, [n, K], of items whose classes, [n], are all known."""
    from scipy.sparse import csr_array

    best = posterior >= posterior.max(axis=1, keepdims=True) - TIE
    chosen = best / best.sum(axis=1, keepdims=True)
    every = np.arange(len(truth))
    # Rounded as in `crowdwise.trust.metrics.ece`.
    confidence, group = np.unique(np.round(posterior.max(axis=1), 9), return_inverse=True)
    return ItemScores(
        truth=truth,
        right=chosen[every, truth],
        surprise=-np.log(np.maximum(posterior[every, truth], FLOOR)),
        chosen=csr_array(chosen),
        group=group,
        confidence=confidence,
        ranks=class_ranks(posterior, truth),
    )


def n_resamples_for(n_items: int, most: int) -> int:
    """Resamples to draw: fewer on very many items, where intervals are narrow and each takes long."""
    return int(np.clip(_WORK // max(n_items, 1), min(200, most), most))


def bootstrap(
    measures: Sequence[Callable[[Floats], Floats]], n_items: int, n_resamples: int, random_state: int | None
) -> Floats:
    """Measures under the same resamples of items, [n_resamples, methods, values].

    Parameters
    ----------
    measures : sequence of callables
        From a count per item, [n_items], to values; one callable per method, as many values each.
    """
    rng = np.random.default_rng(random_state)
    drawn = []
    for _ in range(n_resamples):
        weight = np.bincount(rng.integers(n_items, size=n_items), minlength=n_items).astype(float)
        drawn.append([measure(weight) for measure in measures])
    return np.asarray(drawn)
