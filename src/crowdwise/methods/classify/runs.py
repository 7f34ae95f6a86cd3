"""What the runs of one fit share, and what one of them leaves: see `crowdwise.methods.classify.trained`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.plan import History
from crowdwise.engines.gradient.rows import Rows
from crowdwise.engines.loop import Progress
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.start import attended_rows, start_confusion
from crowdwise.parts.annotators.model import Confusion
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.confusion import identity_confusion
from crowdwise.parts.heads.head import Head

__all__ = ["Member", "Start", "Task", "counted_confusion", "point_confusion", "split_items", "without_votes"]


@dataclass(frozen=True, eq=False)
class Start:
    """What a head starts from.

    Attributes
    ----------
    posterior : [N, K]
        Labels from an aggregation of the votes (vote shares for the identity start).
    confusion : [A, K, L]
        Confusion matrices under that posterior, or near-identity ones.
    identity : bool
        The papers' own start was asked for.
    table : optional
        What the head itself reads beside the network, where it does: features, or predictions of a network trained before.
    network : nn.Module
        What the head will stand beside.
    """

    posterior: torch.Tensor
    confusion: torch.Tensor
    identity: bool
    dtype: torch.dtype
    table: Any = None
    network: nn.Module | None = None

    @classmethod
    def of(cls, votes: Annotations, init: Any, posterior: Floats, dtype: torch.dtype) -> Start:
        """The start that `init` names, from the posterior that it gave."""
        identity = isinstance(init, str) and init == "identity"
        if identity:
            confusion = identity_confusion(votes.n_annotators, votes.n_classes, dtype)
        else:
            confusion = torch.tensor(start_confusion(votes, posterior), dtype=dtype)
        return cls(torch.tensor(posterior, dtype=dtype), confusion, identity, dtype)

    @property
    def n_classes(self) -> int:
        """K."""
        return self.posterior.shape[1]


@dataclass(frozen=True, eq=False)
class Task:
    """What all runs of one fit share: items, votes, where and from what training starts, who judges and who listens."""

    rows: Rows
    votes: Annotations
    vote_list: VoteList
    known: torch.Tensor | None
    start: Start
    device: torch.device
    fingerprint: str
    progress: Progress | None
    given: Any = None
    callbacks: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Member:
    """One trained network: what rebuilds it, its head, and the history of the run that chose the number of epochs."""

    network: nn.Module
    spec: dict[str, Any] | None
    head: Head
    history: History


def split_items(votes: Annotations, share: float, seed: int) -> tuple[Integers, Integers]:
    """Items to train on, and a share whose votes only judge; items with neither votes nor gold teach nothing."""
    voted = votes.votes_per_item > 0
    order = np.random.default_rng(seed).permutation(np.flatnonzero(voted))
    n_held = int(share * len(order))
    only_gold = np.flatnonzero(~voted & votes.is_known)
    return np.sort(np.concatenate([order[n_held:], only_gold])), np.sort(order[:n_held])


def without_votes(votes: Annotations, items: Integers) -> Annotations:
    """The same items, with no votes on these: heads that count votes must not see those that judge them."""
    if not len(items):
        return votes
    judged = np.zeros(votes.n_items, bool)
    judged[items] = True
    fewer = votes.take_votes(~judged[votes.item])
    return fewer if fewer.gold is None else replace(fewer, gold=np.where(judged, -1, fewer.gold))


def point_confusion(confusion_akl: Floats, votes: Annotations) -> Confusion:
    """Fitted matrices as the annotator part of a `Result`; annotators never seen get their mean, weighted by votes."""
    pi_alk = np.ascontiguousarray(confusion_akl.transpose(0, 2, 1))
    share = votes.votes_per_annotator + 1e-9
    pooled = np.einsum("a,alk->lk", share / share.sum(), pi_alk)
    return Confusion(prior_alk=np.zeros((1, votes.n_classes, votes.n_classes)), pi_alk=pi_alk, pooled_lk=pooled)


def counted_confusion(votes: Annotations, posterior: Floats) -> Confusion:
    """Matrices counted under the labels of a fit, [N, K]; rows have K pseudo-votes, as the crowd votes when they attend."""
    pseudo = votes.n_classes * attended_rows(votes, posterior)
    return Confusion.start(pseudo, votes.n_annotators).update(votes, posterior)
