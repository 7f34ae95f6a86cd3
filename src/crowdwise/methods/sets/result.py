"""What a fit to sets of labels returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.data.storable import storable
from crowdwise.estimator.outcome import Outcome
from crowdwise.kernels.types import Flags, Floats

if TYPE_CHECKING:
    from crowdwise.data.label_sets import LabelSets
    from crowdwise.methods.sets.patterns import Patterns

__all__ = ["EMPTY", "InferredSets"]

#: How the empty set is written: no label is called so, and every reader of sets takes it for what it is.
EMPTY = "[]"


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class InferredSets(Outcome):
    """The labels of every item, and how good annotators are; see also `Outcome`.

    Attributes
    ----------
    votes : LabelSets
    probability : [N, K]
        That a label applies to an item, as far as it can be believed.
    inferred : [N, K] or None
        The same as the model inferred it, where `probability` was calibrated since.
    confidence_source : str
        What `probability` rests on: "experience" with other crowds, or "model" (nothing else).
    chosen : [N, K]
        Whether it is at least the threshold.
    set_probability : [N]
        Probability that the chosen set is right as a whole; from believed probabilities, as if labels erred independently.
        Where they exclude each other they err together, and it is too low.
    sensitivity, specificity : [A, K]
        How often an annotator chooses a label that applies, and leaves out one that does not.
    share : [K]
        Share of items that a label applies to.
    patterns : Patterns or None
        Labels that go together, where the model knows of such.
    """

    votes: LabelSets
    probability: Floats
    chosen: Flags
    set_probability: Floats
    sensitivity: Floats
    specificity: Floats
    share: Floats
    patterns: Patterns | None = None
    inferred: Floats | None = None
    confidence_source: str = "model"

    @classmethod
    def of_labels(
        cls, answers: LabelSets, threshold: float, *, probability: Floats, set_probability: Any = None, **fields: Any
    ) -> InferredSets:
        """From the probability of every label; known sets stay as they are.

        `set_probability` makes that of whole sets from those chosen; without it labels are independent.
        """
        known = answers.is_known
        if answers.known_sets is not None:
            probability = np.where(known[:, None], answers.known_sets, probability)
        # A tie goes to the label: equal answers summed in another order must not decide.
        chosen = probability >= threshold - 1e-9
        whole = np.where(chosen, probability, 1 - probability).prod(axis=1)
        if set_probability is not None:
            whole = np.where(known, whole, set_probability(chosen))
        return cls(votes=answers, probability=probability, chosen=chosen, set_probability=whole, **fields)

    def sound(self) -> bool:
        """Whether the arrays of saved sets agree with each other."""
        answers = self.votes
        items, people = (answers.n_items, answers.n_labels), (answers.n_annotators, answers.n_labels)
        return (
            self.probability.shape == self.chosen.shape == items
            and (self.inferred is None or self.inferred.shape == items)
            and self.set_probability.shape == items[:1]
            and self.sensitivity.shape == self.specificity.shape == people
            and self.share.shape == items[1:]
        )

    @property
    def sets(self) -> list[frozenset[Any]]:
        """The chosen labels of every item, [N]."""
        return [frozenset(self.votes.labels[row].tolist()) for row in self.chosen]

    @property
    def unasked(self) -> Flags:
        """Items of which nothing is known but the shares of labels: no answers and no known set, [N]."""
        return np.asarray((self.votes.votes_per_item == 0) & ~self.votes.is_known)

    def items_frame(self, separator: str = "|", probabilities: bool = True) -> pl.DataFrame:
        """One row per item: labels, the probability of exactly this set and what it rests on, answers, a note, p(label).

        The empty set is "[]". An item without answers has no labels, unless they are known; the note says "no answers" or
        "known".
        """
        answers, known, unasked = self.votes, self.votes.is_known, self.unasked
        names = np.array([str(name) for name in answers.labels], dtype=object)
        columns: dict[str, Any] = {
            "item": series_of(answers.items),
            "label": pl.Series(
                [
                    None if blank else separator.join(names[row]) or EMPTY
                    for row, blank in zip(self.chosen, unasked, strict=True)
                ],
                dtype=pl.String,
            ),
            "confidence": pl.Series(np.where(unasked, np.nan, self.set_probability)).fill_nan(None),
            "confidence_source": np.select([known, unasked], ["gold", ""], default=self.confidence_source),
            "n_votes": answers.votes_per_item,
            "note": np.select([known, unasked], ["known", "no answers"], default=""),
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
