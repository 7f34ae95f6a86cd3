"""Methods with a network: backbone x head x penalty. A method supplies `_head`."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from torch import nn

from crowdwise.engines.gradient.fields import Fields
from crowdwise.engines.gradient.networks import NETWORKS, build_network, default_spec
from crowdwise.engines.gradient.rows import Rows
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.network_model import DROPOUT, NetworkModel, Uncertainty, few_rows, materialised
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.trained import TrainedClassifier

__all__ = ["NeuralClassifier"]


@dataclass(eq=False, repr=False, kw_only=True)
class NeuralClassifier(TrainedClassifier):
    """Base of the methods with a network."""

    network: Any = setting(
        "auto",
        'Backbone: "auto" (an MLP, or a small CNN for images), "linear", "mlp", "cnn", a torch module that returns logits '
        "[B, K], or a function without arguments that makes one.",
        choices=NETWORKS,
        free=True,
    )
    dropout: float | None = setting(
        None, "Dropout of the built-in networks; by default 0.5 (MLP) or 0.25 (CNN).", low=0, optional=True
    )
    hidden: int | None = setting(
        None, "Hidden units of the built-in MLP; by default sized from the number of rows.", low=1, whole=True, optional=True
    )
    augment: Any = setting(
        None,
        "Function from one row to a changed one, such as a torchvision transform, applied in training alone; rows are judged "
        "and predicted as they are.",
        free=True,
    )
    weight_decay: float = setting(1e-4, "L2 penalty on the network.", low=0)
    members: int = setting(
        1, "Networks trained from different seeds, whose probabilities are averaged: a deep ensemble.", low=1, whole=True
    )
    dropout_passes: int = setting(
        0, "Passes with dropout left on that are averaged in predictions (MC dropout); 0 for none.", low=0, whole=True
    )

    def uncertainty(self, X: Any) -> Uncertainty:
        """How sure the classifier is of rows, and how far its networks (`members`) or passes (`dropout_passes`) agree."""
        self._fitted()
        model = self.model_
        assert isinstance(model, NetworkModel)
        if model.n_draws == 1:
            raise SettingError("one network answers once; fit with members=5 (an ensemble) or dropout_passes=20 (MC dropout)")
        return Uncertainty.of(model, checked_features(self, X, fitting=False, images=self.takes_images))

    def _name_network(self, network: Any) -> None:
        if network is not None:
            self.network = network

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        """The backbone and, for a built-in one, the plain values that rebuild it."""
        made, spec = self._made(rows, start.n_classes)
        drops = any(isinstance(module, DROPOUT) and module.p > 0 for module in made.modules())
        if self.dropout_passes and not drops:
            raise SettingError(
                "dropout_passes: the network has no dropout, so that all passes would agree; set dropout=0.5 (mlp and cnn), or "
                "give your own network nn.Dropout layers"
            )
        return materialised(made, rows).to(start.dtype), spec

    def _made(self, rows: Rows, n_classes: int) -> tuple[nn.Module, dict[str, Any] | None]:
        if isinstance(self.network, str):
            if isinstance(rows.take(few_rows(rows)), Fields):
                raise SettingError(
                    "rows of several fields (a dict) need a network of your own that takes them: network=..., such as a "
                    "function that makes a transformers model for sequence classification"
                )
            spec = default_spec(self.network, rows, n_classes, self.dropout, self.hidden)
            return build_network(spec, rows), spec
        if not callable(self.network):
            raise SettingError(f"network must be a name, a torch module or a function that makes one; got {self.network!r}")
        if isinstance(self.network, nn.Module):
            if self.members > 1:
                raise SettingError("members: copies of one module would all start alike; give a function that makes a network")
            # A template: the fit must not change it, or `clone` and refits would start from it.
            return copy.deepcopy(self.network), None
        made = self.network()
        if not isinstance(made, nn.Module):
            raise SettingError(f"network must be a torch module or a function that makes one; it made a {type(made).__name__}")
        return made, None
