"""What an annotator head is: the votes of a batch given the logits of a network.

Engine 2 trains *backbone x head x penalty*. A head is an `nn.Module` that turns logits and votes into
a loss; penalties are added to it. Heads that alternate (EM with a network) refresh their targets in
`begin_epoch`, which gets the network's class probabilities for all items.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from crowdwise.parts.heads.batch import Batch

__all__ = ["Head", "mean_of_votes"]

# The smallest probability of a vote, so that a held-out one that was never seen costs much, not everything.
_FLOOR = 1e-30


class Head(nn.Module):
    """Base of the heads; a new one supplies `loss`, `vote_log_prob` and `confusion`."""

    #: The trainer fills `Batch.features` with what the network's last linear layer reads.
    reads_features = False
    #: Known labels have their part in the head's own loss, so that the trainer adds none.
    uses_gold = False

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Loss of a batch, a scalar: minus the mean log-probability of a vote unless the method says otherwise."""
        return mean_of_votes(-self.vote_log_prob(logits, batch), batch)

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """Log-probability of every vote on its own, [E_b]."""
        raise NotImplementedError

    def evidence(self, batch: Batch) -> Tensor:
        """Log-probability of every vote for each true class, [E_b, K]; judges held-out votes."""
        table = self.confusion().transpose(1, 2).reshape(-1, batch.n_classes)
        return table.index_select(0, batch.entry).clamp(min=_FLOOR).log()

    def confusion(self) -> Tensor:
        """P(observed | true) of every annotator, [A, K, L]; rows sum to one."""
        raise NotImplementedError

    def mixed(self, batch: Batch) -> Batch:
        """The batch as it is trained on: as it is, unless the method mixes its rows; the same in every process."""
        return batch

    def begin_epoch(self, epoch: int, log_prob: Callable[[], Tensor]) -> None:
        """Prepare for an epoch; `log_prob()` evaluates the network on all items, [N, K]."""

    def watch(self, logits: Tensor, batch: Batch) -> None:
        """See a batch of a warm-up, which `loss` does not get."""

    def end_epoch(self) -> dict[str, float]:
        """Terms of the objective of the epoch that ends, by name, where it is more than minus the loss."""
        return {}


def mean_of_votes(values: Tensor, batch: Batch) -> Tensor:
    """Weighted mean of one number per vote; zero for a batch without votes."""
    total = batch.weight.sum()
    return (values * batch.weight).sum() / total.clamp_(min=1e-12)
