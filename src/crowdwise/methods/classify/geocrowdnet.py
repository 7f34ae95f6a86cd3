"""GeoCrowdNet: coupled cross-entropy with a volume penalty that makes it identifiable (Ibrahim, Nguyen and Fu 2023).

    F:  - strength x log det(F F^T / B)         F = class probabilities of the batch, [K, B]
    W:  - strength x log det(sum_a R_a R_a^T)   confusion matrices of all annotators

(F) needs no expert annotators, but many items, some of them clear-cut; (W) needs annotators who are experts of
their class, and few items. Both grow from epoch `penalty_from` on, after plain coupled cross-entropy.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning
from crowdwise.estimator.settings import setting
from crowdwise.methods.classify.neural import NeuralClassifier, Start
from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.parts.heads.penalties import ConfusionVolume, PredictionVolume

__all__ = ["GeoCrowdNetF", "GeoCrowdNetW"]


@dataclass(eq=False, repr=False, kw_only=True)
class GeoCrowdNetF(NeuralClassifier):
    """Network x confusion matrices x largest volume of the predictions.

    The volume is largest for confident and *equally frequent* classes: under imbalance set ``balanced=False``,
    which removes that pull (without the proof of identifiability), or a smaller strength.
    """

    strength: float = setting(0.1, "Weight of the volume of the predictions.", low=0)
    balanced: bool = setting(True, "Prefer classes of equal size, as published.")
    penalty_from: int = setting(5, "Epochs before the penalty begins to grow.", low=0, whole=True)
    rise: int = setting(5, "Epochs over which it grows.", low=0, whole=True)

    name: ClassVar[str] = "geocrowdnet-f"

    def _head(self, votes: Annotations, start: Start) -> ConfusionHead:
        # A Gram matrix of fewer than some ten rows per class is mostly noise, and singular below one.
        rows = min(self.batch_size, votes.n_items)
        if rows < 2 * votes.n_classes:
            warnings.warn(
                f"batches of {rows} items are small for the volume of {votes.n_classes} classes; "
                f"set batch_size to {10 * votes.n_classes} or more",
                DataWarning,
                stacklevel=4,
            )
        return ConfusionHead(
            start.confusion, [PredictionVolume(self.strength, self.penalty_from, self.rise, balanced=self.balanced)]
        )


@dataclass(eq=False, repr=False, kw_only=True)
class GeoCrowdNetW(NeuralClassifier):
    """Network x confusion matrices x largest volume of the confusion matrices."""

    strength: float = setting(1e-2, "Weight of the volume of the confusion matrices.", low=0)
    penalty_from: int = setting(5, "Epochs before the penalty begins to grow.", low=0, whole=True)
    rise: int = setting(5, "Epochs over which it grows.", low=0, whole=True)

    name: ClassVar[str] = "geocrowdnet-w"

    def _head(self, votes: Annotations, start: Start) -> ConfusionHead:
        return ConfusionHead(start.confusion, [ConfusionVolume(self.strength, self.penalty_from, self.rise)])
