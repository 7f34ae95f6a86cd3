"""Votes that are distributions: an annotator who gives p_el says which label l a vote would have had, not for certain.

    p(vote e | true k) = sum_l p_el pi_alk          counts of (l, k) += q_nk p_el pi_alk / sum_l' p_el' pi_al'k

The hidden label is summed out, and counts are expected under it. Taking p_el as shares of votes instead (sum_l p_el log pi_alk)
loses most of what careful probabilities say: shares near 1 / K vary less between items than any votes would, and EM ends where
all items look alike.
"""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import NO_WEIGHT, infer_table, segment_sum
from crowdwise.kernels.tilt import DISCRIMINATIONS, mix_discriminations
from crowdwise.kernels.types import Floats, Integers

__all__ = ["infer_soft", "infer_soft_tilted", "soft_counts"]


def infer_soft(votes: Annotations, table: Floats, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
    """Inference with a table of probabilities, [A L, K], as `infer_table`."""
    rows = _summed(votes, table[votes.row])
    each = np.arange(len(rows), dtype=np.int32)
    return infer_table(_item_ptr(votes), each, NO_WEIGHT, rows, log_prior, known, posterior)


def soft_counts(votes: Annotations, table_alk: Floats, posterior: Floats) -> Floats:
    """Expected confusion counts under the posterior of the classes and of the hidden labels, [A, L, K]."""
    said = np.maximum(table_alk, 1e-300).reshape(-1, table_alk.shape[2])[votes.row] * votes.weights[:, None]
    answer = np.repeat(np.arange(votes.n_answers), np.diff(votes.answer_ptr))
    mass = said / np.add.reduceat(said, votes.answer_ptr[:-1])[answer] * posterior[votes.item] if len(said) else said
    columns = [segment_sum(votes.row, mass[:, k], votes.n_annotators * votes.n_classes) for k in range(mass.shape[1])]
    return np.stack(columns, axis=1).reshape(votes.n_annotators, votes.n_classes, mass.shape[1])


def infer_soft_tilted(
    votes: Annotations,
    log_table: Floats,
    log_norm: Floats,
    log_prior: Floats,
    known: Integers,
    share_f: Floats,
    posterior: Floats,
) -> tuple[Floats, Floats]:
    """Inference with items that differ in discrimination, as `infer_tilted`."""
    scores = np.empty((votes.n_items, len(DISCRIMINATIONS), log_table.shape[1]))
    item = votes.item[votes.answer_ptr[:-1]]
    for i, f in enumerate(DISCRIMINATIONS):
        rows = np.log(_summed(votes, np.exp(f * log_table[votes.row] - log_norm[votes.annotator, i])))
        scores[:, i] = np.stack([segment_sum(item, rows[:, k], votes.n_items) for k in range(rows.shape[1])], axis=1)
    return mix_discriminations(scores + log_prior[:, None, :], known, share_f, posterior)


def _summed(votes: Annotations, rows_ek: Floats) -> Floats:
    """Weighted sum of the rows of every answer, [S, K]."""
    weighted = rows_ek * votes.weights[:, None]
    return np.maximum(np.add.reduceat(weighted, votes.answer_ptr[:-1]) if len(weighted) else weighted, 1e-300)


def _item_ptr(votes: Annotations) -> Integers:
    """Where the answers of each item begin, [N + 1]."""
    return np.searchsorted(votes.answer_ptr, votes.item_ptr).astype(np.int64)
