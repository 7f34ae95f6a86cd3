"""EM with a network: labels are inferred before every epoch, and the epoch trains on them.

    before an epoch    `rounds` of   annotators = annotators.update(votes, posterior)
                                     posterior  = softmax(log clip(f(x)) + sum of the votes' evidence)
    the epoch          cross-entropy of f with the posterior as target

Any annotator model of engine 1 can stand here: point confusion matrices give AggNet, Dirichlet or Beta
posteriors deepMF, messages deepBP. What the model has learned (messages, say) is kept from epoch to
epoch, so that few rounds suffice. `ceiling` bounds what the network may claim before the votes
count; the loss sees f as it is, because a clipped f would have no gradient where it is sure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import alternate
from crowdwise.kernels.mixture import log_mixture
from crowdwise.kernels.numerics import below_ceiling
from crowdwise.parts.annotators.model import AnnotatorModel
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.targets import soft_cross_entropy
from crowdwise.parts.priors.rows import RowPrior

__all__ = ["AlternatingHead"]

# Rounds end early where they change nothing any more.
_TOL = 1e-6


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
    ceiling : float
        Largest probability that the network may give a class in the E-step, at least 1 / K; 1 for no bound.
    rounds : int
        Rounds of inference before every epoch.
    """

    target: Tensor
    table: Tensor

    def __init__(
        self, votes: Annotations, annotators: AnnotatorModel, posterior: Tensor, *, ceiling: float = 1.0, rounds: int = 1
    ) -> None:
        super().__init__()
        self.votes = votes
        self.ceiling, self.rounds = ceiling, rounds
        self.annotators = annotators.update(votes, posterior.double().cpu().numpy())
        # What an update changes must be in the state of the module, or a resumed run would continue from elsewhere.
        self._learned = [name for name, value in _arrays(self.annotators).items() if value is not getattr(annotators, name)]
        for name in self._learned:
            self.register_buffer(f"annotators_{name}", torch.from_numpy(np.array(getattr(self.annotators, name))))
        self.register_buffer("target", posterior.clone())
        n_classes = votes.n_classes
        self.register_buffer("table", posterior.new_full((votes.n_annotators, n_classes, n_classes), 1 / n_classes))
        self._remember()
        self.register_load_state_dict_post_hook(AlternatingHead._recall)  # type: ignore[no-untyped-call]

    def begin_epoch(self, epoch: int, log_prob: Callable[[], Tensor]) -> None:
        """New labels from the network and the annotators."""
        prior = RowPrior(below_ceiling(log_prob().double().cpu().numpy(), self.ceiling))
        posterior = self.target.double().cpu().numpy().copy()
        # Beliefs under the network as it is now; those of the last epoch are under the network as it was.
        self.annotators.infer(self.votes, prior.log_prob(), self.votes.known_codes, posterior)
        fit = alternate(
            self.votes, prior, self.annotators, start=posterior, known=self.votes.known_codes, max_iter=self.rounds, tol=_TOL
        )
        self.annotators = fit.annotators
        self.target.copy_(torch.from_numpy(fit.posterior))
        self._remember()

    def _remember(self) -> None:
        for name in self._learned:
            getattr(self, f"annotators_{name}").copy_(torch.from_numpy(np.ascontiguousarray(getattr(self.annotators, name))))
        confusion = self.annotators.confusion()
        if confusion is not None:
            self.table.copy_(torch.from_numpy(np.ascontiguousarray(confusion)))

    def _recall(self, _: Any) -> None:
        kept = {name: getattr(self, f"annotators_{name}").cpu().numpy().copy() for name in self._learned}
        self.annotators = replace(self.annotators, **kept)  # type: ignore[type-var]

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


def _arrays(model: Any) -> dict[str, Any]:
    """The floating-point arrays of an annotator model, by field."""
    values = {field.name: getattr(model, field.name) for field in fields(model)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"}
