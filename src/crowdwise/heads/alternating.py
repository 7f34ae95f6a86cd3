"""EM with a network: labels are inferred before every epoch, and the epoch trains on them.

    annotators = annotators.update(votes, posterior)
    posterior  = softmax(log f(x) + sum of the votes' evidence)
    one epoch of cross-entropy with the posterior as target

Any annotator model of engine 1 can stand here: point confusion matrices give AggNet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from crowdwise.engines.gradient.batch import Batch
from crowdwise.engines.gradient.head import Head
from crowdwise.heads.targets import soft_cross_entropy
from crowdwise.kernels.mixture import log_mixture

if TYPE_CHECKING:
    from crowdwise.annotations import Annotations
    from crowdwise.annotators.protocol import AnnotatorModel

__all__ = ["AlternatingHead"]


class AlternatingHead(Head):
    """The E-step and the annotators' M-step around a network's epochs.

    Parameters
    ----------
    votes : Annotations
        The votes that teach (held-out ones left out).
    annotators : AnnotatorModel
        The model before any data.
    posterior : [N, K]
        Where to start.
    """

    target: Tensor
    table: Tensor

    def __init__(self, votes: Annotations, annotators: AnnotatorModel, posterior: Tensor) -> None:
        super().__init__()
        self.votes = votes
        self.known: Any = np.empty(0, np.int16) if votes.gold is None else votes.gold
        self.annotators = annotators.update(votes, posterior.double().cpu().numpy())
        self.register_buffer("target", posterior.clone())
        n_classes = votes.n_classes
        self.register_buffer("table", posterior.new_full((votes.n_annotators, n_classes, n_classes), 1 / n_classes))
        self._fill_table()

    def begin_epoch(self, epoch: int, log_prob: Callable[[], Tensor]) -> None:
        """Annotators from the last labels, then new labels from the network and the annotators."""
        posterior = self.target.double().cpu().numpy().copy()
        self.annotators = self.annotators.update(self.votes, posterior)
        self.annotators.infer(self.votes, log_prob().double().cpu().numpy(), self.known, posterior)
        self.target.copy_(torch.from_numpy(posterior))
        self._fill_table()

    def _fill_table(self) -> None:
        confusion = self.annotators.confusion()
        if confusion is not None:
            self.table.copy_(torch.from_numpy(np.ascontiguousarray(confusion)))

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy with the inferred labels."""
        return soft_cross_entropy(logits, self.target.index_select(0, batch.rows), batch.item_weight)

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """log sum_k f_k R[k, vote], [E_b]."""
        table = self.table.transpose(1, 2).reshape(-1, batch.n_classes).clamp(min=1e-30).log()
        return log_mixture(logits.log_softmax(1), table, batch.position, batch.entry)

    def confusion(self) -> Tensor:
        """[A, K, L]."""
        return self.table
