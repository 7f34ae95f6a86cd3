"""Dropout that is left on: passes of a trained network that differ (MC dropout)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

__all__ = ["Dropping", "drops", "drops_when_evaluated"]

_CALLS = {
    getattr(functional, name)
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
}


class Dropping(TorchFunctionMode):
    """Within it dropout drops, also where an evaluation has switched it off: that of layers, and calls within `forward`.

    Everything else, such as the running means of normalisation, stays as in an evaluation. `seen` says whether anything was
    dropped, and `asked` whether a call asked for it itself. What torch does not let one see, dropout within attention or
    recurrent layers and compiled modules, stays off. With ``on=False`` nothing drops.
    """

    seen = asked = False

    def __init__(self, on: bool = True) -> None:
        super().__init__()
        self.on = on

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass calls on, those of dropout as in training, or as in an evaluation."""
        if func in _CALLS:
            # Torch hands over all but the input by name.
            assert kwargs is not None
            some = kwargs["p"] > 0
            self.seen, self.asked = self.seen or some, self.asked or (some and kwargs["training"])
            kwargs = {**kwargs, "training": self.on}
        return func(*args, **(kwargs or {}))


def drops(answer: Callable[[], Any]) -> bool:
    """Whether the passes that `answer` makes would differ with dropout on; the state of the generator stays."""
    with torch.random.fork_rng(devices=[]), torch.no_grad(), Dropping() as dropping:
        answer()
    return bool(dropping.seen)


def drops_when_evaluated(answer: Callable[[], Any]) -> bool:
    """Whether a call within the evaluation that `answer` makes drops nevertheless: its `training` was not handed over."""
    with torch.no_grad(), Dropping(on=False) as dropping:
        answer()
    return bool(dropping.asked)
