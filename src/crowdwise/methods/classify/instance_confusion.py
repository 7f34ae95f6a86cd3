"""Confusion matrices that depend on the item, with the smallest trace (after Zhang et al. 2020).

    p(vote y of a | x) = sum_k f(x)_k T_a(x)[k, y],     T_a(x) = sum_m gate_m(x, a) R_{a,m}
    min  -(1/E) sum_e log p(vote)  +  strength x (mean over votes) trace T_a(x)  -  volume x log det(F F^T)

The paper predicts every entry of T_a(x) by a network. Here an annotator has a few matrices, and a gate that reads the
features which the classifier itself computes mixes them: far fewer numbers, and no matrix per vote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.reading import ReadingClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.instance import InstanceHead, log_item_gate
from crowdwise.parts.heads.penalties import PredictionVolume, Trace

__all__ = ["InstanceConfusion"]


@dataclass(eq=False, repr=False, kw_only=True)
class InstanceConfusion(ReadingClassifier):
    """Network x confusion matrices that depend on the item x smallest trace."""

    head_learning_rate: float = setting(3e-3, "Rate of the matrices and of the gate.", above=0)
    components: int = setting(3, "Confusion matrices per annotator, mixed by the features.", low=1, whole=True)
    strength: float = setting(1e-3, "Weight of the trace, averaged over the votes.", low=0)
    penalty_from: int = setting(10, "Epochs before the trace counts.", low=0, whole=True)
    volume: float = setting(1e-2, "Weight of the volume of the predictions, which keeps classes from merging.", low=0)

    name: ClassVar[str] = "instance-confusion"
    _saved: ClassVar[tuple[str, ...]] = (*NeuralClassifier._saved, "components_", "gate_direction_", "gate_offset_")

    def _head(self, votes: Annotations, start: Start) -> InstanceHead:
        trace = Trace(self.strength, self.penalty_from)
        # Without it a class can be given up: the gate, which reads the same features, then explains its votes. A Gram
        # matrix of fewer than two rows per class would be noise.
        enough = min(self.batch_size, votes.n_items) >= 2 * votes.n_classes
        penalties = [PredictionVolume(self.volume, balanced=False)] if enough else []
        return InstanceHead(start.confusion, self._width(start), self.components, trace, penalties)

    def _keep(self, head: Head) -> None:
        assert isinstance(head, InstanceHead)
        with torch.no_grad():
            # [A, L, M, K] as trained; [A, M, K, L] as shown.
            self.components_ = head.logits.softmax(1).permute(0, 2, 3, 1).double().cpu().numpy()
        self.gate_direction_ = head.direction.detach().double().cpu().numpy()
        self.gate_offset_ = head.offset.detach().double().cpu().numpy()

    def _read(self, features: Tensor) -> Tensor:
        return log_item_gate(features, torch.as_tensor(self.gate_direction_))

    def _matrices(self, read: Tensor, annotator: Tensor) -> Tensor:
        gate = (read + torch.as_tensor(self.gate_offset_)[annotator]).softmax(1)
        return torch.einsum("em,emkl->ekl", gate, torch.as_tensor(self.components_)[annotator])
