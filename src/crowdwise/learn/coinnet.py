"""COINNet: confusion matrices, and sparse items that they do not explain (Nguyen, Ibrahim and Fu 2024)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from crowdwise.aggregate.settings import setting
from crowdwise.annotations import Annotations
from crowdwise.engines.gradient.batch import VoteList
from crowdwise.errors import DataWarning
from crowdwise.heads.outliers import OutlierHead
from crowdwise.heads.penalties import PredictionVolume
from crowdwise.learn.neural import NeuralClassifier, Start

__all__ = ["COINNet"]

# Items looked at together when scores are computed.
_CHUNK = 65_536


@dataclass(eq=False, repr=False, kw_only=True)
class COINNet(NeuralClassifier):
    """Network x confusion matrices x sparse outlier items x largest volume of the predictions."""

    outlier_strength: float | None = setting(
        None,
        "Weight of the sparse penalty; by default an item is an outlier where guesses explain its votes better.",
        above=0,
        optional=True,
    )
    power: float = setting(0.4, "Exponent p of the sparse penalty, at most 1.", above=0)
    outliers_from: int = setting(10, "Epochs before the first item may be an outlier.", low=0, whole=True)
    strength: float = setting(1e-2, "Weight of the volume of the predictions.", low=0)
    balanced: bool = setting(True, "Prefer classes of equal size, as published.")
    penalty_from: int = setting(5, "Epochs before the volume begins to count.", low=0, whole=True)
    rise: int = setting(5, "Epochs over which it grows.", low=0, whole=True)

    name: ClassVar[str] = "coinnet"

    def _head(self, votes: Annotations, start: Start) -> OutlierHead:
        return self._outlier_head(votes, start.confusion)

    def _outlier_head(self, votes: Annotations, confusion: torch.Tensor) -> OutlierHead:
        strength = self.outlier_strength
        if strength is None:
            per_item = votes.n_votes / max(int((votes.votes_per_item > 0).sum()), 1)
            largest = max(per_item, 1.0) * votes.n_classes / (votes.n_classes - 1)
            strength = math.log(votes.n_classes) / largest ** (self.power / 2)
        volume = PredictionVolume(self.strength, self.penalty_from, self.rise, balanced=self.balanced)
        return OutlierHead(confusion, [volume], strength=strength, power=self.power, begin=self.outliers_from)

    @property
    def outlier_scores_(self) -> NDArray[np.float64]:
        """[N]."""
        result = self._fitted()
        votes = result.votes
        head = self._outlier_head(votes, torch.tensor(result.confusion))
        log_f = torch.tensor(result.prior.log_prob())
        edges = VoteList(votes, torch.float64, torch.device("cpu"))
        return np.concatenate(
            [head.scores(log_f[b.rows], b).numpy() for b in edges.batches(torch.arange(votes.n_items), votes.n_items)]
        )
