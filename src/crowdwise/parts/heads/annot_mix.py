"""Confusion by a small network of item and annotator, trained on mixtures of votes (Herde et al. 2024).

    log T_a(x)[k, .] = log softmax of  log S_a[k, .] + (O relu(H [I h(x), u_a]))[k, .]
    p(vote y of a | x) = sum_k f(x)_k T_a(x)[k, y]
    mixed votes    x~ = s x_e + (1 - s) x_e',   u~ and log S~ alike,   s ~ Beta(alpha, alpha),   e' a vote of the batch
    loss = -(mean over votes e) s log p~(y_e) + (1 - s) log p~(y_e')

h(x) are the features that the network itself computes (what its last linear layer reads), which get no gradient from here; u_a
is an embedding of the annotator. O starts at zero, so that the matrices start at S_a. Mixing e with e' mixes what the
annotators are as well as what they said: p~ is the probability of a label by the mixed annotator on the mixed item, whose
features are those of x~, not a mixture of features. Weights of votes weigh each its own term.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from crowdwise.parts.heads.batch import Batch, Mix
from crowdwise.parts.heads.head import Head, mean_of_votes
from crowdwise.parts.heads.seeding import mixed_seed

__all__ = ["AnnotMixHead"]

# Probabilities of a start are kept this far from zero, so that their logits are finite.
_FLOOR = 1e-4


class AnnotMixHead(Head):
    """The network of the annotators.

    Parameters
    ----------
    start : [A, K, L]
        Confusion matrices to start from.
    width : int
        Number of features that the classifier computes.
    size : int
        Length of the embeddings of items and annotators, and of the hidden layer.
    alpha : float
        Both parameters of the Beta distribution of the shares; 0 mixes nothing.
    """

    reads_features = True
    start: Tensor
    seed: Tensor

    def __init__(self, start: Tensor, width: int, size: int, alpha: float) -> None:
        super().__init__()
        n_annotators, n_classes, _ = start.shape
        self.alpha = alpha
        self.register_buffer("start", start.clamp(min=_FLOOR).log())
        # Drawn where the trainer seeds: the same in every process, and kept by checkpoints.
        self.register_buffer("seed", torch.randint(2**31, ()))
        self.annotators = nn.Parameter(torch.randn(n_annotators, size, dtype=start.dtype))
        self.items = nn.Linear(width, size, dtype=start.dtype)
        self.hidden = nn.Linear(2 * size, size, dtype=start.dtype)
        self.output = nn.Linear(size, n_classes**2, dtype=start.dtype)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def mixed(self, batch: Batch) -> Batch:
        """One row per vote, mixed with that of another vote; the same votes and shares in every process."""
        if self.alpha == 0 or not len(batch.vote):
            return batch
        rng = np.random.default_rng([mixed_seed(int(self.seed), batch.epoch), int(batch.vote[0])])
        partner = torch.as_tensor(rng.permutation(len(batch.vote)), device=batch.rows.device)
        share = torch.as_tensor(rng.beta(self.alpha, self.alpha, len(batch.vote))).to(batch.weight)
        return replace(batch.by_vote(), mix=Mix(partner, share))

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Minus the mean log-likelihood per vote, mixed or not."""
        if batch.mix is None:
            return mean_of_votes(-self.vote_log_prob(logits, batch), batch)
        mix = batch.mix
        log_p = torch.logsumexp(logits.log_softmax(1)[:, :, None] + self._log_matrices(batch), 1)
        own, other = batch.label, batch.label.index_select(0, mix.partner)
        weight = batch.weight * mix.share
        weight_other = batch.weight.index_select(0, mix.partner) * (1 - mix.share)
        total = weight * log_p.gather(1, own[:, None])[:, 0] + weight_other * log_p.gather(1, other[:, None])[:, 0]
        return -total.sum() / (weight + weight_other).sum().clamp(min=1e-12)

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """log sum_k f_k T_a(x)[k, vote], [E_b]."""
        return torch.logsumexp(logits.log_softmax(1).index_select(0, batch.position) + self.evidence(batch), 1)

    def evidence(self, batch: Batch) -> Tensor:
        """log T_a(x)[k, vote] for each true class k, [E_b, K]; judges held-out votes."""
        voted = batch.label[:, None, None].expand(-1, batch.n_classes, 1)
        return self._log_matrices(batch).gather(2, voted)[:, :, 0]

    def read(self, features: Tensor) -> Tensor:
        """Embedding of items, [B, size], from features [B, D]."""
        embedded: Tensor = self.items(features)
        return embedded

    def log_matrices(self, read: Tensor, annotators: Tensor, start: Tensor) -> Tensor:
        """log T, [E, K, L], from embeddings of items and annotators, [E, size], and the logs of the start, [E, K, L]."""
        raw: Tensor = self.output(self.hidden(torch.cat([read, annotators], 1)).relu())
        return (start + raw.reshape(start.shape)).log_softmax(2)

    def confusion(self) -> Tensor:
        """The matrices of an item without features, [A, K, L]."""
        nothing = self.read(self.items.weight.new_zeros(len(self.annotators), self.items.in_features))
        return self.log_matrices(nothing, self.annotators, self.start).exp()

    def _log_matrices(self, batch: Batch) -> Tensor:
        """log T of every vote, [E_b, K, L]."""
        assert batch.features is not None, "the trainer fills in features for heads that read them"
        read = self.read(batch.features.detach().to(self.start.dtype)).index_select(0, batch.position)
        annotators, start = (values.index_select(0, batch.annotator) for values in (self.annotators, self.start))
        if batch.mix is not None:
            annotators, start = batch.mix.of(annotators), batch.mix.of(start)
        return self.log_matrices(read, annotators, start)
