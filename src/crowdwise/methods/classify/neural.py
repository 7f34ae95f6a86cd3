"""Methods with a network: backbone x head x penalty. A method supplies `_head`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from torch import nn

from crowdwise.engines.gradient.fields import Fields
from crowdwise.engines.gradient.networks import NETWORKS, build_network, default_spec
from crowdwise.engines.gradient.rows import Rows
from crowdwise.engines.gradient.stream import refuse_streams
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.align import aligned_votes
from crowdwise.methods.classify.continued import Continued, continued, with_annotators
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.network_model import NetworkModel, Uncertainty, check_dropout, few_rows, materialised
from crowdwise.methods.classify.runs import Start, Task
from crowdwise.methods.classify.trained import TrainedClassifier

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NeuralClassifier"]


class _Continuing:
    """What is no setting: the fit that a pass continues."""

    _earlier: Continued | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class NeuralClassifier(_Continuing, TrainedClassifier):
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

    # -- more rows and votes -------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, items: Any = None, gold: Any = None) -> Self:
        """Continue with more rows and votes: one pass over these, from the network and the annotators as they are.

        Classes are those of the first call, or `classes` there; annotators that were never seen start like the others and stay
        known. Earlier rows are not kept: `result_` is of the items of this call. On an estimator that is not fitted it
        is ``fit`` with ``epochs=1, validation=0, warmup=0``. Methods that count votes instead of stepping along a gradient
        (aggnet, deep-mf, deep-bp, bayes-dgc, mbem, dalc) know annotators by the votes of the call: give them all votes so far.

        Parameters
        ----------
        X, y, items, gold
            As in `fit`.
        classes : sequence, optional
            All classes, where the first call does not show each of them.
        """
        if self.members > 1:
            raise SettingError("partial_fit continues one network; set members=1")
        fitted = "result_" in vars(self)
        self._check_fit(gold=gold)
        if fitted and classes is not None and list(classes) != self.classes_.tolist():
            raise SettingError(f"classes were fixed by the first call: {self.classes_.tolist()}; got {list(classes)}")
        classes = self.classes_.tolist() if fitted else classes
        refuse_streams(X, "partial_fit")
        features = checked_features(self, X, fitting=not fitted, images=self.takes_images)
        votes = aligned_votes(features, y, items, gold, classes)
        losses = list(self.history_["loss"]) if fitted else []
        # A pass is a fit of its own with other settings; what it leaves is taken over.
        one = copy.copy(self)
        one.epochs, one.validation, one.validation_data, one.warmup, one.checkpoint = 1, 0.0, None, 0, None
        if fitted:
            votes = with_annotators(votes, self.result_.votes)
            one._earlier, one.init = continued(self, features, votes), "majority"
            one.random_state = None if self.random_state is None else self.random_state + len(losses)
        one._fit_to(features, votes, None)
        settings = {f.name for f in fields(self)} | {"_earlier"}
        vars(self).update({name: value for name, value in vars(one).items() if name not in settings})
        self.result_ = replace(one.result_, settings=self.kept_settings(), seed=self.random_state)
        self.history_ |= {"loss": losses + self.history_["loss"], "continued": fitted}
        return self

    def _task(self, *given: Any) -> Task:
        task = super()._task(*given)
        return task if self._earlier is None else replace(task, start=self._earlier.start(task.start))

    def _name_network(self, network: Any) -> None:
        if network is not None:
            self.network = network

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        """The backbone and, for a built-in one, the plain values that rebuild it."""
        made, spec = self._made(rows, start.n_classes)
        network = materialised(made, rows).to(start.dtype)
        if self.dropout_passes:
            check_dropout(network, rows, start.dtype)
        return network, spec

    def _made(self, rows: Rows, n_classes: int) -> tuple[nn.Module, dict[str, Any] | None]:
        if self._earlier is not None:
            return copy.deepcopy(self._earlier.model.network).cpu(), self._earlier.model.spec
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
