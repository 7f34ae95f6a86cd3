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
    callbacks, stage, member
        Who listens, and what they are told of this run: see `crowdwise.engines.gradient.callbacks`.
    rates : list or None
        Rates that an earlier run ended its epochs with, where a schedule that follows held-out votes is to be repeated.
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
    callbacks: tuple[Any, ...] = ()
    stage: str = "training"
    member: int = 0
    rates: list[list[float]] | None = None


@dataclass
class History:
    """What happened, epoch by epoch, and which was kept.

    Attributes
    ----------
    loss
        What was minimised.
    terms
        Terms of the objective, by name; where the head has none, minus the loss.
    held_out, judged
        Minus the log-likelihood per held-out vote: of the whole model; and of the classifier with annotators as the start
        knew them, which decides.
    rates
        Rates of the parameter groups at the end of an epoch.
    best
        The epoch that was kept.
    asked
        Whether a callback asked for the end.
    """

    loss: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    judged: list[float] = field(default_factory=list)
    rates: list[list[float]] = field(default_factory=list)
    best: int = 0
    stopped_early: bool = False
    asked: bool = False
    terms: dict[str, list[float]] = field(default_factory=dict)

    def note(self, loss: float, terms: dict[str, float]) -> float:
        """Add an epoch; returns its objective."""
        self.loss.append(loss)
        terms = terms or {"votes": -loss}
        for name, value in terms.items():
            self.terms.setdefault(name, []).append(value)
        return sum(terms.values())
