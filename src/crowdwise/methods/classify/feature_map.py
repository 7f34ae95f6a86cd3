"""A module of the user's that maps rows to features before a kernel reads them: a deep kernel."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from crowdwise.errors import InputError, SettingError

__all__ = ["mapped_rows", "own_map"]

_ROWS = 4096


def own_map(given: Any) -> nn.Module:
    """A copy of the user's module, which stays as it is; or what the user's function makes."""
    made = copy.deepcopy(given) if isinstance(given, nn.Module) else given() if callable(given) else given
    if not isinstance(made, nn.Module):
        raise SettingError(
            f"feature_map must be a torch module from rows to features [B, F], or a function that makes one; got {made!r}"
        )
    return made


@torch.no_grad()
def mapped_rows(made: nn.Module, rows: Tensor) -> Tensor:
    """The features of standardised rows, [N, F], before any training."""
    made.eval()
    try:
        found = torch.cat([made(part) for part in torch.split(rows, _ROWS)])
    except Exception as problem:  # whatever a module does with rows it was not made for
        said = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise InputError(f"feature_map cannot take rows of shape {tuple(rows.shape[1:])}: {said}") from problem
    if found.ndim != 2 or len(found) != len(rows) or not found.shape[1]:
        raise InputError(f"feature_map must return features [rows, F]; for {len(rows)} rows it returned {tuple(found.shape)}")
    if not bool(torch.isfinite(found).all()):
        raise InputError("feature_map returned NaN or infinity for standardised rows, before any training")
    return found
