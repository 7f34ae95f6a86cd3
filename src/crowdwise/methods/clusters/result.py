"""What clustering returns: memberships of items, and rates of annotators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.data.similarities import Similarities
from crowdwise.data.storable import storable
from crowdwise.estimator.outcome import Outcome
from crowdwise.kernels.types import Floats, Integers

__all__ = ["ClusterResult"]


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClusterResult(Outcome):
    """Clusters and annotators; see also `Outcome`.

    Attributes
    ----------
    membership : [N, K]
        Probability of every cluster for every item; clusters are ordered by size, the largest first.
    hit, false_alarm : [A]
        How often an annotator says "same" of pairs that are linked, and of pairs that are not.
    held_out : dict
        Number of clusters -> mean log-probability of a held-out answer, where the number was chosen.
    """

    votes: Similarities
    membership: Floats
    hit: Floats
    false_alarm: Floats
    held_out: dict[int, float]

    def sound(self) -> bool:
        """Whether the arrays of saved clusters agree with each other."""
        people = (self.votes.n_annotators,)
        return (
            self.membership.ndim == 2
            and len(self.membership) == self.votes.n_items
            and self.hit.shape == self.false_alarm.shape == people
        )

    @property
    def cluster(self) -> Integers:
        """Most probable cluster of every item, counted from 1, [N]."""
        return np.asarray(self.membership.argmax(axis=1) + 1)

    def items_frame(self) -> pl.DataFrame:
        """One row per item: cluster, its probability, the number of answers, and the probability of every cluster."""
        votes = self.votes
        asked = np.bincount(votes.first, minlength=votes.n_items) + np.bincount(votes.second, minlength=votes.n_items)
        columns = {"item": series_of(votes.items), "cluster": self.cluster, "confidence": self.membership.max(axis=1)}
        shares = {f"p_{k + 1}": self.membership[:, k] for k in range(self.membership.shape[1])}
        return pl.DataFrame({**columns, "n_votes": asked, **shares})

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator: answers, hit and false-alarm rate, and their difference (0 is guessing)."""
        votes = self.votes
        return pl.DataFrame(
            {
                "annotator": series_of(votes.annotators),
                "n_votes": np.bincount(votes.annotator, minlength=votes.n_annotators),
                "hit_rate": self.hit,
                "false_alarm_rate": self.false_alarm,
                "skill": self.hit - self.false_alarm,
            }
        )
