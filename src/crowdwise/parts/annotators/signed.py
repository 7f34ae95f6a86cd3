"""Annotators as signed weights of their votes, one weight per edge of the graph (KOS).

A vote for label l speaks for class k by sign(l, k) = 1 if l = k else -1 / (K - 1), so that a random
vote speaks for nothing; for two classes these are KOS's +1 and -1. Its weight is the message of its
annotator, which leaves the item itself out; on an item never seen, the annotator's full sum.

    log q_nk = log prior_k + scale * sum over votes e on n of sign(y_e, k) weight_e + const

The weights are scores, not log-likelihoods; `scale` makes the average vote count as much as the log-odds of
the crowd's agreement with the labels.

Symbols
-------
weight_p : [P]   message along each pair of the fit
weight_a : [A]   the same without leaving an item out
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable, within
from crowdwise.kernels.numerics import segment_sum, softmax_into
from crowdwise.kernels.pairs import find_pairs
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import SetByMethod, taken, voted_rows

__all__ = ["SignedVotes"]


@storable
@dataclass(frozen=True, eq=False)
class SignedVotes(SetByMethod):
    """Messages of one fit, with the pairs they belong to; `typical` is the weight of one never seen."""

    shapes: ClassVar[dict[str, str]] = {"item": "p", "annotator": "p", "who": "a", "what": "n", "weight_a": "b"}
    item: Integers
    annotator: Integers
    weight_p: Floats
    weight_a: Floats
    typical: float
    scale: float
    who: Integers
    what: Integers

    def fits(self, votes: Annotations) -> bool:
        """Whether indices read from a file stay within their arrays."""
        return (
            within(self.annotator, 0, n_people := len(self.weight_a))
            and within(self.who, -1, n_people)
            and bool((self.item >= 0).all())
        )

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """Softmax of the scaled scores; a score has no evidence."""
        against, gain = self._evidence(votes, np.arange(votes.n_votes))
        scores = votes.by_class(gain)
        scores += segment_sum(votes.item, against, votes.n_items)[:, None]
        _, change = softmax_into(scores + log_prior, known, posterior)
        return 0.0, change

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """What each vote adds to the log-odds, [len(index), K]."""
        return voted_rows(votes, index, *self._evidence(votes, index))

    def aligned(self, index: Integers, item_index: Integers) -> SignedVotes:
        """Reorder; an annotator never seen has the typical weight."""
        return replace(self, who=taken(self.who, index, -1), what=taken(self.what, item_index, -1))

    def _evidence(self, votes: Annotations, index: Integers) -> tuple[Floats, Floats]:
        """What each vote says of every class it does not name, and how much more of the one it names."""
        what, who = self.what[votes.item[index]], self.who[votes.annotator[index]]
        at = find_pairs(what, who, self.item, self.annotator)
        weight = np.where(at >= 0, np.append(self.weight_p, 0.0)[at], np.append(self.weight_a, self.typical)[who])
        weight = self.scale * (weight if votes.weight is None else weight * votes.weight[index])
        others = max(votes.n_classes - 1, 1)
        return -weight / others, weight * (1 + 1 / others)
