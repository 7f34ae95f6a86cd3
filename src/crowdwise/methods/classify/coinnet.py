"""COINNet: confusion matrices, and sparse items that they do not explain (Nguyen, Ibrahim and Fu 2024).

    p_na = R_a^T f(x_n) + e_na,     e_na = 0 for most items n
    min  -(1/E) sum_e log p_na[y_e]  +  mu1 (1/N) sum_n (sum_a |e_na|^2 + zeta)^(p/2)  -  mu2 log det(F F^T / B)

The score of an item, sum_a |e_na|^2, says how far its votes are from what its features and annotators explain.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Progress
from crowdwise.errors import DataWarning
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.base import Learned
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.outliers import OutlierHead
from crowdwise.parts.heads.penalties import PredictionVolume

__all__ = ["COINNet"]

# Share of items with several votes below which outliers and confusion cannot be separated.
_FEW = 0.05
# Items scored together.
_CHUNK = 65_536
# How many times the log-loss of guesses the votes of an outlier have at least.
_MARGIN = 2.0


@dataclass(eq=False, repr=False, kw_only=True)
class COINNet(NeuralClassifier):
    """Network x confusion matrices x sparse outlier items x largest volume of the predictions."""

    # Outliers and matrices explain the same votes; slow matrices stay near the start, which the outliers do not move.
    head_learning_rate: float = setting(1e-3, "Rate of the confusion matrices.", above=0)
    outlier_strength: float | None = setting(
        None,
        "Weight of the outliers' norm; by default the votes of an outlier have about twice the log-loss of guesses.",
        above=0,
        optional=True,
    )
    power: float = setting(0.4, "Exponent p of the outliers' norm; the smaller, the sparser.", above=0)
    outliers_from: int = setting(10, "Epochs before any item may be an outlier.", low=0, whole=True)
    strength: float = setting(1e-2, "Weight of the volume of the predictions.", low=0)
    balanced: bool = setting(True, "Prefer classes of equal size, as published.")
    penalty_from: int = setting(5, "Epochs before the volume begins to count.", low=0, whole=True)
    rise: int = setting(5, "Epochs over which its weight grows.", low=0, whole=True)

    name: ClassVar[str] = "coinnet"

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        several = votes.votes_per_item > 1
        if several.sum() < _FEW * (votes.votes_per_item > 0).sum():
            warnings.warn(
                f"{several.sum():,} of {votes.n_items:,} items have several votes: one vote cannot separate an outlier from "
                "confusion; read outlier_scores_ with care, or use ccem",
                DataWarning,
                stacklevel=3,
            )
        return super()._learn(features, votes, progress)

    def _head(self, votes: Annotations, start: Start) -> OutlierHead:
        return self._outliers(votes, start.confusion)

    def _outliers(self, votes: Annotations, confusion: torch.Tensor) -> OutlierHead:
        strength = self._strength(votes) if self.outlier_strength is None else self.outlier_strength
        volume = PredictionVolume(self.strength, self.penalty_from, self.rise, balanced=self.balanced)
        # A Gram matrix of fewer than two rows per class would be noise.
        enough = min(self.batch_size, votes.n_items) >= 2 * votes.n_classes
        return OutlierHead(confusion, [volume] if enough else [], strength=strength, power=self.power, begin=self.outliers_from)

    def _strength(self, votes: Annotations) -> float:
        """What makes an outlier (all votes raised to one) as costly as votes of log-loss ``_MARGIN`` x log K each."""
        n_classes = votes.n_classes
        largest = _votes_per_item(votes) * n_classes / (n_classes - 1)
        return _MARGIN * math.log(n_classes) / float(largest ** (self.power / 2))

    @property
    def outlier_scores_(self) -> Floats:
        """How far the votes of every training item are from what the model explains, [N]; 0 without votes."""
        result = self._fitted()
        votes = result.votes
        head = self._outliers(votes, torch.as_tensor(np.array(result.confusion)))
        log_f = torch.as_tensor(np.array(result.prior.log_prob()))
        batches = VoteList(votes, torch.float64, torch.device("cpu")).batches(torch.arange(votes.n_items), _CHUNK)
        per_item = _votes_per_item(votes)
        return np.concatenate([head.scores(log_f[batch.rows], batch, per_item).numpy() for batch in batches])


def _votes_per_item(votes: Annotations) -> float:
    """Mean weight of the votes on an item that has any; at least one."""
    return max(votes.total_weight / max(int((votes.votes_per_item > 0).sum()), 1), 1.0)
