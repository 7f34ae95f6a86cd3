"""What a policy may read: a fitted model, the pool and, for classifiers, features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.campaign.answers import Answers
from crowdwise.campaign.expected_gain import entropy
from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats, Integers

if TYPE_CHECKING:
    from crowdwise.campaign.pool import Pool
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import Result

__all__ = ["State"]


@dataclass(frozen=True, eq=False)
class State:
    """What a policy may read.

    Attributes
    ----------
    result : Result
        A model fitted to `votes`.
    model : classifier or None
        A fitted classifier with `predict_proba`, for policies that read features.
    features : [N, D] or None
        In the order of ``votes.items``.
    supposed : [n, K] or None
        What `labels` says instead of the posterior, of whichever n items: answers to open questions are supposed to be there.
    known : Answers or None
        What annotators are expected to answer, where it has been found before: see `crowdwise.campaign.answers`.
    """

    result: Result
    pool: Pool
    rng: np.random.Generator
    model: Any = None
    features: Any = None
    supposed: Floats | None = None
    known: Answers | None = None

    @cached_property
    def answers(self) -> Answers:
        """What annotators are expected to answer."""
        return Answers(self.result, self.model, self.features) if self.known is None else self.known

    @property
    def votes(self) -> Annotations:
        """The votes so far."""
        return self.result.votes

    @property
    def confusion(self) -> Floats:
        """P(observed | true) of every annotator, [A, K, L], as the model reports it; `answers` knows how sure that is."""
        return self.result.confusion

    def labels(self, items: Integers) -> Floats:
        """What is known of these items, [n, K]."""
        return self.result.posterior[items] if self.supposed is None else self.supposed

    def openness(self, items: Integers) -> Floats:
        """Share of these items' uncertainty that supposed answers leave, [n]; one where nothing is supposed."""
        if self.supposed is None:
            return np.ones(len(items))
        now = entropy(self.result.posterior[items])
        return np.asarray(entropy(self.supposed) / np.where(now > 0, now, 1))

    def rows(self, items: Integers) -> Any:
        """Their features."""
        if self.model is None or self.features is None:
            raise SettingError("this policy reads features: it needs a fitted classifier (model=) and its features=")
        return self.features[items]

    def predicted(self, items: Integers) -> Floats:
        """What the classifier says of them by their features alone, [n, K]."""
        rows = self.rows(items)
        return np.asarray(self.model.predict_proba(rows))
