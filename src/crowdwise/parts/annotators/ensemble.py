"""Several annotator models that speak with one voice: the mean of their posteriors, each tilted by the items.

    q_nk = (1/M) sum_m q_nk^m,   q^m proportional to rho^m_k sum_f w_mf prod_e p_m(y_e | a_e, k, f)

See `crowdwise.kernels.tilt` for the discrimination f of an item. Members are fitted one by one; here they only infer.
Matrices of annotators are those of one member, `spokesman`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import moved
from crowdwise.kernels.tilt import DISCRIMINATIONS, infer_tilted, of_discriminations, tilt_tables
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import weight_of, weighted

__all__ = ["Ensemble", "infer_member"]

_NONE_KNOWN: Integers = np.empty(0, np.int16)


@storable
@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted members with what each makes of the class shares and of the items' discriminations.

    Attributes
    ----------
    members
        Annotator models with a `log_table()`.
    log_share_mk : [M, K]
        Log class shares of every member.
    log_share_k : [K]
        Those that are reported; inference adds what members think otherwise to the prior that it is given.
    share_mf : [M, F]
        Shares of discriminations among the items, by member.
    spokesman : int
        The member whose matrices describe the annotators.
    """

    members: tuple[Any, ...]
    log_share_mk: Floats
    log_share_k: Floats
    share_mf: Floats
    spokesman: int

    #: Inference takes E log pi; see `crowdwise.parts.annotators.model.predictive`.
    expects_logs: ClassVar[bool] = True
    #: Annotators with few votes are judged by all.
    pools: ClassVar[bool] = True
    #: Its posterior is a mean of models, not one that its matrices alone would give.
    averages: ClassVar[bool] = True

    def fits(self, votes: Annotations) -> bool:
        """Whether members read from a file are annotator models, and the one that speaks is among them."""
        return (
            all(hasattr(member, "log_table") for member in self.members)
            and len(self.members) == len(self.log_share_mk) == len(self.share_mf)
            and self.share_mf.shape[1] == len(DISCRIMINATIONS)
            and 0 <= self.spokesman < len(self.members)
        )

    @property
    def described(self) -> Any:
        """The member whose matrices describe the annotators."""
        return self.members[self.spokesman]

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """Mean of the members' posteriors, and of their log-evidence."""
        total, log_evidence = np.zeros(posterior.shape), 0.0
        own = np.empty(posterior.shape)
        for member, log_share, share in zip(self.members, self.log_share_mk, self.share_mf, strict=True):
            evidence, top = infer_member(member, votes, log_prior + log_share - self.log_share_k, known, share, own)
            log_evidence += float(top.sum() + np.log(evidence @ share).sum())
            total += own
        total /= len(self.members)
        change = moved(total, posterior)
        posterior[:] = total
        return log_evidence / len(self.members), change

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of each vote, [len(index), K]: its mean over members and what they think of the item's discrimination."""
        items = votes.item[index]
        rows = np.zeros((len(index), votes.n_classes))
        own = np.empty((votes.n_items, votes.n_classes))
        for member, log_share, share in zip(self.members, self.log_share_mk, self.share_mf, strict=True):
            log_table, log_norm = tilt_tables(member.log_table())
            evidence, _ = infer_member(member, votes, log_share[None, :], _NONE_KNOWN, share, own)
            kind = of_discriminations(evidence, share)[items]
            rows += (kind @ DISCRIMINATIONS)[:, None] * log_table[votes.row[index]]
            rows -= np.einsum("ef,efk->ek", kind, log_norm[votes.annotator[index]])
        rows /= len(self.members)
        return weighted(votes, index, rows)

    def discrimination(self, votes: Annotations) -> Floats:
        """Probability of every discrimination for every item, mean over members, [N, F] in the order of `DISCRIMINATIONS`."""
        kinds = np.zeros((votes.n_items, len(DISCRIMINATIONS)))
        own = np.empty((votes.n_items, votes.n_classes))
        for member, log_share, share in zip(self.members, self.log_share_mk, self.share_mf, strict=True):
            evidence, _ = infer_member(member, votes, log_share[None, :], _NONE_KNOWN, share, own)
            kinds += of_discriminations(evidence, share)
        return kinds / len(self.members)

    def penalty(self) -> float:
        """None: members are fitted one by one."""
        return 0.0

    def aligned(self, index: Integers, item_index: Integers) -> Ensemble:
        """Reorder the annotators of every member."""
        return replace(self, members=tuple(member.aligned(index, item_index) for member in self.members))

    def confusion(self) -> Floats:
        """Mean matrices of the member that describes annotators, [A, K, L]."""
        return np.asarray(self.described.confusion())

    def concentration(self) -> Floats:
        """Their Dirichlet parameters, [A, K, L]."""
        return np.asarray(self.described.concentration())


def infer_member(
    member: Any, votes: Annotations, log_prior: Floats, known: Integers, share_f: Floats, posterior: Floats
) -> tuple[Floats, Floats]:
    """Tilted posteriors of one member; return the evidence by discrimination and the logs of what divided it."""
    log_table, log_norm = tilt_tables(member.log_table())
    if votes.soft:
        from crowdwise.parts.annotators.soft import infer_soft_tilted

        return infer_soft_tilted(votes, log_table, log_norm, log_prior, known, share_f, posterior)
    return infer_tilted(votes.item_ptr, votes.row, weight_of(votes), log_table, log_norm, log_prior, known, share_f, posterior)
