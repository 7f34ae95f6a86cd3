"""Name the classes of confusion tables whose rows came out in an unknown order.

Moment methods find each annotator's rows up to a permutation. Two steps repair that:

1. `align_rows`: one order for everybody. The annotator with most meetings is the reference; each
   next one (most meetings with those already aligned first) is matched through the moments it
   shares with them: M_ab = R_a' P D R_b, so P D is a small least-squares problem and P its best
   assignment. No annotator needs to be better than chance for this, so adversaries are aligned too.
2. `name_classes`: one permutation for all, under which most informative annotators are better than
   chance. Every annotator whose answers depend on the class beyond doubt has one voice: class k is
   called what it says more often for k than otherwise. Gold items have one, too. Head counts rather
   than counts of labels, because a few consistent adversaries can outvote many weak but honest
   annotators on most items, yet do not outnumber them. Ties go to the naming whose posterior agrees
   best with the votes. Components of annotators that never met are named one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kernels.numerics import log_floored, segment_sum
from crowdwise.kernels.types import Array, Flags, Floats, Integers
from crowdwise.parts.annotators.model import infer_by_table

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.engines.moments import Cooccurrence

__all__ = ["align_rows", "best_names", "head_count", "name_classes"]


# More aligned partners than this add nothing to a K x K least-squares problem.
_PARTNERS = 50


def align_rows(table_alk: Floats, moments: Cooccurrence, seen: Flags) -> Floats:
    """Bring the true classes (last axis) of every seen annotator of a component into one order, [A, L, K]."""
    n_classes = moments.n_classes
    aligned = table_alk.copy()
    neighbours = moments.between(np.arange(1.0, len(moments.met_p) + 1))
    meetings = np.zeros(len(seen))
    waiting = seen.copy()
    while waiting.any():
        # Zero meetings with the aligned: a new component, whose reference is its best connected member.
        if meetings[waiting].max() > 0:
            a = int(np.argmax(np.where(waiting, meetings, -1.0)))
            aligned[a] = aligned[a][:, _row_order(a, aligned, moments, neighbours, seen & ~waiting)]
        else:
            a = int(np.argmax(np.where(waiting, moments.met_a, -1.0)))
            aligned[a] = aligned[a][:, best_names(aligned[a].T)]
        waiting[a] = False
        span = slice(neighbours.indptr[a], neighbours.indptr[a + 1])
        meetings[neighbours.indices[span]] += moments.met_p[neighbours.data[span].astype(np.int64) - 1]
    assert aligned.shape[2] == n_classes
    return aligned


def _row_order(a: int, aligned: Floats, moments: Cooccurrence, neighbours: Any, done: Flags) -> Integers:
    """The order of a's rows that its moments with aligned partners ask for."""
    span = slice(neighbours.indptr[a], neighbours.indptr[a + 1])
    partner, pair = neighbours.indices[span], neighbours.data[span].astype(np.int64) - 1
    use = np.flatnonzero(done[partner])
    use = use[np.argsort(-moments.met_p[pair[use]], kind="stable")[:_PARTNERS]]
    partner, pair = partner[use], pair[use]
    block = moments.blocks(pair)
    block = np.where((moments.first[pair] == a)[:, None, None], block, block.transpose(0, 2, 1))
    mine, theirs = aligned[a].T, aligned[partner]
    # min_G sum_b |C_ab - N_ab R_a' G R_b|^2 / N_ab, in closed form with a small ridge: spammers are singular.
    cross = mine @ np.einsum("bij,bjk->ik", block, theirs)
    left = mine @ mine.T
    right = np.einsum("b,bjk,bjm->km", moments.met_p[pair], theirs, theirs)
    size = np.eye(len(mine))
    left, right = left + 1e-6 * np.trace(left) * size, right + 1e-6 * np.trace(right) * size
    link = np.linalg.solve(left, np.linalg.solve(right.T, cross.T).T)
    return best_names(link)


def best_names(agreement: Floats) -> Integers:
    """For every name (column), the row that carries it in the assignment of highest total."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-agreement)
    order = np.empty(len(rows), np.int64)
    order[columns] = rows
    return order


def name_classes(
    table_alk: Floats,
    shares: Floats,
    votes: Annotations,
    known: Array,
    reference: Floats,
    component: Array,
    seen: Flags,
) -> tuple[Floats, Floats]:
    """Rename the true classes, component by component; `reference` holds the vote shares of items, [N, K]."""
    named, weight = table_alk.copy(), np.zeros_like(shares)
    flat = np.full(table_alk.shape[1:], 1.0)
    nothing_known = np.empty(0, np.int16)
    counts = np.ones(votes.n_votes, bool) if votes.weight is None else votes.weight > 0
    total = votes.weight_per_annotator
    gold = np.flatnonzero(known >= 0) if len(known) else np.empty(0, np.int64)
    for c in np.unique(component[seen]):
        members = seen & (component == c)
        posterior = np.zeros(reference.shape)
        only = np.where(members[:, None, None], table_alk, flat)
        infer_by_table(votes, only, log_floored(shares)[None], nothing_known, posterior)
        touched = np.unique(votes.item[members[votes.annotator] & counts])
        agreement = posterior[touched].T @ reference[touched] / max(len(touched), 1)
        heads = head_count(table_alk[members], shares, total[members])
        taught = gold[np.isin(gold, touched)]
        for label in np.unique(known[taught]):
            # A gold item speaks as loudly as an annotator, in both counts.
            said = posterior[taught[known[taught] == label]].sum(axis=0)
            agreement[:, label] += said
            heads[:, label] += said
        order = _chosen_names(agreement, heads)
        named[members] = named[members][:, :, order]
        weight += shares[order] * members.sum()
    return named, weight / weight.sum() if weight.sum() > 0 else shares


def _chosen_names(agreement: Floats, heads: Floats) -> Integers:
    """The naming that wins the head count; if it wins by less than half a head per class, the votes' naming."""
    by_votes, by_heads = best_names(agreement), best_names(heads + agreement)
    names = np.arange(len(heads))
    won, kept = (float(heads[order, names].mean()) for order in (by_heads, by_votes))
    return by_heads if won - kept > 0.5 else by_votes


def head_count(table_alk: Floats, shares: Floats, total: Floats) -> Floats:
    """How many annotators call class k by label l, [K, L], counting those whose answers surely depend on the class."""
    from scipy.special import chdtri

    n_classes = len(shares)
    used_al = np.maximum(table_alk @ shares, 1e-12)
    lift_alk = np.log(np.maximum(table_alk, 1e-12) / used_al[:, :, None])
    information = np.einsum("alk,alk,k->a", table_alk, lift_alk, shares)
    # A likelihood-ratio test of "the answer does not depend on the class", at one in a hundred.
    informed = 2 * total * information > chdtri((n_classes - 1) ** 2, 0.01)
    name_ak = lift_alk.argmax(axis=1)[informed]
    cell = np.arange(n_classes) * n_classes + name_ak
    return segment_sum(cell.ravel(), None, n_classes**2).reshape(n_classes, n_classes)
