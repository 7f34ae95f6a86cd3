"""What a fit to sets of labels returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import series_of
from crowdwise.data.frozen import ReadOnly
from crowdwise.data.label_sets import NONE

if TYPE_CHECKING:
    from crowdwise.data.label_sets import LabelSets

__all__ = ["InferredSets"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class InferredSets(ReadOnly):
    """The labels of every item, and how good annotators are.

    Attributes
    ----------
    answers : LabelSets
    method : str
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
    """

    answers: LabelSets
    method: str
    probability: Floats
    chosen: NDArray[np.bool_]
    set_probability: Floats
    sensitivity: Floats
    specificity: Floats
    share: Floats

    def __repr__(self) -> str:
        return f"InferredSets({self.method}: {self.answers.n_items} items, {self.answers.n_labels} labels)"

    @property
    def sets(self) -> list[frozenset[Any]]:
        """The chosen labels of every item, [N]."""
        return [frozenset(self.answers.labels[row].tolist()) for row in self.chosen]

    def frame(self, separator: str = "|", probabilities: bool = True) -> pl.DataFrame:
        """One row per item: labels or "none", the probability of exactly this set, answers, a note, and p(label) columns."""
        answers = self.answers
        names = np.array([str(name) for name in answers.labels], dtype=object)
        columns: dict[str, Any] = {
            "item": series_of(answers.items),
            "labels": pl.Series([separator.join(names[row]) or NONE for row in self.chosen], dtype=pl.String),
            "confidence": self.set_probability,
            "n_answers": answers.votes_per_item,
            "note": np.where(answers.votes_per_item == 0, "no answers", ""),
        }
        if probabilities:
            columns |= {f"p({name})": self.probability[:, k] for k, name in enumerate(names)}
        return pl.DataFrame(columns)

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator: answers, and sensitivity and specificity over the labels by their shares."""
        answers, share = self.answers, self.share
        on, off = share / max(share.sum(), 1e-300), (1 - share) / max((1 - share).sum(), 1e-300)
        return pl.DataFrame(
            {
                "annotator": series_of(answers.annotators),
                "n_answers": answers.votes_per_annotator,
                "sensitivity": self.sensitivity @ on,
                "specificity": self.specificity @ off,
            }
        ).sort("n_answers", descending=True, maintain_order=True)

    def labels_frame(self) -> pl.DataFrame:
        """One row per annotator and label: sensitivity and specificity."""
        a, k = (index.ravel() for index in np.indices(self.sensitivity.shape))
        return pl.DataFrame(
            {
                "annotator": series_of(self.answers.annotators)[a],
                "label": series_of(self.answers.labels)[k],
                "sensitivity": self.sensitivity.ravel(),
                "specificity": self.specificity.ravel(),
            }
        )
