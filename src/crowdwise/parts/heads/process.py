"""A sparse Gaussian process beside Dirichlet confusion matrices: the variational steps of SVGPCR, batch by batch.

l_nk = E log nu_k(f_n)                                   from the moments that the process returns in training
q_n  = softmax(l_n + sum_e E log R[a_e, ., y_e])         labels, exactly
beta = prior + expected counts                           matrices, exactly (memoised) or by natural steps
q(v) by a natural step on  N / B  sum q l - KL           after the optimiser's step
kernel and inducing points by the optimiser, on - sum q l
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from crowdwise.data.annotations import Annotations
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.dirichlet import LatentHead
from crowdwise.parts.heads.parallel import Group
from crowdwise.parts.priors.covariance import PerClass
from crowdwise.parts.priors.robust_max import Softmax
from crowdwise.parts.priors.sparse_gp import SparseGP

__all__ = ["ProcessHead"]

# The rate of natural steps rises from the first to the last of these over as many steps: a process that has seen one
# batch must not be sure of it.
_FIRST_RATE, _RISE = 1e-3, 10
# Then it falls as (1 + step / _HALT) ** -_FALL: slow enough that the posterior gets anywhere, and noise averages out.
_HALT, _FALL = 50, 0.7


class ProcessHead(LatentHead):
    """SVGPCR's factors beside the process.

    Parameters
    ----------
    process : SparseGP
        The one being trained.
    rate : float
        Size of the first natural steps of q(v).
    warmup : int
        Epochs under the labels of the start, and a softmax likelihood.
    learning : tuple or None
        Epochs from which, and before which, the likelihood learns; see `LatentHead`.
    frozen : int
        Epochs before inducing points begin to move.
    together : int
        Epochs before the kernels of classes go their own ways.
    """

    def __init__(
        self,
        votes: Annotations,
        prior_alk: np.ndarray,
        posterior: Tensor,
        process: SparseGP,
        *,
        rate: float,
        warmup: int,
        learning: tuple[int, int] | None = None,
        frozen: int,
        together: int = 0,
        memoised: bool = True,
        anchored: bool = False,
    ) -> None:
        super().__init__(
            votes, prior_alk, posterior, warmup, process.likelihood, learning, memoised=memoised, anchored=anchored
        )
        # In a tuple, so that the process, which the trainer has as its network, is not a part of the head as well.
        self.process = (process,)
        self.step_rate, self.frozen, self.together = rate, frozen, together
        self.soft, self.n_soft = Softmax(self.n_classes), warmup
        self._pending: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def begin_epoch(self, epoch: int, log_prob: Callable[..., Tensor]) -> None:
        """Inducing points stay where they are at first, and kernels of classes together.

        A function that is flat since its class is yet to be found would ask for a long length scale, and with that remain flat.
        """
        super().begin_epoch(epoch, log_prob)
        self.process[0].inducing.requires_grad_(epoch >= self.frozen)
        if isinstance(self.process[0].covariance, PerClass):
            self.process[0].covariance.part(epoch >= self.together)

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the expected log-likelihood of the labels per item; what the natural step needs is kept aside."""
        process, group = self.process[0], Group()
        mean, variance = logits[:, : self.n_classes], logits[:, self.n_classes :]
        # The likelihood's own backward pass runs once: its slopes serve the natural step, and stand for it in the loss.
        at = (mean.detach().requires_grad_(), variance.detach().requires_grad_())
        # A function that is never the largest has no gradient under robust-max; a softmax lets none fall behind at first.
        likelihood = self.soft if batch.epoch < self.n_soft else process.likelihood
        expected: Tensor = likelihood.expected_log(*at)  # type: ignore[operator]
        q = self._labelled(expected, batch)
        total = ((q * expected).sum(1) * batch.item_weight).sum()
        by_mean, by_variance = torch.autograd.grad(total, at)
        if process.natural:
            scale = self.n_taught / len(batch.rows)
            # Rows first, as they are gathered, and back.
            projected = group.gather(process.projected.detach().movedim(-2, 0), len(batch.rows)).movedim(0, -2)
            self._pending = (projected, at[0].detach(), by_mean * scale, by_variance * scale)
        value = total.detach() - (torch.special.xlogy(q, q).sum(1) * batch.item_weight).sum()
        slope = (by_mean * (mean - at[0].detach())).sum() + (by_variance * (variance - at[1].detach())).sum()
        bound: Tensor = (value + slope) / batch.item_weight.sum().clamp(min=1e-12) - group.mean(process.kl()) / max(
            self.n_taught, 1
        )
        return -bound

    def natural_step(self) -> None:
        """Move q(v); the trainer's optimiser calls it after its own step."""
        if self._pending is None:
            return
        step = int(self.n_steps)
        done, fallen = min(step / _RISE, 1.0), (1 + step / _HALT) ** -_FALL
        self.process[0].natural_step(*self._pending, rate=_FIRST_RATE ** (1 - done) * self.step_rate**done * fallen)
        self.n_steps += 1
        self._pending = None
