"""The bound of variational Bayes in minibatches, once per epoch, from what the epoch has computed anyway.

    votes          sum_e w_e sum_k q_nk E log R[a_e, k, y_e]             = sum of counts x E log R
    labels         sum_n sum_k q_nk ([E log d_k +] log f(x_n)_k) + H(q_n)
    class prior    - KL(d), where class shares have a factor in q
    annotators     - KL(R)

q_n and f(x_n) are those of the last visit to item n, the Dirichlets what the epoch has left. A bound holds for any q and
Dirichlets, so that the sum is at most log p(votes) of the model whose prior of item n is f as it was met; since the network
learns until the epoch ends, that of the network at the end tends to be higher.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from crowdwise.kernels.numerics import dirichlet_kl, expected_log
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.model import DirichletConfusion

__all__ = ["EpochSums"]


class EpochSums:
    """What an epoch adds up for its bound."""

    def __init__(self) -> None:
        self.labels: Tensor | float = 0.0
        self.counts: Tensor | None = None
        self.shares: Tensor | None = None

    def see(self, q: Tensor, log_f: Tensor) -> None:
        """Add items: their labels and what f says of them, [B, K]."""
        self.labels = self.labels - torch.nn.functional.kl_div(log_f, q, reduction="sum")

    def count(self, counts: Tensor, shares: Tensor) -> None:
        """Add the counts of a batch, where no sum over all items is kept."""
        self.counts = counts.clone() if self.counts is None else self.counts.add_(counts)
        self.shares = shares.clone() if self.shares is None else self.shares.add_(shares)

    def terms(
        self, counts_alk: Floats, annotators: DirichletConfusion, shares: tuple[Floats, Floats, float] | None
    ) -> dict[str, float]:
        """The terms of the bound by name; `shares` are expected items per class, and Dirichlet parameters after and before."""
        labels, prior = float(self.labels), 0.0
        if shares is not None:
            items, alpha, alpha0 = shares
            labels += float((items * expected_log(alpha, 0)).sum())
            prior = -dirichlet_kl(alpha, np.array(alpha0), 0)
        return {
            "votes": float((counts_alk * expected_log(annotators.beta_alk, 1)).sum()),
            "labels": labels,
            "class prior": prior,
            "annotators": -annotators.penalty(),
        }
