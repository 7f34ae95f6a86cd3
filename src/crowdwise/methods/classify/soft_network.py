"""A network trained on class probabilities: the second stage of `two-stage`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.targets import SoftTargets

__all__ = ["SoftNetwork"]


@dataclass(eq=False, repr=False, kw_only=True)
class SoftNetwork(NeuralClassifier):
    """Network trained on class probabilities, with its settings: ``TwoStage(classifier=SoftNetwork(epochs=50))``."""

    name: ClassVar[str] = "soft-network"

    def _head(self, votes: Annotations, start: Start) -> SoftTargets:
        return SoftTargets(start.posterior, start.confusion)
