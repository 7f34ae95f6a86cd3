"""CCEM: a network and confusion matrices by coupled cross-entropy (Ibrahim, Nguyen and Fu 2023; Rodrigues' likelihood).

min over theta, R of  -(1/E) sum_e log sum_k f(x_n)_k R_a[k, y_e],     rows of R_a on the simplex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.settings import setting
from crowdwise.methods.classify.neural import NeuralClassifier, Start
from crowdwise.parts.heads.confusion import ConfusionHead

__all__ = ["CCEM"]


@dataclass(eq=False, repr=False, kw_only=True)
class CCEM(NeuralClassifier):
    """Network x confusion matrices, coupled cross-entropy."""

    likelihood: str = setting(
        "votes",
        "votes: every vote on its own, as published; items: the votes of an item share its label.",
        choices=("votes", "items"),
    )

    name: ClassVar[str] = "ccem"

    def _head(self, votes: Annotations, start: Start) -> ConfusionHead:
        return ConfusionHead(start.confusion, likelihood=self.likelihood)
