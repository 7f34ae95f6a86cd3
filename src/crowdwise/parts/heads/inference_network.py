"""An inference network beside Dirichlet confusion matrices: GPNETCR, by functional mirror descent.

    l_nk = E log nu_k(f_n);  q_n and the matrices in closed form, as in SVGPCR
    network, on a batch of B items and a set of points, with q_t the network as it was at mirror step t:
        beta_t [ N / B sum q l - KL(q || p) ] - (1 - beta_t) KL(q || q_t),      beta_t = beta0 / (1 + decay sqrt(t))
    kernel of p: KL(q || p) on the same points

Divided by beta_t N, the first line gives the network its step and the kernel the second, in one. At q = q_t the last term
has no gradient: it acts only if q_t is held for more than one step (`hold`), and without it beta_t changes nothing. t starts
from 0, and q_t is taken again with every epoch: a resumed run needs no copy of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from crowdwise.data.annotations import Annotations
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.dirichlet import LatentHead
from crowdwise.parts.heads.parallel import Group
from crowdwise.parts.priors.inference_network import InferenceNetwork, RandomFeatures

__all__ = ["InferenceNetworkHead"]


class InferenceNetworkHead(LatentHead):
    """GPNETCR's factors beside the network.

    Parameters
    ----------
    network : InferenceNetwork
        The one being trained.
    beta, decay : float
        Step size of mirror descent, and how fast it falls.
    hold : int
        Steps of the optimiser per mirror step.
    warmup : int
        Epochs under the labels of the start.
    learning : tuple or None
        Epochs from which, and before which, the likelihood learns; see `LatentHead`.
    """

    def __init__(
        self,
        votes: Annotations,
        prior_alk: np.ndarray,
        posterior: Tensor,
        network: InferenceNetwork,
        *,
        beta: float,
        decay: float,
        hold: int,
        warmup: int,
        learning: tuple[int, int] | None = None,
        memoised: bool = True,
        anchored: bool = False,
    ) -> None:
        super().__init__(
            votes, prior_alk, posterior, warmup, network.likelihood, learning, memoised=memoised, anchored=anchored
        )
        # In a tuple, so that the network, which the trainer has, is not a part of the head as well.
        self.network = (network,)
        self.beta, self.decay, self.hold = beta, decay, hold
        self._before: tuple[RandomFeatures | None] = (None,)
        self._held = 0

    def begin_epoch(self, epoch: int, log_prob: Callable[..., Tensor]) -> None:
        """A new mirror step."""
        super().begin_epoch(epoch, log_prob)
        self._held = 0

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the objective of the mirror step per item."""
        network = self.network[0]
        if self._held % self.hold == 0:
            # No copy for a single step: q_t is q, and their divergence and its gradient are zero.
            self._before = (copy.deepcopy(network.posterior).requires_grad_(False) if self.hold > 1 else None,)
            self.n_steps += 1
        self._held += 1
        q = self._labelled(logits, batch)
        total = ((q * logits - torch.special.xlogy(q, q)).sum(1) * batch.item_weight).sum()
        from_prior, from_before = network.divergence(network.points, *self._before)
        beta = self.rate_of(int(self.n_steps) - 1)
        divergence = Group().mean(from_prior + (1 - beta) / beta * from_before) / max(self.n_taught, 1)
        loss: Tensor = divergence - total / batch.item_weight.sum().clamp(min=1e-12)
        return loss

    def rate_of(self, step: int) -> float:
        """beta of a mirror step, counted from 0."""
        return float(self.beta / (1 + self.decay * step**0.5))
