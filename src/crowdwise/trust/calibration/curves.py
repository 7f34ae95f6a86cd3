"""How far confidence is off where the truth is known: the reliability curve and the measures that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
from numpy.typing import ArrayLike

from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.calibration.intervals import share_interval
from crowdwise.trust.metrics import accuracy, auc, brier, calibration_bins, ece, ece_debiased, ece_interval, log_loss

__all__ = ["Reliability", "reliability"]


@dataclass(frozen=True, eq=False)
class Reliability:
    """Accuracy beside confidence in bins of equal mass, and what sums them up.

    Attributes
    ----------
    confidence, accuracy, low, high : [B]
        Per bin: mean probability of the chosen class, share of right ones, and its exact interval.
    n_items : [B]
        Known items per bin.
    ece : float
        Mean over items of |accuracy - confidence| of their bin.
    ece_interval : (float, float)
        Bootstrap interval.
    ece_debiased : float
        The same error without what chance leaves of it.
    brier, log_loss, auc, mean_confidence, mean_accuracy : float
    n_known : int
        Items that all this rests on.
    """

    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    n_items: Integers
    ece: float
    ece_interval: tuple[float, float]
    ece_debiased: float
    brier: float
    log_loss: float
    auc: float
    mean_confidence: float
    mean_accuracy: float
    n_known: int

    def facts(self) -> dict[str, Any]:
        """The measures by name, without the curve."""
        low, high = self.ece_interval
        return {
            "ece": self.ece,
            "ece_low": low,
            "ece_high": high,
            "ece_debiased": self.ece_debiased,
            "brier": self.brier,
            "log_loss": self.log_loss,
            "auc": self.auc,
            "confidence": self.mean_confidence,
            "accuracy": self.mean_accuracy,
        }

    def frame(self) -> pl.DataFrame:
        """The curve, one row per bin."""
        names = ("confidence", "accuracy", "low", "high", "n_items")
        return pl.DataFrame({name: getattr(self, name) for name in names})


def reliability(
    probability: ArrayLike,
    truth: ArrayLike,
    n_bins: int = 15,
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int | None = 0,
) -> Reliability:
    """Compare probabilities, [N, K], with known classes, [N] (-1 where unknown).

    Examples
    --------
    >>> curve = reliability([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]], [0, 0, 0, 1], n_bins=2, n_resamples=50)
    >>> curve.frame()["accuracy"].to_list(), round(curve.ece, 4)
    ([0.5, 1.0], 0.1)
    """
    confidence, right, size = calibration_bins(probability, truth, n_bins)
    low, high = share_interval(right * size, size, level)
    n_known = int(size.sum())
    return Reliability(
        confidence=confidence,
        accuracy=right,
        low=low,
        high=high,
        n_items=size,
        ece=ece(probability, truth, n_bins),
        ece_interval=ece_interval(probability, truth, n_bins, level=level, n_resamples=n_resamples, random_state=random_state),
        ece_debiased=ece_debiased(probability, truth, n_bins),
        brier=brier(probability, truth),
        log_loss=log_loss(probability, truth),
        auc=auc(probability, truth),
        mean_confidence=float((confidence * size).sum() / n_known) if n_known else float("nan"),
        mean_accuracy=accuracy(probability, truth),
        n_known=n_known,
    )
