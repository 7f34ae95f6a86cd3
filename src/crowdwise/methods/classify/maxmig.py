"""MaxMIG: a network and a crowd that tell most about each other (Cao, Xu, Kong and Wang 2019).

    h = f(x),   g(votes) = softmax(b + sum_a w_a[:, y_a]),   D_ij = sum_c h_ic g_jc / p_c
    min  -(1/B) sum_i (1 + log D_ii)  +  1/(B (B - 1)) sum_{i != j} D_ij

No model of how votes arise is needed: g is free to discount annotators who copy each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.start import start_confusion
from crowdwise.parts.heads.mutual_information import MutualInformationHead

__all__ = ["MaxMIG"]


@dataclass(eq=False, repr=False, kw_only=True)
class MaxMIG(NeuralClassifier):
    """Network x classifier of the votes x mutual information."""

    # Published: 1e-4, as for the network. A crowd's view that moves fast follows the network wherever it goes.
    head_learning_rate: float = setting(1e-3, "Rate of the weights of the votes.", above=0)

    name: ClassVar[str] = "maxmig"

    def _head(self, votes: Annotations, start: Start) -> MutualInformationHead:
        posterior = start.posterior
        mass = torch.as_tensor(votes.votes_per_item > 0, dtype=posterior.dtype)
        weight = self._item_weight(votes, posterior.double().numpy())
        if weight is not None:
            mass = mass * torch.as_tensor(weight, dtype=posterior.dtype)
        shares = mass @ posterior / mass.sum().clamp(min=1e-12)
        # The paper's own start are matrices counted under the majority's labels, not identities.
        confusion = torch.as_tensor(start_confusion(votes, posterior.double().numpy())) if start.identity else start.confusion
        return MutualInformationHead(confusion.to(posterior.dtype), shares)
