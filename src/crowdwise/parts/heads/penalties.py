"""Penalties that make confusion matrices identifiable; each is added to the loss of a `ConfusionHead`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crowdwise.parts.heads.batch import Batch

__all__ = ["ConfusionVolume", "PredictionVolume", "Trace"]

# Keeps log det finite while all predictions agree; far below the smallest eigenvalue of a trained network's Gram matrix.
_RIDGE = 1e-6


@dataclass(frozen=True)
class _Ramp:
    """Strength of a penalty: zero until epoch `start`, then rising linearly to `strength` over `rise` epochs."""

    strength: float
    start: int = 0
    rise: int = 0

    def at(self, epoch: int) -> float:
        """Strength during an epoch (counted from 0)."""
        if epoch < self.start:
            return 0.0
        return self.strength * min(1.0, (epoch - self.start + 1) / (self.rise + 1))


@dataclass(frozen=True)
class Trace(_Ramp):
    """strength x sum_a trace(R_a): of all matrices that explain the votes, the noisiest (Tanno et al. 2019)."""

    def __call__(self, log_f: Tensor, log_confusion_alk: Tensor, batch: Batch) -> Tensor:
        """Scalar."""
        return self.at(batch.epoch) * log_confusion_alk.diagonal(dim1=1, dim2=2).exp().sum()


@dataclass(frozen=True)
class PredictionVolume(_Ramp):
    """-strength x log det(F F^T / B), F the class probabilities of the batch: GeoCrowdNet(F) (Ibrahim et al. 2023).

    Its optimum is confident and balanced predictions. `balanced=False` subtracts the logs of the
    class masses, which removes the pull towards equal class sizes.
    """

    balanced: bool = True

    def __call__(self, log_f: Tensor, log_confusion_alk: Tensor, batch: Batch) -> Tensor:
        """Scalar."""
        f = _wide(log_f.exp())
        volume = _log_det(f.T @ f / len(f))
        if not self.balanced:
            volume = volume - f.mean(0).clamp(min=_RIDGE).log().sum()
        return -self.at(batch.epoch) * volume.to(log_f.dtype)


@dataclass(frozen=True)
class ConfusionVolume(_Ramp):
    """-strength x log det(sum_a R_a R_a^T): GeoCrowdNet(W) (Ibrahim et al. 2023)."""

    def __call__(self, log_f: Tensor, log_confusion_alk: Tensor, batch: Batch) -> Tensor:
        """Scalar."""
        stacked = _wide(log_confusion_alk.exp().reshape(-1, batch.n_classes))
        return -self.at(batch.epoch) * _log_det(stacked.T @ stacked).to(log_f.dtype)


def _wide(values: Tensor) -> Tensor:
    """In double precision, where the device has it: products of thousands of rows round by more than the ridge in single."""
    return values if values.device.type == "mps" else values.to(torch.float64)


def _log_det(gram: Tensor) -> Tensor:
    """Log-determinant by Cholesky of a K x K Gram matrix."""
    ridge = _RIDGE * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    log_det: Tensor = 2 * torch.linalg.cholesky(gram + ridge).diagonal().log().sum()
    return log_det
