"""EM of annotators with low-rank expertise around the epochs of a network with dropout (DALC).

    before an epoch    (u, F) by some alternations under the posterior q
                       q = softmax(log mean_t f_t(x) + sum of the votes' evidence),  f_t: a pass with dropout on
    the epoch          cross-entropy of f with q as target

Traits of the items are F applied to the features, or to what the network's last linear layer reads; the latter change
from epoch to epoch and are standardised again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.expertise import Factors, infer_labels
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.dropping import Dropping
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.seeding import seeded
from crowdwise.parts.heads.tap import FeatureTap
from crowdwise.parts.heads.targets import soft_cross_entropy
from crowdwise.parts.priors.scaling import Scaling

__all__ = ["ExpertiseHead", "HiddenRows", "mean_log_prob"]

# Share of the penalties in the first round, and rounds until they are whole. The labels of the start are so noisy that
# differences between annotators look small: under the whole penalty, EM may give them up and never find them again.
_FIRST, _GROWS_FOR = 0.25, 10


class ExpertiseHead(Head):
    """The E-step and the annotators' M-step around a network's epochs.

    Parameters
    ----------
    votes : Annotations
        The votes that teach (held-out ones left out).
    factors : Factors
        Where the annotators start.
    posterior : [N, K]
        Where the labels start.
    network : nn.Module
        Whose passes with dropout are averaged, and whose hidden rows are read where there is no table.
    table : [N, D] or None
        Scaled features, dense or sparse; None to read the network's.
    passes, alternations, every, seed : int
        Passes with dropout, turns between embeddings and projection, epochs from one round to the next, and the seed of the
        passes.
    """

    target: Tensor
    epochs: Tensor
    traits: Tensor
    embedding: Tensor
    projection: Tensor
    population: Tensor

    def __init__(
        self,
        votes: Annotations,
        factors: Factors,
        posterior: Tensor,
        network: nn.Module,
        table: Any,
        *,
        passes: int,
        alternations: int,
        every: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.votes, self.table, self.seed = votes, table, seed
        self.passes, self.alternations, self.every = passes, alternations, every
        self.first = factors
        # In a tuple, or it would be a part of this module and saved twice.
        self._beside = (network,)
        self.register_buffer("target", posterior.clone())
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))
        for name in ("embedding", "projection", "population"):
            self.register_buffer(name, torch.from_numpy(getattr(factors, name).copy()))
        everybody = np.tile(factors.projection[:, -1], (votes.n_items, 1))
        self.register_buffer("traits", torch.from_numpy(everybody if table is None else factors.traits(table)))

    @property
    def factors(self) -> Factors:
        """As they are now."""
        now = {name: getattr(self, name).cpu().numpy().copy() for name in ("embedding", "projection", "population")}
        return replace(self.first, **now)

    def begin_epoch(self, epoch: int, log_prob: Callable[[], Tensor]) -> None:
        """New annotators from the labels, then new labels from the network and the annotators; every some epochs."""
        self.epochs += 1
        if (int(self.epochs) - 1) % self.every:
            return
        (network,) = self._beside
        # Not the process's own seed: with several, all must infer the same labels.
        with seeded(self.seed, epoch, 0, self.target.device):
            table = HiddenRows(network).read(log_prob)[1] if self.table is None else self.table
            log_prior = mean_log_prob(log_prob, self.passes)
        done = (int(self.epochs) - 1) // self.every
        share = min(1.0, _FIRST + (1 - _FIRST) * done / _GROWS_FOR)
        factors = self.factors.refined(table, self.votes, self.target.double().cpu().numpy(), self.alternations, share)
        traits, posterior = factors.traits(table), np.zeros_like(log_prior)
        infer_labels(self.votes, traits, factors.embedding, log_prior, self.votes.known_codes, posterior)
        self.target.copy_(torch.from_numpy(posterior))
        self.traits.copy_(torch.from_numpy(traits))
        for name in ("embedding", "projection", "population"):
            getattr(self, name).copy_(torch.from_numpy(getattr(factors, name)))

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy with the inferred labels."""
        return soft_cross_entropy(logits, self.target.index_select(0, batch.rows), batch.item_weight)

    def evidence(self, batch: Batch) -> Tensor:
        """log P(vote | class, item), [E_b, K]."""
        traits = self.traits.index_select(0, batch.rows.index_select(0, batch.position))
        s_e = (traits * self.embedding.index_select(0, batch.annotator)).sum(1)
        others = math.log(max(batch.n_classes - 1, 1))
        wrong = (torch.nn.functional.logsigmoid(-s_e) - others)[:, None].repeat(1, batch.n_classes)
        return wrong.scatter_add(1, batch.label[:, None], (s_e + others)[:, None])

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """log sum_k f_k P(vote | k, item), [E_b]."""
        return (logits.log_softmax(1).index_select(0, batch.position) + self.evidence(batch)).logsumexp(1)

    def confusion(self) -> Tensor:
        """What the mean reliability implies, [A, K, L]."""
        model = self.factors.annotators(self.traits.cpu().numpy(), self.votes.n_classes)
        return torch.from_numpy(model.confusion())


class HiddenRows(FeatureTap):
    """Collects what the last linear layer of a network reads, over all rows of an evaluation."""

    def __init__(self, network: nn.Module) -> None:
        self.parts: list[Tensor] = []
        super().__init__(network)

    def _keep(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.parts.append(inputs[0].detach().double().cpu())

    @classmethod
    def width_of(cls, network: nn.Module) -> int:
        """Columns of the hidden rows."""
        tap = cls(network)
        tap.handle.remove()
        return tap.width

    def read(self, log_prob: Callable[[], Any]) -> tuple[Scaling, Floats]:
        """How to scale the hidden rows of an evaluation, and the scaled rows, [N, D]."""
        raw = self.read_raw(log_prob)
        scaling = Scaling.of(raw)
        return scaling, scaling.apply(raw)

    def read_raw(self, log_prob: Callable[[], Any]) -> Floats:
        """The hidden rows of an evaluation, [N, D]."""
        try:
            n_rows = len(log_prob())
        finally:
            self.handle.remove()
        if any(part.ndim != 2 for part in self.parts):
            raise InputError('reads="hidden" needs a last linear layer that reads one vector per row of the network')
        # A model may try a few rows first.
        return torch.cat(self.parts)[-n_rows:].numpy()


def mean_log_prob(log_prob: Callable[[], Tensor], passes: int) -> Floats:
    """Log of the mean probability over passes with dropout on, [N, K]; one plain pass without passes or dropout."""
    if not passes:
        return log_prob().double().cpu().numpy()
    with Dropping() as dropping:
        total = log_prob().double()
        if not dropping.seen:
            return total.cpu().numpy()
        for _ in range(passes - 1):
            total = torch.logaddexp(total, log_prob().double())
    return (total - math.log(passes)).cpu().numpy()
