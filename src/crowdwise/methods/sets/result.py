"""What a fit to sets of labels returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.data.label_sets import NONE
from crowdwise.data.storable import storable
from crowdwise.estimator.outcome import Outcome
from crowdwise.kernels.types import Flags, Floats

if TYPE_CHECKING:
    from crowdwise.data.label_sets import LabelSets
    from crowdwise.methods.sets.patterns import Patterns

__all__ = ["InferredSets"]


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class InferredSets(Outcome):
    """The labels of every item, and how good annotators are; see also `Outcome`.

    Attributes
    ----------
    votes : LabelSets
    probability : [N, K]
        That a label applies to an item.
    chosen : [N, K]
        Whether it is at least the threshold.
    set_probability : [N]
        Probability that the chosen set is right as a whole.
    sensitivity, specificity : [A, K]
        How often an annotator chooses a label that applies, and leaves out one that does not.
    share : [K]
        Share of items that a label applies to.
    patterns : Patterns
        Labels that go together.
    """

    votes: LabelSets
    probability: Floats
    chosen: Flags
    set_probability: Floats
    sensitivity: Floats
    specificity: Floats
    share: Floats
    patterns: Patterns

    def sound(self) -> bool:
        """Whether the arrays of saved sets agree with each other."""
        answers = self.votes
        items, people = (answers.n_items, answers.n_labels), (answers.n_annotators, answers.n_labels)
        return (
            self.probability.shape == self.chosen.shape == items
            and self.set_probability.shape == items[:1]
            and self.sensitivity.shape == self.specificity.shape == people
            and self.share.shape == items[1:]
        )

    @property
    def sets(self) -> list[frozenset[Any]]:
        """The chosen labels of every item, [N]."""
        return [frozenset(self.votes.labels[row].tolist()) for row in self.chosen]

    def items_frame(self, separator: str = "|", probabilities: bool = True) -> pl.DataFrame:
        """One row per item: labels or "none", the probability of exactly this set, answers, a note, and p(label) columns."""
        answers = self.votes
        names = np.array([str(name) for name in answers.labels], dtype=object)
        columns: dict[str, Any] = {
            "item": series_of(answers.items),
            "label": pl.Series([separator.join(names[row]) or NONE for row in self.chosen], dtype=pl.String),
            "confidence": self.set_probability,
            "n_votes": answers.votes_per_item,
            "note": np.where(answers.votes_per_item == 0, "no answers", ""),
        }
        if probabilities:
            columns |= {f"p({name})": self.probability[:, k] for k, name in enumerate(names)}
        return pl.DataFrame(columns)

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator: answers, and sensitivity and specificity over the labels by their shares."""
        answers, share = self.votes, self.share
        on, off = share / max(share.sum(), 1e-300), (1 - share) / max((1 - share).sum(), 1e-300)
        return pl.DataFrame(
            {
                "annotator": series_of(answers.annotators),
                "n_votes": answers.votes_per_annotator,
                "sensitivity": self.sensitivity @ on,
                "specificity": self.specificity @ off,
            }
        )

    def labels_frame(self) -> pl.DataFrame:
        """One row per annotator and label: sensitivity and specificity."""
        a, k = (index.ravel() for index in np.indices(self.sensitivity.shape))
        return pl.DataFrame(
            {
                "annotator": series_of(self.votes.annotators)[a],
                "label": series_of(self.votes.labels)[k],
                "sensitivity": self.sensitivity.ravel(),
                "specificity": self.specificity.ravel(),
            }
        )
