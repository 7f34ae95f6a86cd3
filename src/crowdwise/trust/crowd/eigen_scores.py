"""Reliability by the first eigenvector of agreements: Ghosh's score, and the ratio of eigenvectors.

One-coin annotators, s_a = (K p_a - 1) / (K - 1): on a common item, x = (K 1[same] - 1) / (K - 1) has mean s_a s_b.

    X_ab = sum over common items of x,   N_ab = number of common items         both with n_a on the diagonal
    ghosh         s_a proportional to v_a, X v = lambda v: exact where all pairs met equally often
    eigen-ratio   s_a = sqrt(lambda / mu) v_a / u_a,  N u = mu u: allows for annotators with few and with many votes

Spammers have s = 0. An annotator is flagged if chance is no excuse for an estimate so far below sqrt(`least`): one-sided, with
standard error 1 / sqrt(n_a), Benjamini-Hochberg over annotators.

Notes
-----
The sign makes most votes right. Sparse products; memory in pairs that met. For two classes X is U'U of votes -1, +1.

References
----------
Ghosh, Kale and McAfee (2011), Who moderates the moderators?, EC. Dalvi, Dasgupta, Kumar and Rastogi (2013), Aggregating
crowdsourced binary ratings, WWW.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats
from crowdwise.trust.crowd.pairs import Met, of_pairs, sampling_notes
from crowdwise.trust.crowd.report import Report, benjamini_hochberg, check_level, report, votes_of

__all__ = ["KINDS", "reliability", "score"]


KINDS = ("ghosh", "eigen-ratio")
_ROUNDS, _CLOSE = 1000, 1e-10


def score(
    result: Result,
    votes: Annotations | None = None,
    *,
    kind: str = "eigen-ratio",
    least: float = 0.05,
    fdr: float = 0.05,
    met: Met | None = None,
) -> Report:
    """Flag annotators whose reliability is below that of one with a share `least` of a perfect one's information.

    `score` is s_a: 1 for always right, 0 for a spammer, negative for worse than chance.
    """
    from scipy.special import ndtr

    check_level(fdr)
    votes = votes_of(result, votes)
    met = of_pairs(votes) if met is None else met
    value = reliability(met, kind)
    n_votes = np.bincount(met.answers.annotator, minlength=votes.n_annotators)
    p_value = np.where(np.isnan(value), np.nan, ndtr((np.abs(value) - np.sqrt(least)) * np.sqrt(n_votes)))
    q_value = benjamini_hochberg(p_value)
    flag = np.nan_to_num(q_value, nan=1.0) <= fdr
    reason = [f"reliability {v:.2f} by agreement with others" if f else "" for v, f in zip(value, flag, strict=True)]
    notes = sampling_notes(met)
    return report(kind, votes, score=value, p_value=p_value, q_value=q_value, flag=flag, reason=reason, notes=notes)


def reliability(met: Met, kind: str = "eigen-ratio") -> Floats:
    """s_a of every annotator, [A]; NaN for those who met nobody."""
    if kind not in KINDS:
        raise SettingError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    pairs, size = met.pairs, met.pairs.n_annotators
    n_classes = np.count_nonzero(pairs.shares_l)
    own = np.bincount(met.answers.annotator, minlength=size).astype(float)
    partners = np.bincount(np.concatenate([pairs.first, pairs.second]), minlength=size)
    if n_classes < 2 or len(pairs.first) == 0:
        return np.full(size, np.nan)
    agree, v = _first(pairs, (n_classes * pairs.agree - pairs.n) / (n_classes - 1), own)
    if kind == "ghosh":
        # Where everybody answers all N items, X is about N s s', whose first eigenvalue is N |s|^2.
        value = v * np.sqrt(agree / max(float(v**2 @ own), 1e-12))
    else:
        met_often, u = _first(pairs, pairs.n, own)
        value = np.sqrt(agree / met_often) * v / np.where(np.abs(u) > 1e-12, u, np.nan)
    value = value * (1.0 if value[partners > 0] @ own[partners > 0] >= 0 else -1.0)
    return np.where(partners > 0, np.clip(value, -1, 1), np.nan)


def _first(pairs: Any, values: Floats, diagonal: Floats) -> tuple[float, Floats]:
    """The first eigenvalue and eigenvector of a symmetric sparse matrix, by power iteration from the diagonal."""
    from scipy.sparse import csr_array

    size = len(diagonal)
    every = np.arange(size)
    rows = np.concatenate([pairs.first, pairs.second, every])
    columns = np.concatenate([pairs.second, pairs.first, every])
    matrix = csr_array((np.concatenate([values, values, diagonal]), (rows, columns)), shape=(size, size))
    vector = diagonal / np.linalg.norm(diagonal)
    for _ in range(_ROUNDS):
        # Votes have no negative eigenvalue, so that powers end in the first.
        moved = matrix @ vector
        length = float(np.linalg.norm(moved))
        moved = moved / max(length, 1e-300)
        if np.abs(moved - vector).max() < _CLOSE:
            break
        vector = moved
    return length, moved
