"""Optimisers and learning-rate schedules: by name, or the user's own."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR

from crowdwise.errors import SettingError

__all__ = ["OPTIMISERS", "SCHEDULERS", "make_optimiser", "make_scheduler"]

OPTIMISERS = ("adam", "adamw", "sgd")
SCHEDULERS = ("none", "one-cycle", "cosine")


def make_optimiser(choice: Any, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """Build an optimiser over parameter groups that carry their own rate and weight decay.

    `choice` is a name, or a callable that takes the groups: ``lambda groups: torch.optim.RMSprop(groups)``.
    """
    if callable(choice):
        made = choice(groups)
        if not isinstance(made, torch.optim.Optimizer):
            raise SettingError(f"optimizer must return a torch optimiser for the parameter groups; got {type(made).__name__}")
        return made
    # Parameters with the same settings are stepped at once, which saves a tenth of a millisecond per step.
    first, *others = groups
    if all({name: group[name] for name in group if name != "params"}.items() <= first.items() for group in others):
        groups = [first | {"params": [p for group in groups for p in group["params"]]}]
    if choice == "sgd":
        return torch.optim.SGD(groups, momentum=0.9)
    # Fused steps are one pass over the parameters; they exist for floating-point tensors on these devices.
    fused = all(p.device.type in ("cpu", "cuda") for group in groups for p in group["params"])
    kind = torch.optim.AdamW if choice == "adamw" else torch.optim.Adam
    return kind(groups, fused=fused)


def make_scheduler(choice: Any, optimiser: torch.optim.Optimizer, steps: int) -> LRScheduler | None:
    """Build a schedule that is stepped after every batch; a callable takes (optimiser, number of steps)."""
    if choice is None or choice == "none":
        return None
    if callable(choice):
        made = choice(optimiser, steps)
        if not isinstance(made, LRScheduler):
            raise SettingError(f"scheduler must return a torch scheduler for (optimiser, steps); got {type(made).__name__}")
        return made
    if choice == "one-cycle":
        return OneCycleLR(optimiser, max_lr=[group["lr"] for group in optimiser.param_groups], total_steps=steps)
    return CosineAnnealingLR(optimiser, steps)
