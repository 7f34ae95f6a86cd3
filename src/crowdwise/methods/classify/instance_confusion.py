"""Confusion matrices that depend on the item, with the smallest trace (after Zhang et al. 2020).

    p(vote y of a | x) = sum_k f(x)_k T_a(x)[k, y],     T_a(x) = sum_m gate_m(x, a) R_{a,m}
    min  -(1/E) sum_e log p(vote)  +  strength x (mean over votes) trace T_a(x)  -  volume x log det(F F^T)

The paper predicts every entry of T_a(x) by a network. Here an annotator has a few matrices, and a gate that reads the
features which the classifier itself computes mixes them: far fewer numbers, and no matrix per vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, tidy, vocabulary_array
from crowdwise.engines.gradient.rows import Rows
from crowdwise.engines.loop import Progress
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.carry import positions
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.base import Learned, Model
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.network_model import NetworkModel, suited_rows
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start, point_confusion
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.instance import InstanceHead, log_item_gate
from crowdwise.parts.heads.penalties import PredictionVolume, Trace

__all__ = ["InstanceConfusion"]


# Items whose votes are gathered together.
_CHUNK = 65_536


@dataclass(eq=False, repr=False, kw_only=True)
class InstanceConfusion(NeuralClassifier):
    """Network x confusion matrices that depend on the item x smallest trace."""

    head_learning_rate: float = setting(3e-3, "Rate of the matrices and of the gate.", above=0)
    components: int = setting(3, "Confusion matrices per annotator, mixed by the features.", low=1, whole=True)
    strength: float = setting(1e-3, "Weight of the trace, averaged over the votes.", low=0)
    penalty_from: int = setting(10, "Epochs before the trace counts.", low=0, whole=True)
    volume: float = setting(1e-2, "Weight of the volume of the predictions, which keeps classes from merging.", low=0)

    name: ClassVar[str] = "instance-confusion"
    _saved: ClassVar[tuple[str, ...]] = (*NeuralClassifier._saved, "components_", "gate_direction_", "gate_offset_")

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        network, spec = super()._network(rows, start)
        _check_gate(network, rows, start.n_classes, start.dtype)
        return network, spec

    def _head(self, votes: Annotations, start: Start) -> InstanceHead:
        trace = Trace(self.strength, self.penalty_from)
        # Without it a class can be given up: the gate, which reads the same features, then explains its votes. A Gram
        # matrix of fewer than two rows per class would be noise.
        enough = min(self.batch_size, votes.n_items) >= 2 * votes.n_classes
        penalties = [PredictionVolume(self.volume, balanced=False)] if enough else []
        assert start.network is not None
        # The gate is as wide as what the last linear layer reads.
        width = _last_linear(start.network).in_features
        return InstanceHead(start.confusion, width, self.components, trace, penalties)

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        done = super()._learn(features, votes, progress)
        head = self.head_
        assert isinstance(head, InstanceHead)
        with torch.no_grad():
            # [A, L, M, K] as trained; [A, M, K, L] as shown.
            self.components_ = head.logits.softmax(1).permute(0, 2, 3, 1).double().cpu().numpy()
        self.gate_direction_ = head.direction.detach().double().cpu().numpy()
        self.gate_offset_ = head.offset.detach().double().cpu().numpy()
        log_prior, log_u = self._log_prob_and_gate(done.model, features)
        head.gate_mean.copy_(_mean_gate(log_u, torch.as_tensor(self.gate_offset_), votes))
        with torch.no_grad():
            confusion = head.confusion().double().cpu().numpy()
        return replace(done, annotators=point_confusion(confusion, votes), log_prior=log_prior)

    def confusion_of(self, X: Any, annotators: Sequence[Any] | None = None) -> Floats:
        """Confusion matrices of annotators on rows: P(observed | true, x), [N, A', K, L].

        Parameters
        ----------
        X : [N, ...]
            Rows, seen in the fit or not.
        annotators : sequence, optional
            Ids of annotators of the fit; by default all, in the order of `confusion_`.
        """
        result = self._fitted()
        who = np.arange(result.votes.n_annotators)
        if annotators is not None:
            ids = vocabulary_array(tidy(series_of(np.asarray(annotators))))
            who = positions(ids, result.votes.annotators)
            if (who < 0).any():
                raise InputError(f"no annotator {ids.tolist()[int(np.flatnonzero(who < 0)[0])]!r} in the fit")
        features = checked_features(self, X, fitting=False, images=self.takes_images)
        _, log_u = self._log_prob_and_gate(self.model_, features)
        gate = (log_u[:, None, :] + torch.as_tensor(self.gate_offset_[who])).softmax(2).numpy()
        return np.asarray(np.einsum("nam,amkl->nakl", gate, self.components_[who], optimize=True))

    def _log_prob_and_gate(self, model: Model, features: Any) -> tuple[Floats, Tensor]:
        """Log class probabilities, [N, K], and the items' part of the gate, [N, M], in one pass."""
        assert isinstance(model, NetworkModel)
        direction = torch.as_tensor(self.gate_direction_)
        parts: list[Tensor] = []

        def keep(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            parts.append(log_item_gate(inputs[0].detach().cpu().double(), direction))

        # The gate is that of the first network, without dropout.
        alone = replace(model, networks=model.networks[:1], passes=0)
        handle = _last_linear(model.network).register_forward_pre_hook(keep)
        try:
            log_prob = alone.log_prob(features)
        finally:
            handle.remove()
        if model.n_draws > 1 or model.passes:
            log_prob = model.log_prob(features)
        # The model first tries a few rows.
        return log_prob, torch.cat(parts)[-len(log_prob) :]


def _last_linear(network: nn.Module) -> nn.Linear:
    """The layer whose input the gate reads."""
    linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise SettingError(
            "instance-confusion reads what the network's last nn.Linear layer reads, and the network has none; "
            "end it with one, or use ccem"
        )
    return linear[-1]


def _check_gate(network: nn.Module, rows: Rows, n_classes: int, dtype: torch.dtype) -> None:
    """Refuse a network whose last linear layer does not read one row of features per item, found by trying two rows."""
    shapes: list[torch.Size] = []
    handle = _last_linear(network).register_forward_pre_hook(lambda layer, inputs: shapes.append(inputs[0].shape))
    try:
        suited_rows(network, rows, n_classes, dtype, torch.device("cpu"))
    finally:
        handle.remove()
    if not shapes or len(shapes[-1]) != 2:
        got = f"an input of shape {tuple(shapes[-1])}" if shapes else "nothing"
        raise SettingError(
            f"instance-confusion needs one row of features per item at the network's last nn.Linear layer, which reads {got}; "
            "pool before it, or use ccem"
        )


@torch.no_grad()
def _mean_gate(log_u: Tensor, offset: Tensor, votes: Annotations) -> Tensor:
    """Gate averaged over the votes of each annotator, [A, M]; over all items for one without votes."""
    total = 1e-9 * log_u.softmax(1).mean(0).repeat(votes.n_annotators, 1)
    for batch in VoteList(votes, torch.float64, torch.device("cpu")).batches(torch.arange(votes.n_items), _CHUNK):
        annotator = batch.annotator
        gate = (log_u[batch.rows[batch.position]] + offset[annotator]).softmax(1)
        total.index_add_(0, annotator, gate * batch.weight[:, None])
    return total / total.sum(1, keepdim=True)
