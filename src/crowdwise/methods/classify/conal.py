"""CoNAL: a confusion matrix that all annotators share beside each one's own (Chu, Ma and Wang 2021).

    p(vote y of a | x) = sum_k f(x)_k (w_a(x) G + (1 - w_a(x)) R_a)[k, y],     w_a(x) = sigmoid(u_a . v(x)), |u| = |v| = 1
    min  -(1/E) sum_e log p(vote)  -  strength x sum_a |R_a - G|

Notes
-----
The authors' code feeds W_g f and W_a f, free matrices started at 2 I, to one softmax; its weights then mix logits. The paper
mixes probabilities of stochastic matrices, and so does this file: that is a mixture, and its matrices can be shown.
Their v(x) is a net of its own on the input; here it is linear in the features that the classifier computes, without gradient to
them, as in `instance-confusion`. See `crowdwise.parts.heads.common`.

References
----------
Chu, Ma and Wang (2021), Learning from crowds by modeling common confusions, AAAI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.reading import ReadingClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.start import crowd_confusion
from crowdwise.parts.heads.common import CommonHead, item_traits
from crowdwise.parts.heads.head import Head

__all__ = ["CoNAL"]


@dataclass(eq=False, repr=False, kw_only=True)
class CoNAL(ReadingClassifier):
    """Network x a common confusion matrix x one per annotator, weighed per item and annotator."""

    strength: float = setting(
        1e-5, "Weight of the distance of the annotators' matrices from the common one; the authors' value.", low=0
    )
    traits: int = setting(20, "Length of the traits of items and annotators; the authors' value.", low=1, whole=True)

    name: ClassVar[str] = "conal"
    _saved: ClassVar[tuple[str, ...]] = (
        *NeuralClassifier._saved,
        "common_confusion_",
        "own_confusion_",
        "annotator_traits_",
        "trait_direction_",
        "trait_offset_",
    )

    def _head(self, votes: Annotations, start: Start) -> CommonHead:
        # The near-identity start is the same for all annotators; else the crowd as one is what they share.
        common = start.confusion[0]
        if not start.identity:
            common = torch.as_tensor(crowd_confusion(votes, start.posterior.double().numpy())).to(start.dtype)
        return CommonHead(start.confusion, common, self._width(start), self.traits, self.strength)

    def _keep(self, head: Head) -> None:
        assert isinstance(head, CommonHead)
        with torch.no_grad():
            self.common_confusion_ = head.common_logits.softmax(0).T.double().cpu().numpy()
            self.own_confusion_ = head.logits.softmax(1).transpose(1, 2).double().cpu().numpy()
            self.annotator_traits_ = nn.functional.normalize(head.annotator_traits).double().cpu().numpy()
            self.trait_direction_ = head.direction.double().cpu().numpy()
            self.trait_offset_ = head.offset.double().cpu().numpy()

    def _read(self, features: Tensor) -> Tensor:
        return item_traits(features, torch.as_tensor(self.trait_direction_), torch.as_tensor(self.trait_offset_))

    def _matrices(self, read: Tensor, annotator: Tensor) -> Tensor:
        share = (read * torch.as_tensor(self.annotator_traits_)[annotator]).sum(1).sigmoid()[:, None, None]
        return share * torch.as_tensor(self.common_confusion_) + (1 - share) * torch.as_tensor(self.own_confusion_)[annotator]
