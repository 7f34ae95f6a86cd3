"""Items differ in how much they tell: votes tempered by a discrimination of the item.

With P_akl = log p(l | k) of annotator a, and f one of few discriminations,

    log p(y | a, k, f) = f P_aky - log sum_l exp(f P_akl)
    q_nk proportional to rho_k sum_f w_f prod_e p(y_e | a_e, k, f)

f = 0 is an item that nobody could tell (every answer equally likely), f = 1 one as the model has it, f = 3 an easy one. The
weights w are shares of items, found by EM.

Symbols
-------
log_table : [A K, K]   P at [a K + l, k]; sums of exp over l are one
log_norm : [A, F, K]   log sum_l exp(f P_akl)
evidence : [N, F]      sum over k of rho_k prod_e p(y_e | a_e, k, f), divided by the largest term of the item
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crowdwise.kernels.numerics import COMPILED_FROM, in_ranges, item_of_votes, of_type, segment_sum
from crowdwise.kernels.types import Floats, Integers

__all__ = ["DISCRIMINATIONS", "count_discriminations", "infer_tilted", "mix_discriminations", "mixture_weights"]
__all__ += ["of_discriminations", "tilt_tables"]

DISCRIMINATIONS: Floats = np.array([0.0, 1 / 3, 1.0, 3.0])
DISCRIMINATIONS.setflags(write=False)

# EM over the weights: at most so many rounds, until no weight moves by more; so many items of each kind beforehand.
_ROUNDS, _TOL, _PSEUDO_ITEMS = 40, 1e-3, 0.1


def tilt_tables(log_table_alk: Floats) -> tuple[Floats, Floats]:
    """Normalise a table of log-probabilities over labels; return it as [A K, K], and `log_norm`."""
    n_annotators, n_classes, n_states = log_table_alk.shape
    # Expected logs of rows without votes may all be next to minus infinity.
    table = log_table_alk - log_table_alk.max(axis=1, keepdims=True, initial=-np.inf)
    table -= np.log(np.exp(table).sum(axis=1, keepdims=True))
    norm = np.stack([np.log(np.exp(f * table).sum(axis=1)) for f in DISCRIMINATIONS], axis=1)
    return np.ascontiguousarray(table).reshape(n_annotators * n_classes, n_states), np.ascontiguousarray(norm)


def infer_tilted(
    item_ptr: Integers,
    row: Integers,
    weight: Floats,
    log_table: Floats,
    log_norm: Floats,
    log_prior: Floats,
    known: Integers,
    share_f: Floats,
    posterior: Floats,
) -> tuple[Floats, Floats]:
    """Overwrite the posteriors under these shares of discriminations; return `evidence` and the log of what divided it, [N]."""
    n_items, n_classes = posterior.shape
    if len(row) >= COMPILED_FROM:
        evidence, top = np.empty((n_items, len(share_f))), np.empty(n_items)
        from crowdwise.kernels.tilt_loops import infer_items

        arrays = (
            of_type(np.int64, item_ptr),
            of_type(np.int32, row),
            of_type(np.float64, weight),
            of_type(np.float64, log_table),
            of_type(np.float64, log_norm),
            of_type(np.float64, DISCRIMINATIONS),
            of_type(np.float64, log_prior),
            of_type(np.int16, known),
            of_type(np.float64, share_f),
        )
        in_ranges(item_ptr, lambda start, stop: infer_items(start, stop, *arrays, evidence, top, posterior))
        return evidence, top
    item, annotator = item_of_votes(item_ptr).astype(np.int64), row // n_classes
    cell = (item[:, None] * n_classes + np.arange(n_classes)).ravel()

    def by_item(rows_ek: Floats) -> Floats:
        rows = rows_ek * weight[:, None] if len(weight) else rows_ek
        return segment_sum(cell, rows.ravel(), n_items * n_classes).reshape(n_items, n_classes)

    plain = by_item(log_table[row])
    scores = np.stack([f * plain - by_item(log_norm[annotator, i]) for i, f in enumerate(DISCRIMINATIONS)], axis=1)
    return mix_discriminations(scores + log_prior[:, None, :], known, share_f, posterior)


def mix_discriminations(scores: Floats, known: Integers, share_f: Floats, posterior: Floats) -> tuple[Floats, Floats]:
    """From scores [N, F, K] to the posteriors under these shares; return `evidence` and the log of what divided it, [N]."""
    if len(known):
        given = np.flatnonzero(known >= 0)
        kept = scores[given, :, known[given]]
        scores[given] = -np.inf
        scores[given, :, known[given]] = kept
    top = scores.max(axis=(1, 2), initial=-np.inf)
    scores = np.exp(scores - top[:, None, None])
    evidence = scores.sum(axis=2)
    mixed = np.einsum("nfk,f->nk", scores, share_f)
    posterior[:] = mixed / mixed.sum(axis=1, keepdims=True)
    return evidence, top


def of_discriminations(evidence: Floats, share_f: Floats) -> Floats:
    """Probability of every discrimination for every item, [N, F]."""
    mass = evidence * share_f
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def count_discriminations(evidence: Floats, share_f: Floats, times: Floats | None = None) -> Floats:
    """The sum over items, or `times` as many, of `of_discriminations`, [F], without making it."""
    return np.asarray(share_f * (((1 if times is None else times) / (evidence @ share_f)) @ evidence))


def mixture_weights(step: Callable[[Floats], Floats]) -> Floats:
    """Shares of discriminations by EM: `step` takes shares and returns `count_discriminations`.

    Returned are the shares that the last round looked at, so that posteriors belong to them.
    """
    share = used = np.full(len(DISCRIMINATIONS), 1 / len(DISCRIMINATIONS))
    for _ in range(_ROUNDS):
        mass = step(share) + _PSEUDO_ITEMS
        new = mass / mass.sum()
        moved, used, share = float(np.abs(new - share).max()), share, new
        if moved < _TOL:
            break
    return np.asarray(used)
