"""What a network computes on its way to the classes, for heads that read it."""

from __future__ import annotations

from torch import Tensor, nn

from crowdwise.errors import InputError

__all__ = ["FeatureTap"]


class FeatureTap:
    """Remembers what the last linear layer of a network read: the features that it computes itself."""

    def __init__(self, network: nn.Module) -> None:
        self.features: Tensor
        linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
        if not linear:
            raise InputError("this method reads what the last linear layer of the network reads, and the network has none")
        last = linear[-1]
        self.width = last.in_features
        self.handle = last.register_forward_pre_hook(self._keep)

    def _keep(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.features = inputs[0]
