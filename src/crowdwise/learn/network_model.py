"""A network before and after training: does it take the rows, and what does it say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crowdwise.engines.gradient.rows import Rows, as_numbers, evaluated_at_once, rows_of
from crowdwise.errors import InputError, SettingError

__all__ = ["NetworkModel", "check_mixed", "materialised", "suited_rows"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A trained backbone."""

    network: nn.Module
    spec: dict[str, Any] | None
    dtype: torch.dtype
    device: torch.device
    mixed: bool = False

    @torch.no_grad()
    def log_prob(self, features: Any) -> Floats:
        """[N, K]."""
        rows = rows_of(features, self.dtype)
        rows = suited_rows(self.network, rows, None, self.dtype, self.device)
        parts = []
        for index in torch.split(torch.arange(len(rows)), evaluated_at_once(rows)):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed):
                logits = self.network(rows.take(index).to(self.device))
            parts.append(logits.double().log_softmax(1).cpu().numpy())
        return np.concatenate(parts)

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Weights by name, and how to rebuild the module."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}
        return arrays, {
            "kind": "network",
            "spec": self.spec,
            "dtype": str(self.dtype).removeprefix("torch."),
            "mixed": self.mixed,
        }


def suited_rows(network: nn.Module, rows: Rows, n_classes: int | None, dtype: torch.dtype, device: torch.device) -> Rows:
    """Try two rows before any training; return the rows as the network takes them, one logit per class.

    Whole numbers go in as they are, for networks that embed tokens, or else as floating-point ones.
    """
    network.eval()
    index = torch.arange(min(2, len(rows)))
    whole = not rows.take(index).is_floating_point()
    problems = []
    for source in (rows, as_numbers(rows, dtype)) if whole else (rows,):
        try:
            with torch.no_grad():
                output = network(source.take(index).to(device))
            break
        except Exception as problem:  # whatever a module does with rows it was not made for
            problems.append(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)
    else:
        raise InputError(f"the network cannot take rows of shape {tuple(rows.shape)}: {'; as floats: '.join(problems)}")
    if n_classes is None:
        return source
    if not isinstance(output, torch.Tensor) or output.shape != (len(index), n_classes):
        got = (
            f"shape {tuple(output.shape)} for {len(index)} rows" if isinstance(output, torch.Tensor) else type(output).__name__
        )
        raise InputError(f"the network must return logits of shape [rows, {n_classes}], one per class; it returned {got}")
    return source


def check_mixed(network: nn.Module, rows: Rows, device: torch.device) -> None:
    """Some processors claim half precision and then fail at it."""
    try:
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
            network(rows.take(torch.arange(min(2, len(rows)))).to(device))
    except RuntimeError as problem:
        raise SettingError(f'precision="mixed" fails on this machine ({problem}); set precision="float32"') from problem


def materialised(network: nn.Module, rows: Rows) -> nn.Module:
    """Run two rows through a network with lazy layers, which take their sizes from the first input."""
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in network.parameters()):
        network.eval()
        with torch.no_grad():
            network(rows.take(torch.arange(min(2, len(rows)))).float())
    return network
