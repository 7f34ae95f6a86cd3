"""How well probabilities put the items of one class before those of another: the area under the ROC curve, by ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["ClassRanks", "class_ranks"]

# Bits of a probability that count, about twelve digits: equal votes summed in another order differ by less. Relative to the
# probability, because near zero the sizes 1e-11 and 1e-13 are an order and no tie.
_BITS = 40


@dataclass(frozen=True, eq=False)
class ClassRanks:
    """The places of items in the order of every class's probability.

    Attributes
    ----------
    truth : [n]
    n_classes : int
    columns : tuple of int
        The classes whose probabilities are looked at. Of two classes the second is enough: the first has the rest.
    place : list of [n]
        Per column, the place of the item's probability among the different ones, rising; equal ones share a place.
    """

    truth: Integers
    n_classes: int
    columns: tuple[int, ...]
    place: list[Integers]

    def auc(self, weight: Floats) -> float:
        """Mean over pairs of classes of items that count `weight` [n] times each; NaN where fewer than two classes count."""
        size_k = np.bincount(self.truth, weight, minlength=self.n_classes)
        shares = []
        for k, place in zip(self.columns, self.place, strict=True):
            others = (size_k > 0) & (np.arange(self.n_classes) != k)
            if size_k[k] == 0 or not others.any():
                continue
            own_n = self.truth == k
            at = np.bincount(place[own_n], weight[own_n], minlength=place.max() + 1)
            # Of the items of class k: those that lie above each item, and half of those beside it.
            above = size_k[k] - np.cumsum(at) + at / 2
            won_k = np.bincount(self.truth, weight * above[place], minlength=self.n_classes)
            shares.append(won_k[others] / (size_k[k] * size_k[others]))
        return float(np.concatenate(shares).mean()) if shares else float("nan")


def class_ranks(posterior: Floats, truth: Integers) -> ClassRanks:
    """Sort the items of a posterior, [n, K], whose classes, [n], are all known: once, for all weights."""
    n_classes = posterior.shape[1]
    columns = (1,) if n_classes == 2 else tuple(range(n_classes))
    place = [np.unique(_without_rounding_errors(posterior[:, k]), return_inverse=True)[1] for k in columns]
    return ClassRanks(truth, n_classes, columns, place)


def _without_rounding_errors(values: Floats) -> Floats:
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(np.ldexp(fraction, _BITS)), exponent - _BITS))
