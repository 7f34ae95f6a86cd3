"""One round of deepBP's messages as a plain loop over annotators and their votes: what the fast code must agree with.

Written from the definition of sum-product, in the way of the papers' own code. Only the draws are a numpy axis; items,
annotators, votes and classes are Python loops. A benchmark times it too, so it must stay straightforward and linear in
the votes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["loop_round"]

Floats = NDArray[np.float64]


def loop_round(
    item: Any, annotator: Any, label: Any, prior_nk: Floats, draws_skl: Floats, messages: Floats
) -> tuple[Floats, Floats]:
    """Send every message once, first from items to annotators and then back.

        incoming_e(k)  proportional to  prior[n, k] prod of messages of the other votes on n
        message_e(k)   proportional to  mean_s draws[s, k, y_e] prod_{other votes o of a} sum_j incoming_o(j) draws[s, j, y_o]
        belief_n(k)    proportional to  prior[n, k] prod of all new messages on n

    Parameters
    ----------
    item, annotator, label : [E]
        Codes of the votes; an annotator votes at most once on an item.
    prior_nk : [N, K]
        What is known of every item before its votes: positive, rows sum to one.
    draws_skl : [S, K, K]
        Equally likely confusion matrices, P(observed l | true k), shared by all annotators.
    messages : [E, K]
        Annotator to item, as left by the round before: positive, rows sum to one. Flat rows start.

    Returns
    -------
    messages : [E, K]
        The new ones; rows sum to one.
    beliefs : [N, K]
        Rows sum to one.
    """
    n_items, n_classes = prior_nk.shape
    n_votes = len(item)
    votes_on: list[list[int]] = [[] for _ in range(n_items)]
    votes_of: list[list[int]] = [[] for _ in range(max(annotator, default=-1) + 1)]
    for e in range(n_votes):
        votes_on[item[e]].append(e)
        votes_of[annotator[e]].append(e)

    incoming = np.empty((n_votes, n_classes))
    for n in range(n_items):
        for e in votes_on[n]:
            for k in range(n_classes):
                incoming[e, k] = prior_nk[n, k]
                for other in votes_on[n]:
                    if other != e:
                        incoming[e, k] *= messages[other, k]
            incoming[e] /= incoming[e].sum()

    sent = np.empty((n_votes, n_classes))
    for own in votes_of:
        log_factor = []
        for e in own:
            factor = np.zeros(len(draws_skl))
            for k in range(n_classes):
                factor += incoming[e, k] * draws_skl[:, k, label[e]]
            log_factor.append(np.log(factor))
        log_all = np.zeros(len(draws_skl))
        for one in log_factor:
            log_all += one
        for e, one in zip(own, log_factor, strict=True):
            log_others = log_all - one
            weight = np.exp(log_others - log_others.max())
            for k in range(n_classes):
                sent[e, k] = (weight * draws_skl[:, k, label[e]]).sum()
            sent[e] /= sent[e].sum()

    beliefs = np.empty((n_items, n_classes))
    for n in range(n_items):
        for k in range(n_classes):
            beliefs[n, k] = prior_nk[n, k]
            for e in votes_on[n]:
                beliefs[n, k] *= sent[e, k]
        beliefs[n] /= beliefs[n].sum()
    return sent, beliefs
