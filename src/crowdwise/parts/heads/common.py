"""Confusion that all annotators share beside each one's own, weighed per item and annotator (Chu, Ma and Wang 2021).

    p(vote y of a | x) = w_a(x) sum_k f(x)_k G[k, y]  +  (1 - w_a(x)) sum_k f(x)_k R_a[k, y]
    w_a(x) = sigmoid(u_a . v(x) / (|u_a| |v(x)|)),    v(x) = V h(x) / sqrt(D) + b
    loss = -(mean over votes) log p(vote)  -  strength x sum_a |R_a - G|

h(x) are the D features that the network itself computes (what its last linear layer reads); rows of G and R_a are softmaxes.
Traits have length one, so w lies between sigmoid(-1) = 0.27 and sigmoid(1) = 0.73 whatever is learned: no vote is explained by
the common matrix alone. Without the penalty only the mixture could be told, and G and R_a might as well be equal; it is an
unsquared Frobenius norm, whose slope does not vanish where they are close.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from crowdwise.kernels.mixture import log_mixture
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.head import Head, mean_of_votes

__all__ = ["CommonHead", "item_traits"]

# Probabilities of a start are kept this far from zero, so that their logits are finite.
_FLOOR = 1e-4


class CommonHead(Head):
    """A matrix of all, [L, K], one of each annotator, [A, L, K], both as logits, and the traits that weigh them.

    Parameters
    ----------
    start : [A, K, L]
        Confusion matrices of the annotators to start from.
    common : [K, L]
        The same of the common one.
    width : int
        Number of features that the network computes, D.
    traits : int
        Length of u_a and v(x).
    strength : float
        Weight of the distance between the common matrix and the others.
    """

    reads_features = True

    def __init__(self, start: Tensor, common: Tensor, width: int, traits: int, strength: float) -> None:
        super().__init__()
        self.logits = nn.Parameter(start.transpose(1, 2).clamp(min=_FLOOR).log().contiguous())
        self.common_logits = nn.Parameter(common.T.clamp(min=_FLOOR).log().contiguous())
        # Only directions count; of about length one, a step of the optimiser turns them as far as it moves a logit.
        self.annotator_traits = nn.Parameter(torch.randn(len(start), traits, dtype=start.dtype) / math.sqrt(traits))
        self.direction = nn.Parameter(torch.randn(traits, width, dtype=start.dtype))
        self.offset = nn.Parameter(start.new_zeros(traits))
        self.strength = strength

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the mean log-likelihood per vote, less the distances from the common matrix."""
        apart: Tensor = torch.linalg.vector_norm(self.logits.softmax(1) - self.common_logits.softmax(0), dim=(1, 2))
        value: Tensor = mean_of_votes(-self.vote_log_prob(logits, batch), batch) - self.strength * apart.sum()
        return value

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """log of the mixture of both, [E_b]."""
        log_f = logits.log_softmax(1)
        own = self.logits.log_softmax(1).reshape(-1, batch.n_classes)
        return _mixed(
            self.log_odds(batch),
            log_mixture(log_f, self.common_logits.log_softmax(0), batch.position, batch.label),
            log_mixture(log_f, own, batch.position, batch.entry),
        )

    def evidence(self, batch: Batch) -> Tensor:
        """The same for each true class, [E_b, K]; judges held-out votes."""
        own = self.logits.log_softmax(1).reshape(-1, batch.n_classes).index_select(0, batch.entry)
        common = self.common_logits.log_softmax(0).index_select(0, batch.label)
        return _mixed(self.log_odds(batch)[:, None], common, own)

    def log_odds(self, batch: Batch) -> Tensor:
        """log w / (1 - w) of every vote, [E_b]."""
        assert batch.features is not None, "the trainer fills in features for heads that read them"
        # Without gradient: the network learns through f alone and cannot bend its features to explain noise.
        items = item_traits(batch.features.detach().to(self.direction.dtype), self.direction, self.offset)
        annotators = nn.functional.normalize(self.annotator_traits)
        return (items.index_select(0, batch.position) * annotators.index_select(0, batch.annotator)).sum(1)

    def confusion(self) -> Tensor:
        """Half of each, as where traits are unrelated, [A, K, L]."""
        return (self.logits.softmax(1).transpose(1, 2) + self.common_logits.softmax(0).T) / 2


def item_traits(features: Tensor, direction: Tensor, offset: Tensor) -> Tensor:
    """v(x) of length one, [B, traits], from features [B, D]."""
    # Divided by sqrt(D): a step of the optimiser then turns the traits by as much for wide networks as for narrow ones.
    return nn.functional.normalize(nn.functional.linear(features / math.sqrt(direction.shape[1]), direction, offset))


def _mixed(log_odds: Tensor, common: Tensor, own: Tensor) -> Tensor:
    """log(w exp(common) + (1 - w) exp(own))."""
    return torch.logaddexp(nn.functional.logsigmoid(log_odds) + common, nn.functional.logsigmoid(-log_odds) + own)
