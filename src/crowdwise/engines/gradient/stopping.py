"""How long to train, and what held-out votes say of a network.

Held-out votes judge the classifier through annotators that stay as the start knew them:

    judged = -(1/E) sum over held-out items n of log sum_k f(x_n)_k prod_{votes e on n} R0[a_e, k, y_e]

Annotators that are trained beside the network learn faster than it does, and with few votes each they soon know those votes
by heart. Their held-out likelihood then falls while the network is still learning, and a rule that looked at both would stop
a small set before its network had begun.

Steps move weights, not epochs: a hundred items have one step per epoch, and are therefore given more epochs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from crowdwise.engines.gradient.rows import Rows
from crowdwise.parts.heads.batch import Batch, VoteList, n_batches

__all__ = ["Judge", "even_size", "most_epochs", "patient_epochs", "warm_epochs"]

# Adam moves a weight by about its rate per step, 0.001 by default: in a thousand steps a weight can move by one, which is
# what a weight on a standardised feature takes. Epochs as ever where these have as many steps. That steps and not epochs are
# counted, and who judges, was chosen with the sets of benchmark `small_sets` in view; a patience of 200 steps did the same.
_EPOCHS, _STEPS = 100, 1_000
_PATIENCE, _PATIENT_STEPS = 20, 100
# Steps that a warm-up takes at least, in up to a quarter of the epochs: in fewer a network is still where it began. The number
# is that of the Gaussian processes; networks took it over because bayes-dgc gained by it on a made-up set of 100 items.
_WARM_STEPS = 50
# The smallest probability of a vote: one that the start never saw costs much, not everything.
_FLOOR = 1e-30


def most_epochs(given: int | None, n_items: int, batch_size: int, usual: int = _EPOCHS, steps: int = _STEPS) -> int:
    """Epochs at most: as given, or the usual ones, or as many as so many steps take on a small set."""
    return _at_least(usual, steps, n_items, batch_size) if given is None else given


def patient_epochs(given: int | None, n_items: int, batch_size: int) -> int:
    """Epochs without a better score before training stops."""
    return _at_least(_PATIENCE, _PATIENT_STEPS, n_items, batch_size) if given is None else given


def warm_epochs(wanted: int, epochs: int, n_items: int, batch_size: int) -> int:
    """First epochs, trained on the labels of the start: as wanted, more where they have few steps; none for 0."""
    return max(wanted, min(_at_least(0, _WARM_STEPS, n_items, batch_size), epochs // 4)) if wanted and n_items else wanted


def even_size(n_training: int, n_items: int, batch_size: int) -> int:
    """Rows of a batch while some items are held out: as many steps per epoch as all items have.

    So the number of epochs that is found means as many steps when all items are trained on.
    """
    return max(-(-n_training // max(n_batches(n_items, batch_size), 1)), 1)


@dataclass(frozen=True, eq=False)
class Judge:
    """Items that do not teach, and the annotators as the start knew them, who judge the classifier alone.

    Attributes
    ----------
    confusion : [A, K, L]
        P(observed | true), from votes that teach.
    votes, items
        Votes, and positions of the items among theirs that judge.
    known : [N] or None
        Class codes of items with gold labels, -1 elsewhere: these judge by their label.
    rows : Rows or None
        The items, where they are not some of those that are trained on.
    """

    confusion: Tensor
    votes: VoteList
    items: Tensor
    known: Tensor | None = None
    rows: Rows | None = None

    @cached_property
    def _table(self) -> Tensor:
        return self.confusion.transpose(1, 2).reshape(-1, self.votes.n_classes).clamp(min=_FLOOR).log()

    @torch.no_grad()
    def loss(self, log_f: Tensor, batch: Batch) -> float:
        """Minus the log-likelihood of the votes of a batch, the votes of an item together; not yet divided by their number."""
        if self.known is not None:
            known = self.known[batch.rows]
            other = (known >= 0)[:, None] & (torch.arange(log_f.shape[1], device=known.device) != known[:, None])
            log_f = log_f.masked_fill(other, math.log(_FLOOR))
        return -float(batch.joint_log_prob(log_f, self._table.index_select(0, batch.entry)).sum())


def _at_least(epochs: int, steps: int, n_items: int, batch_size: int) -> int:
    return max(epochs, -(-steps // max(n_batches(n_items, batch_size), 1)))
