"""A sparse Gaussian process with flows beside Dirichlet confusion matrices: SVGPCR-NF.

The first `base` epochs are those of SVGPCR, with the flows at rest. Then the optimiser moves flows, base, kernel and inducing
points along the gradient of the bound, estimated with a few draws; labels and matrices go on in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdwise.data.annotations import Annotations
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.parallel import Group
from crowdwise.parts.heads.process import ProcessHead
from crowdwise.parts.priors.flow_gp import FlowGP

__all__ = ["FlowProcessHead"]

# Natural steps that a Gaussian takes before it is bent, however short the training is.
_LEAST_STEPS = 20


class FlowProcessHead(ProcessHead):
    """SVGPCR-NF's factors beside the process; `base` epochs leave the flows at rest."""

    def __init__(
        self,
        votes: Annotations,
        prior_alk: np.ndarray,
        posterior: Tensor,
        process: FlowGP,
        *,
        base: int,
        **settings: Any,
    ) -> None:
        super().__init__(votes, prior_alk, posterior, process, **settings)
        self.flow_process, self.base = (process,), base

    def begin_epoch(self, epoch: int, log_prob: Callable[..., Tensor]) -> None:
        """Set the flows going when their time has come."""
        super().begin_epoch(epoch, log_prob)
        self.flow_process[0].flowing.fill_(epoch >= self.base and int(self.n_steps) >= _LEAST_STEPS)

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the bound per item, but for what concerns the annotators alone."""
        process = self.flow_process[0]
        if not bool(process.flowing):
            return super().loss(logits, batch)
        q = self._labelled(logits, batch)
        total = ((q * logits - torch.special.xlogy(q, q)).sum(1) * batch.item_weight).sum()
        bound: Tensor = total / batch.item_weight.sum().clamp(min=1e-12)
        return Group().mean(process.divergence) / max(self.n_taught, 1) - bound
