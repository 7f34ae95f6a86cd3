"""Annotators as weights of a vote that separates the classes: max-margin majority voting.

score_n(k) = sum over the votes k on n of eta_a; eta may be negative (an adversary). Probabilities are
softmax(score / temperature), so a vote adds eta_a / temperature to the log-odds of the class it names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import SetByMethod, infer_by_votes, taken, voted_log_lik

__all__ = ["MarginWeights"]


@storable
@dataclass(frozen=True, eq=False)
class MarginWeights(SetByMethod):
    """One weight of any sign per annotator; `typical` is that of one never seen."""

    shapes: ClassVar[dict[str, str]] = {"eta": "a"}
    eta: Floats
    typical: float
    temperature: float

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """Softmax of the scores; they are no likelihood, so the number returned is no evidence."""
        bonus = self.eta[votes.annotator] / self.temperature
        return infer_by_votes(votes, np.zeros(votes.n_votes), bonus, log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """What each vote adds to the log-odds of each class, [len(index), K]."""
        return voted_log_lik(votes, index, np.zeros(len(index)), self.eta[votes.annotator[index]] / self.temperature)

    def aligned(self, index: Integers, item_index: Integers) -> MarginWeights:
        """Reorder; an annotator never seen has the typical weight."""
        return replace(self, eta=taken(self.eta, index, self.typical))
