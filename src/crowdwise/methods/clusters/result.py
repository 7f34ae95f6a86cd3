"""What clustering returns: memberships of items, and rates of annotators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import series_of
from crowdwise.data.frozen import ReadOnly
from crowdwise.data.similarities import Similarities

__all__ = ["ClusterResult"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClusterResult(ReadOnly):
    """Clusters and annotators.

    Attributes
    ----------
    membership : [N, K]
        Probability of every cluster for every item; clusters are ordered by size, the largest first.
    hit, false_alarm : [A]
        How often an annotator says "same" of pairs that are linked, and of pairs that are not.
    held_out : dict
        Number of clusters -> mean log-probability of a held-out answer, where the number was chosen.
    trace : [n_iter]
        The objective (or the loss with its sign turned) after every iteration.
    """

    method: str
    settings: dict[str, Any]
    votes: Similarities
    membership: Floats
    hit: Floats
    false_alarm: Floats
    held_out: dict[int, float]
    trace: Floats
    n_iter: int
    converged: bool

    @property
    def cluster(self) -> NDArray[np.int64]:
        """Most probable cluster of every item, counted from 1, [N]."""
        return np.asarray(self.membership.argmax(axis=1) + 1)

    def item_frame(self) -> pl.DataFrame:
        """One row per item: cluster, its probability, the number of answers, and the probability of every cluster."""
        votes = self.votes
        asked = np.bincount(votes.first, minlength=votes.n_items) + np.bincount(votes.second, minlength=votes.n_items)
        columns = {"item": series_of(votes.items), "cluster": self.cluster, "confidence": self.membership.max(axis=1)}
        shares = {f"p_{k + 1}": self.membership[:, k] for k in range(self.membership.shape[1])}
        return pl.DataFrame({**columns, "n_answers": asked, **shares})

    def annotator_frame(self) -> pl.DataFrame:
        """One row per annotator, best first: answers, hit and false-alarm rate, and their difference (0 is guessing)."""
        votes = self.votes
        return pl.DataFrame(
            {
                "annotator": series_of(votes.annotators),
                "n_answers": np.bincount(votes.annotator, minlength=votes.n_annotators),
                "hit_rate": self.hit,
                "false_alarm_rate": self.false_alarm,
                "skill": self.hit - self.false_alarm,
            }
        ).sort("skill", descending=True, maintain_order=True)
