"""A network that learns from votes while groups of items are kept alike.

min over theta, R of  -(1/E) sum_e log sum_k f(x_n)_k R_a[k, y_e] + strength * (mean f in group 0 - mean f in group 1)^2

which is `ccem` with a penalty, and optionally with items weighted by P(s) P(z) / P(s, z). Groups travel with the votes
(`Annotations.with_groups`) and are needed for training only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from crowdwise.data.annotations import Annotations
from crowdwise.data.groups import Groups
from crowdwise.engines.loop import Progress
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.base import Learned
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.trust.fairness.gaps import classes_of
from crowdwise.trust.fairness.penalty import ParityPenalty
from crowdwise.trust.fairness.weights import parity_weights

__all__ = ["ParityClassifier"]


@dataclass(eq=False, repr=False, kw_only=True)
class ParityClassifier(NeuralClassifier):
    """Network x confusion matrices, with a penalty on the difference of class probabilities between groups."""

    likelihood: str = setting(
        "votes", "votes: every vote on its own; items: the votes of an item share its label.", choices=("votes", "items")
    )
    strength: float = setting(10.0, "Weight of the squared difference between groups; 0 is ccem.", low=0)
    reweigh: bool = setting(False, "Weigh items by P(group) P(class) / P(group, class), the class from the start's posterior.")
    # Held-out votes would pick the epoch in which the penalty had done least.
    validation: float = setting(0.0, "Share of the items whose votes only judge, for early stopping; 0 for none.", low=0)
    epochs: int = setting(50, "Passes over the items.", low=1, whole=True)
    positive: Any = setting(None, "The class that is compared; by default the second of two, or each of several.", free=True)

    name: ClassVar[str] = "parity-classifier"

    def _check_fit(self, other: Mapping[str, Any] | None = None, /, **given: Any) -> None:
        super()._check_fit(other, **given)
        if given.get("engine") is not None:
            raise SettingError("parity-classifier trains in this process alone; leave engine= out")

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        _groups_in(votes)
        return super()._learn(features, votes, progress)

    def _head(self, votes: Annotations, start: Start) -> ConfusionHead:
        groups = _groups_in(votes)
        classes = tuple(classes_of(votes.classes, self.positive))
        penalty = ParityPenalty(self.strength, torch.as_tensor(groups.codes.copy()), groups.n_groups, classes)
        return ConfusionHead(start.confusion, [penalty] if self.strength else (), likelihood=self.likelihood)

    def _item_weight(self, votes: Annotations, posterior: Floats) -> Floats | None:
        own = super()._item_weight(votes, posterior)
        if not self.reweigh:
            return own
        weight = (posterior * parity_weights(posterior, _groups_in(votes))).sum(axis=1)
        weight = np.maximum(weight if own is None else weight * own, 1e-9)
        return np.asarray(weight / weight.mean())


def _groups_in(votes: Annotations) -> Groups:
    if votes.groups is None:
        raise SettingError("parity-classifier needs the group of every row's item: fit(X, votes.with_groups({item: group}))")
    return votes.groups
