"""How to train, and what happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

__all__ = ["History", "Plan"]


@dataclass(frozen=True, eq=False)
class Plan:
    """How to train.

    Attributes
    ----------
    optimiser, scheduler
        See `crowdwise.engines.gradient.optimisers`.
    clip : float or None
        Largest norm of the gradient.
    patience : int
        Epochs without a better held-out score after which training stops.
    earliest : int
        Epochs that are never judged: warm-ups.
    augment : callable or None
        Applied to every row, in training alone.
    mixed : bool
        Run the network in bfloat16 where it is safe.
    checkpoint : Path or None
        File to resume from and to write after an epoch.
    fingerprint : str
        Says which data and settings a checkpoint belongs to.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    head_learning_rate: float
    weight_decay: float
    optimiser: Any
    scheduler: Any
    clip: float | None
    patience: int
    earliest: int
    seed: int
    device: torch.device
    mixed: bool = False
    augment: Any = None
    checkpoint: Path | None = None
    fingerprint: str = ""


@dataclass
class History:
    """What happened: loss per epoch, minus the log-likelihood per held-out vote, and the epoch kept."""

    loss: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    best: int = 0
    stopped_early: bool = False
