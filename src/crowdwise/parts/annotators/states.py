"""Votes that depend on a latent state within the class: what one vote says for each class, the states summed out."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import table_log_lik

__all__ = ["shared_log_lik", "states_log_lik"]


def states_log_lik(votes: Annotations, index: Integers, log_table_als: Floats, log_share_km: Floats) -> Floats:
    """Evidence of each vote for every class, given the other votes on its item, [len(index), K].

    log sum_m pi_km prod_e v_ekm = sum_e sum_m r_km log v_ekm - KL(r_k || pi_k), r the posterior of
    the states of a class; the last term belongs to the item's votes together and is divided by weight.
    """
    n_classes, n_states = log_share_km.shape
    about, position = np.unique(votes.item[index], return_inverse=True)
    some = votes[about]
    scores = np.zeros((len(about), n_classes * n_states))
    np.add.at(scores, some.item, table_log_lik(some, np.arange(some.n_votes), log_table_als))
    with_prior = scores.reshape(-1, n_classes, n_states) + log_share_km
    top = with_prior.max(axis=2, keepdims=True)
    r_nkm = np.exp(with_prior - top)
    total = r_nkm.sum(axis=2, keepdims=True)
    r_nkm /= total
    together = (top + np.log(total))[:, :, 0] - (r_nkm * scores.reshape(r_nkm.shape)).sum(axis=2)
    rows = table_log_lik(votes, index, log_table_als).reshape(len(index), n_classes, n_states)
    return shared_log_lik(votes, index, (rows * r_nkm[position]).sum(axis=2), together[position])


def shared_log_lik(votes: Annotations, index: Integers, own_ek: Floats, together_ek: Floats) -> Floats:
    """A vote's own evidence plus its part, by weight, of what the votes of its item say together, [len(index), K]."""
    total = votes.weight_per_item[votes.item[index]]
    part = np.where(total > 0, votes.weights[index] / np.where(total > 0, total, 1.0), 0.0)
    return np.asarray(own_ek + part[:, None] * together_ek)
