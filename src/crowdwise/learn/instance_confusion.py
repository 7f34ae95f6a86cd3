"""x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Any
import torch
from torch import nn
from crowdwise.engines.gradient.rows import Rows

from crowdwise.aggregate.settings import setting
from crowdwise.annotations import Annotations
from crowdwise.heads.instance import InstanceHead
from crowdwise.heads.penalties import Trace
from crowdwise.learn.neural import NeuralClassifier, Start

__all__ = ["InstanceConfusion"]


@dataclass(eq=False, repr=False, kw_only=True)
class InstanceConfusion(NeuralClassifier):
    """Network x confusion matrices that depend on the item x smallest trace."""

    components: int = setting(2, "M", low=1, whole=True)
    strength: float = setting(1e-2, "Weight of the mean trace.", low=0)
    penalty_from: int = setting(10, "Epochs before the penalty begins.", low=0, whole=True)

    name: ClassVar[str] = "instance-confusion"

    def _network(self, rows: Rows, n_classes: int, dtype: torch.dtype) -> tuple[nn.Module, dict[str, Any] | None]:
        network, spec = super()._network(rows, n_classes, dtype)
        self._width = [m for m in network.modules() if isinstance(m, nn.Linear)][-1].in_features
        return network, spec

    def _head(self, votes: Annotations, start: Start) -> InstanceHead:
        return InstanceHead(start.confusion, self._width, self.components, Trace(self.strength, self.penalty_from))
