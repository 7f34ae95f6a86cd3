"""Union-Net: the labels of all annotators as one union, and one transition matrix to it (Wei et al. 2022).

    min  -(1/E) sum_e log sum_k f(x_n)_k U[k, (a_e, y_e)],     sum over a and l of U[k, (a, l)] = 1 for every class k

Notes
-----
This is UnionNet-B, whose matrix is a distribution over the union; variant A has free entries and a softmax on top, which is
`crowd-layer-mw` with one softmax for all annotators. Where everybody labels everything the shares of annotators are equal; in a
sparse crowd they are estimated, per class, and tell who votes on what: see `crowdwise.parts.heads.union`.
The authors divide the labels of an item by their number, so that items weigh alike; here votes do, as everywhere in this room.
For most sets their code starts from logits of (1 - 1e-5) I, which is no near-identity after the softmax (e / (e + K - 1) on the
diagonal of an annotator); ``init="identity"`` here is near-identity.

References
----------
Wei, Xie, Feng, Han and An (2022), Deep learning from multiple noisy annotators as a union, IEEE TNNLS 34(12), 10552-10562.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Progress
from crowdwise.methods.classify.base import Learned
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.union import UnionHead

__all__ = ["UnionNet"]


@dataclass(eq=False, repr=False, kw_only=True)
class UnionNet(NeuralClassifier):
    """Network x one transition matrix to the labels of all annotators."""

    name: ClassVar[str] = "union-net"
    _saved: ClassVar[tuple[str, ...]] = (*NeuralClassifier._saved, "annotator_share_")

    def _head(self, votes: Annotations, start: Start) -> UnionHead:
        # One pseudo-vote each: an annotator without votes could still vote.
        mass = votes.weight_per_annotator + 1
        return UnionHead(start.confusion, torch.as_tensor(mass / mass.sum()).to(start.dtype))

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        done = super()._learn(features, votes, progress)
        head = self.head_
        assert isinstance(head, UnionHead)
        with torch.no_grad():
            self.annotator_share_ = np.asarray(head.annotator_share().double().cpu().numpy())
        return done
