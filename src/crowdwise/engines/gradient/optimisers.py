"""Optimisers and learning-rate schedules: by name, or the user's own."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from crowdwise.errors import SettingError

__all__ = ["OPTIMISERS", "SCHEDULERS", "Schedule", "make_optimiser"]

OPTIMISERS = ("adam", "adamw", "sgd")
SCHEDULERS = ("none", "one-cycle", "cosine", "plateau")


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


class Schedule:
    """A learning-rate schedule: stepped after every batch, or, where it waits for a plateau, after every epoch with a score.

    Parameters
    ----------
    choice
        A name, or a callable that takes (optimiser, number of steps) and returns a torch scheduler.
    rates : list or None
        Rates that an earlier run ended its epochs with. A schedule that waits for a plateau repeats them: a run on all items
        has nothing to look at but its own loss.
    """

    def __init__(
        self, choice: Any, optimiser: torch.optim.Optimizer, steps: int, rates: list[list[float]] | None = None
    ) -> None:
        self._optimiser = optimiser
        self._made = _make_scheduler(choice, optimiser, steps)
        self._by_epoch = isinstance(self._made, ReduceLROnPlateau)
        self._rates = rates if self._by_epoch else None

    def after_batch(self) -> None:
        """Move on by a step."""
        if self._made is not None and not self._by_epoch:
            self._made.step()

    def after_epoch(self, epoch: int, score: float) -> list[float]:
        """Move on by an epoch with this score, the lower the better; return the rates that the epoch ended with."""
        ended = [float(group["lr"]) for group in self._optimiser.param_groups]
        if self._rates is not None:
            for group, rate in zip(
                self._optimiser.param_groups, self._rates[min(epoch + 1, len(self._rates) - 1)], strict=True
            ):
                group["lr"] = rate
        elif self._by_epoch:
            assert isinstance(self._made, ReduceLROnPlateau)
            self._made.step(score)
        return ended

    def state(self) -> dict[str, Any] | None:
        """Plain values to resume from."""
        return None if self._made is None else self._made.state_dict()

    def resume(self, state: dict[str, Any] | None) -> None:
        """Continue from them."""
        if self._made is not None and state is not None:
            self._made.load_state_dict(state)


def _make_scheduler(choice: Any, optimiser: torch.optim.Optimizer, steps: int) -> LRScheduler | None:
    if choice is None or choice == "none":
        return None
    if callable(choice):
        _check_takes_steps(choice)
        made = choice(optimiser, steps)
        if not isinstance(made, LRScheduler | ReduceLROnPlateau):
            raise SettingError(f"scheduler must return a torch scheduler for (optimiser, steps); got {type(made).__name__}")
        return made
    if choice == "one-cycle":
        return OneCycleLR(optimiser, max_lr=[group["lr"] for group in optimiser.param_groups], total_steps=steps)
    return ReduceLROnPlateau(optimiser) if choice == "plateau" else CosineAnnealingLR(optimiser, steps)


def _check_takes_steps(choice: Any) -> None:
    """Refuse a class of schedulers, whose second parameter is something else, and functions of the optimiser alone."""
    how = "scheduler takes a function of (optimiser, steps), the steps being all batches, after each of which it moves on"
    if isinstance(choice, type):
        name = choice.__name__
        raise SettingError(f"{how}. For {name}: scheduler=lambda optimiser, steps: {name}(optimiser, ...)")
    try:
        signature(choice).bind(None, 0)
    except TypeError as problem:
        raise SettingError(f"{how}; got {choice!r:.60}, which does not take these two ({problem})") from problem
    except ValueError:  # compiled functions have no signature
        return
