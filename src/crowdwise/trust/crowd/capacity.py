"""Information in bits: an annotator as a noisy channel from the true class to the label.

    C_a = max_w I(w, pi_a),   I = sum_k w_k D_k,   D_k = sum_l pi_akl log(pi_akl / sum_j w_j pi_ajl)

by Blahut and Arimoto's iteration w_k <- w_k exp(D_k) / const, all annotators at once. It stops when
max_k D_k - sum_k w_k D_k, which bounds the distance from the maximum, is small. A spammer has C = 0; an
annotator who inverts every label has all the bits.

Notes
-----
The sum of capacities bounds the joint information of the annotators from above, and that is itself at
most log2 K. Flags use draws from the posterior (see `crowdwise.trust.crowd.draws`); `least` is a share of log2 K.

References
----------
Blahut (1972); Arimoto (1972), IEEE Transactions on Information Theory 18. ICASSP 2025 tutorial.
"""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Array, Floats
from crowdwise.trust.crowd.draws import score_of_draws, verdict_of_draws
from crowdwise.trust.crowd.report import Report

__all__ = ["channel_capacity", "score", "verdicts"]

# Bits that a draw's capacity may be off, and the share of log2 K below which answers carry next to nothing.
_CLOSE, _LEAST = 1e-3, 0.05


def score(
    result: Result,
    votes: Annotations | None = None,
    *,
    least: float = _LEAST,
    fdr: float = 0.05,
    n_draws: int = 100,
    random_state: int | None = 0,
) -> Report:
    """Flag annotators with less than `least` of log2 K bits; `score` is the capacity in bits."""
    bits = float(np.log2(max(result.votes.n_classes, 2)))
    return score_of_draws(
        "capacity",
        lambda confusion: channel_capacity(confusion, tol=_CLOSE),
        lambda span: f"labels carry {span} of {bits:.2g} bits in 90 % of draws",
        result,
        votes,
        least=least * bits,
        fdr=fdr,
        n_draws=n_draws,
        random_state=random_state,
    )


def verdicts(result: Result, *, fdr: float = 0.05, n_draws: int = 100, random_state: int | None = 0) -> Array:
    """The column `verdict` of `score`, [A]: spammer, informative or unknown."""
    least = _LEAST * float(np.log2(max(result.votes.n_classes, 2)))

    def reaches(confusion_akl: Floats) -> Floats:
        return np.asarray(channel_capacity(confusion_akl, tol=_CLOSE, enough=least) >= least, float)

    return verdict_of_draws(reaches, result, fdr=fdr, n_draws=n_draws, random_state=random_state)


def channel_capacity(confusion_akl: Floats, tol: float = 1e-8, max_iter: int = 10_000, enough: float | None = None) -> Floats:
    """Capacity in bits of every channel, [A].

    Parameters
    ----------
    confusion_akl : [A, K, L]
    tol : float
        Largest distance from the maximum, in bits.
    enough : float, optional
        Ask only which channels have so many bits: one that is known to, or not to, stays where it is. Information never
        falls from one round to the next and bounds capacity from below, as the largest D_k does from above.

    Examples
    --------
    >>> channel_capacity(np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])).round(4).tolist()
    [0.531, 0.0]
    """
    confusion_akl = np.asarray(confusion_akl, float)
    n_annotators, n_classes = confusion_akl.shape[:2]
    capacity = np.zeros(n_annotators)
    left = np.arange(n_annotators)
    pi, input_ak = confusion_akl, np.full((n_annotators, n_classes), 1 / n_classes)
    # sum_l pi log pi never changes; only the logs of the outputs do.
    own_ak = np.einsum("akl,akl->ak", pi, log_floored(pi))
    for _ in range(max_iter):
        output_al = np.einsum("ak,akl->al", input_ak, pi)
        d_ak = own_ak - np.einsum("akl,al->ak", pi, log_floored(output_al))
        mutual = np.einsum("ak,ak->a", input_ak, d_ak)
        capacity[left] = mutual
        top = d_ak.max(axis=1)
        going = top - mutual > tol * np.log(2)
        if enough is not None:
            going &= (mutual < enough * np.log(2)) & (top >= enough * np.log(2))
        if not going.any():
            break
        left, pi, own_ak, d_ak = left[going], pi[going], own_ak[going], d_ak[going]
        input_ak = input_ak[going] * np.exp(d_ak - top[going, None])
        input_ak /= input_ak.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(capacity, 0.0) / np.log(2))
