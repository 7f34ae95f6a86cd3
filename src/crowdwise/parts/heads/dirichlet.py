"""Variational Bayes in minibatches: Dirichlet posteriors over confusion matrices and class shares, beside a network.

For the items of a batch, with the posteriors Dir(alpha) of the shares and Dir(beta_ak) of the rows as they are:

    log q_nk = [E log d_k +] log f(x_n)_k + sum_e E log R[a_e, k, y_e] + const
    loss     = - sum_k q_nk log f(x_n)_k                    the network's step, by backprop
    beta     = (1 - rate) beta + rate (beta0 + N / B  counts of the batch under q)        alpha likewise

The last line is a step along the natural gradient of the bound, which in the natural parameters of a
Dirichlet is "prior plus expected counts minus what it is"; over all items and with rate 1 it is the
exact coordinate update. Memoised (rate None), the counts of the batch replace those that the same items
had before, so beta is exact at all times: the steps need no rate, and no step lowers the bound.

Of several processes each infers the labels and counts the votes of its own rows of the batch; the counts are added up.

Symbols
-------
prior_rk, count_rk : [A * L, K]   Dirichlet parameters before any vote, and expected counts; rows as `Batch.entry`
share_k : [K]                     expected items of each class
q_nk : [N, K]                     labels as last inferred (memoised)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import vote_shares
from crowdwise.parts.annotators.model import DirichletConfusion, counts_of, predictive, weight_of
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.evidence_bound import EpochSums
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.parallel import Group
from crowdwise.parts.heads.targets import soft_cross_entropy

__all__ = ["DirichletHead", "LatentHead"]

# Items that are asked at most, and items below which none can be spared.
_MOST_ASKED, _FEW = 1_000, 50
# Step sizes of the schedule: (1 + step) ** -_FORGETTING, which sums to infinity while its squares do not.
_FORGETTING = 0.7


class DirichletHead(Head):
    """BayesDGC's factors beside the network.

    Parameters
    ----------
    votes : Annotations
        The votes that teach.
    prior_alk : [1 or A, L, K]
        Dirichlet parameters of the confusion matrices before any vote.
    alpha0 : float
        Dirichlet parameter of every class share.
    posterior : [N, K]
        Where to start.
    memoised : bool
        Exact counts of all items; else steps along the natural gradient.
    rate : float or None
        Their size; None lets it fall from 1.
    shares : bool
        Whether class shares have a factor of their own in q, beside what f says of them.
    """

    prior_rk: Tensor
    count_rk: Tensor
    share_k: Tensor
    q_nk: Tensor
    known: Tensor
    n_steps: Tensor
    most_rows: Tensor
    uses_gold = True
    #: Whether `end_epoch` says what the bound was.
    traced = True

    def __init__(
        self,
        votes: Annotations,
        prior_alk: np.ndarray,
        alpha0: float,
        posterior: Tensor,
        *,
        memoised: bool = True,
        rate: float | None = None,
        shares: bool = True,
    ) -> None:
        super().__init__()
        n_annotators, n_classes = votes.n_annotators, votes.n_classes
        self.alpha0, self.memoised, self.rate, self.shares = alpha0, memoised, rate, shares
        self.n_classes, self.same_prior = n_classes, len(prior_alk) == 1
        taught = votes.votes_per_item > 0
        if votes.gold is not None:
            taught = taught | (votes.gold >= 0)
        self.n_taught = int(taught.sum())
        start = posterior.double().cpu().numpy() * taught[:, None]
        counts = counts_of(votes, start).reshape(n_annotators * n_classes, n_classes)
        shape = (n_annotators, n_classes, n_classes)
        self.register_buffer("prior_rk", torch.tensor(np.broadcast_to(prior_alk, shape).reshape(-1, n_classes)))
        self.register_buffer("count_rk", torch.from_numpy(counts))
        self.register_buffer("share_k", torch.from_numpy(start.sum(axis=0)))
        self.register_buffer("q_nk", torch.from_numpy(start))
        self.register_buffer("n_steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("most_rows", torch.zeros((), dtype=torch.int64))
        gold = np.full(votes.n_items, -1) if votes.gold is None else votes.gold
        self.register_buffer("known", torch.from_numpy(gold.astype(np.int64)))
        self.sums = EpochSums()

    @property
    def alpha(self) -> Tensor:
        """Dirichlet parameters of the class shares, [K]."""
        return self.alpha0 + self.share_k

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Infer the labels of the batch, move the Dirichlets, and train the network on the labels."""
        with torch.no_grad():
            log_f = logits.detach().double().log_softmax(1)
            q = self._inferred(log_f, batch)
            self.sums.see(q, log_f)
            self.n_steps += 1
        return soft_cross_entropy(logits, q.to(logits.dtype), batch.item_weight)

    @torch.no_grad()
    def watch(self, logits: Tensor, batch: Batch) -> None:
        """In a warm-up labels are those of the start."""
        self.sums.see(self.q_nk.index_select(0, batch.rows), logits.detach().double().log_softmax(1))

    def end_epoch(self) -> dict[str, float]:
        """The bound, by its terms: see `crowdwise.parts.heads.evidence_bound`."""
        if not self.traced:
            return {}
        sums, self.sums = self.sums, EpochSums()
        counts = self.count_rk if sums.counts is None else sums.counts
        share = self.share_k if sums.shares is None else sums.shares
        shares = (share.cpu().numpy(), self.alpha.cpu().numpy(), self.alpha0) if self.shares else None
        return sums.terms(counts.view(-1, self.n_classes, self.n_classes).cpu().numpy(), self.annotators(), shares)

    def _inferred(self, log_f: Tensor, batch: Batch) -> Tensor:
        """q of the batch, [B, K], by which the Dirichlets have moved."""
        group = Group()
        part = group.part(batch)
        own = part.weight.double() / part.item_weight.double().clamp(min=1e-30).index_select(0, part.position)
        q = self._labels(group.share(log_f), part, own)
        if group.size == 1:
            self._move(q, batch, own)
            return q
        return self._move_together(q, part, own, batch, group)

    def _labels(self, log_f: Tensor, batch: Batch, weight: Tensor) -> Tensor:
        """q of the batch, [B, K]."""
        beta = self.prior_rk.index_select(0, batch.entry) + self.count_rk.index_select(0, batch.entry)
        total = (self.prior_rk + self.count_rk).view(-1, self.n_classes, self.n_classes).sum(1).digamma_()
        evidence = beta.digamma_() - total.index_select(0, batch.annotator)
        q = (self.log_shares() + log_f + batch.sum_by_item(evidence * weight[:, None])).softmax(1)
        known = self.known.index_select(0, batch.rows)
        given = torch.nn.functional.one_hot(known.clamp(min=0), self.n_classes).to(q.dtype)
        return torch.where((known >= 0)[:, None], given, q)

    def log_shares(self) -> Tensor:
        """What is known of a label before features and votes, as `f` enters it, [K]."""
        if not self.shares:
            return torch.zeros_like(self.share_k)
        return self.alpha.digamma() - self.alpha.sum().digamma()

    def _move(self, q: Tensor, batch: Batch, weight: Tensor) -> None:
        if self.memoised:
            change = q - self.q_nk.index_select(0, batch.rows)
            self.count_rk.index_add_(0, batch.entry, change.index_select(0, batch.position) * weight[:, None])
            # Differences of expected counts may leave -1e-17 where nothing is left.
            self.count_rk.clamp_(min=0)
            self.share_k += change.sum(0)
            self.q_nk[batch.rows] = q
            return
        counts = torch.zeros_like(self.count_rk)
        counts.index_add_(0, batch.entry, q.index_select(0, batch.position) * weight[:, None])
        self._step(counts, q.sum(0), len(batch.rows))

    def _step(self, counts: Tensor, shares: Tensor, n_rows: int) -> None:
        """A step along the natural gradient, towards what a batch of `n_rows` says of all items.

        The last batch of a stream may be short: its step is too, for it speaks of all items with fewer to say so.
        """
        if self.traced:
            self.sums.count(counts, shares)
        self.most_rows.clamp_(min=n_rows)
        rate = float(self.n_steps + 1) ** -_FORGETTING if self.rate is None else self.rate
        rate *= n_rows / int(self.most_rows)
        scale = self.n_taught / n_rows
        self.count_rk.lerp_(counts * scale, rate)
        self.share_k.lerp_(shares * scale, rate)

    def _move_together(self, own_q: Tensor, part: Batch, weight: Tensor, batch: Batch, group: Group) -> Tensor:
        """`_move` by the counts of all processes, each of its own part of the batch; returns q of the whole, [B, K]."""
        change = own_q - self.q_nk.index_select(0, part.rows) if self.memoised else own_q
        # Only rows that the batch votes for can change. Every process knows which: it has all votes, if not all logits.
        touched, where = torch.unique(batch.entry, return_inverse=True)
        mine = where[batch.position % group.size == group.rank]
        counts = change.new_zeros((len(touched) + 1, self.n_classes))
        counts.index_add_(0, mine, change.index_select(0, part.position) * weight[:, None])
        counts[-1] = change.sum(0)
        counts = group.sum(counts)
        q = group.gather(own_q, len(batch.rows))
        if self.memoised:
            self.count_rk.index_add_(0, touched, counts[:-1])
            self.count_rk.clamp_(min=0)
            self.share_k += counts[-1]
            self.q_nk[batch.rows] = q
        else:
            self._step(torch.zeros_like(self.count_rk).index_copy_(0, touched, counts[:-1]), counts[-1], len(batch.rows))
        return q

    def confusion(self) -> Tensor:
        """Posterior mean, [A, K, L]."""
        beta = (self.prior_rk + self.count_rk).view(-1, self.n_classes, self.n_classes)
        return (beta / beta.sum(1, keepdim=True)).transpose(1, 2)

    def annotators(self) -> DirichletConfusion:
        """The Dirichlets as engine 1 knows them."""
        shape = (-1, self.n_classes, self.n_classes)
        prior = self.prior_rk.view(shape).cpu().numpy()
        return DirichletConfusion(
            prior[:1] if self.same_prior else prior, (self.prior_rk + self.count_rk).view(shape).cpu().numpy()
        )


class LatentHead(DirichletHead):
    """The same beside a latent function that answers with expected log-likelihoods instead of logits.

    The first `warmup` epochs take the labels of the start instead of q: a function that knows nothing yet would let
    the matrices explain everything.

    What a likelihood learns of its own (`RobustMax.learn`, `Softmax.learn`) comes from items that do not teach the functions,
    because a function fits the items that it has seen better than others. They wait until the epoch `joins`; from `learns` on
    their votes are asked, before every epoch. Of few items none can be spared; all teach, and are asked as well.
    """

    # The loss is the bound already: see `crowdwise.methods.classify.bound` for its terms.
    traced = False

    start_nk: Tensor
    log_votes_k: Tensor
    asked: Tensor
    waits: Tensor

    def __init__(
        self,
        votes: Annotations,
        prior_alk: np.ndarray,
        posterior: Tensor,
        warmup: int,
        likelihood: nn.Module,
        learning: tuple[int, int] | None,
        *,
        memoised: bool = True,
        anchored: bool = False,
    ) -> None:
        super().__init__(votes, prior_alk, 1.0, posterior, memoised=memoised, shares=anchored)
        self.warmup = warmup
        shares = vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)[votes.votes_per_item > 0]
        self.register_buffer("log_votes_k", torch.from_numpy(np.log(1 + shares.sum(axis=0))))
        # In a tuple, so that it is a part of the network alone.
        self.likelihood = (likelihood,)
        self.learns, self.joins = learning or (0, 0)
        self.register_buffer("start_nk", posterior.double().clone())
        asked = np.flatnonzero((votes.votes_per_item > 0) & (self.known.numpy() < 0))
        few = len(asked) < _FEW
        chosen = torch.arange(len(asked)) if few else torch.randperm(len(asked))[: min(len(asked) // 5, _MOST_ASKED)]
        asked = np.sort(asked[chosen.numpy()]) if learning else asked[:0]
        self.asked_votes = votes.take_items(asked)
        waits = torch.zeros(votes.n_items, dtype=torch.bool)
        waits[torch.from_numpy(asked)] = not few
        self.register_buffer("asked", torch.from_numpy(asked), persistent=False)
        self.register_buffer("waits", waits, persistent=False)

    def log_shares(self) -> Tensor:
        """What draws the labels towards the class shares of the votes, [K]: zero where they have them.

        What f says of the shares of the labels becomes the geometric mean of theirs and those of the votes, as in `Anchored`.
        """
        if not self.shares:
            return torch.zeros_like(self.share_k)
        return (self.log_votes_k.log_softmax(0) - self.alpha.log().log_softmax(0)) / 2

    @torch.no_grad()
    def begin_epoch(self, epoch: int, log_prob: Callable[..., Tensor]) -> None:
        """Let the likelihood learn."""
        if not self.learns <= epoch < self.joins or len(self.asked) == 0:
            return
        (likelihood,) = self.likelihood
        with likelihood.unlearned():  # type: ignore[operator]
            log_p = log_prob(self.asked).double()
        likelihood.learn(log_p, self._told(epoch).to(log_p.device))  # type: ignore[operator]

    def _told(self, epoch: int) -> Tensor:
        """Likelihood of the votes on the items that are asked, by class, up to a factor per item, [n, K].

        By the mean matrices: these items have hardly taught the annotators. The mean logarithms by which labels are inferred
        belong to a bound, and take what was rarely seen for nearly impossible.
        """
        if epoch < self.warmup:
            return self.start_nk[self.asked]
        told = np.zeros((len(self.asked), self.n_classes))
        even = np.full((1, self.n_classes), -np.log(self.n_classes))
        predictive(self.annotators()).infer(self.asked_votes, even, np.empty(0, np.int16), told)
        return torch.from_numpy(told)

    @torch.no_grad()
    def _labelled(self, expected: Tensor, batch: Batch) -> Tensor:
        """Labels to train on, [B, K], in the precision of `expected`; zeros for items that wait."""
        if batch.epoch < self.warmup:
            q = self.start_nk.index_select(0, batch.rows)
        else:
            q = self._inferred(expected.detach().double(), batch)
        if batch.epoch < self.joins:
            q = q * ~self.waits.index_select(0, batch.rows)[:, None]
        return q.to(expected.dtype)

    def _labels(self, log_f: Tensor, batch: Batch, weight: Tensor) -> Tensor:
        q = super()._labels(log_f, batch, weight)
        if batch.epoch >= self.joins:
            return q
        # The matrices keep what they had of items that wait.
        return torch.where(self.waits.index_select(0, batch.rows)[:, None], self.q_nk.index_select(0, batch.rows), q)
