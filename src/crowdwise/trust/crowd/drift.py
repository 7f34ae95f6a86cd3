"""Drift: annotators whose quality changes along time.

Every vote leaves a residual, agreement with the consensus minus what the annotator's confusion matrix
expects on that item, so that a changing mix of classes is no drift:

    u_e = q[n_e, y_e] - sum_k q[n_e, k] pi[a_e, k, :] . q[n_e, :]

In the order of time, the standardised cumulative sum of an annotator's centred residuals tends to a
Brownian bridge when quality is constant. Its largest absolute value tests against one change point
(and against trends) with Kolmogorov's distribution, without permutations; Benjamini-Hochberg over annotators.

Notes
-----
The limit is approached from below, so the test is conservative for few votes. Votes of equal time have
no order: the sum is looked at only between different times. Changes below 5 points are not flagged. Cost: O(E (log E + K^2)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.trust.crowd.report import Report, benjamini_hochberg, check_level, report, votes_of
from crowdwise.trust.crowd.times import time_of_votes

__all__ = ["score"]


# Votes of an annotator, and the change of the agreement to report. Where one of a few annotators changes, the consensus is less
# sure from then on and the agreement of all others falls by fractions of a point: no chance, and nothing to act on.
_FEWEST, _LEAST = 10, 0.05


def score(result: Result, time: Any, votes: Annotations | None = None, *, fdr: float = 0.05) -> Report:
    """Flag annotators whose agreement with the consensus changes along time.

    Parameters
    ----------
    time : [E] or frame
        Times in the order of the votes (numbers or datetimes), or a frame with item, annotator and time
        (and label, where an annotator answers an item more than once).

    Returns
    -------
    Report
        `score` is the largest standardised cumulative sum; the frame has `before`, `after` (mean
        agreement with the consensus) and `changed_at` (time of the first vote after the change).
    """
    from scipy.special import kolmogorov

    check_level(fdr)
    votes = votes_of(result, votes)
    time_e = time_of_votes(votes, time)
    timed = np.flatnonzero(~np.isnan(time_e))
    order = timed[np.lexsort((time_e[timed], votes.annotator[timed]))]
    who, when = votes.annotator[order], time_e[order]
    agreement = result.model_posterior[votes.item[order], votes.label[order]]
    residual = agreement - _expected(result, votes, order)
    n, n_annotators = segment_sum(who, None, votes.n_annotators), votes.n_annotators
    centred = residual - (segment_sum(who, residual, n_annotators) / np.maximum(n, 1))[who]
    sd = np.sqrt(segment_sum(who, centred**2, n_annotators))
    start = np.concatenate([[0], np.cumsum(n)]).astype(int)[:-1]
    total = np.cumsum(centred)
    # Sums restart with every annotator; centring makes each end at zero, but only up to rounding.
    before_own = np.concatenate([[0.0], total])[start]
    walk = np.abs(total - before_own[who])
    last = np.ones(len(order), bool)
    last[:-1] = (who[1:] != who[:-1]) | (when[1:] != when[:-1])
    walk[~last] = 0.0
    largest, place = _largest_by(who, walk, n_annotators)
    statistic = np.where(sd > 1e-9, largest / np.where(sd > 1e-9, sd, 1.0), 0.0)
    p_value = np.where(n >= _FEWEST, kolmogorov(statistic), np.nan)
    q_value = benjamini_hochberg(p_value)
    first = np.arange(len(order)) <= place[who]
    before, after = (
        segment_sum(who[part], agreement[part], n_annotators) / np.maximum(segment_sum(who[part], None, n_annotators), 1)
        for part in (first, ~first)
    )
    flag = (np.nan_to_num(q_value, nan=1.0) <= fdr) & (np.abs(after - before) >= _LEAST)
    changed = np.where(n > 0, when[np.minimum(place + 1, max(len(when) - 1, 0))] if len(when) else 0.0, np.nan)
    reason = [
        f"agreement with the consensus {'fell' if b > a else 'rose'} from {b:.0%} to {a:.0%}"
        if f else "" if m >= _FEWEST else "too few votes to tell"
        for f, b, a, m in zip(flag, before, after, n, strict=True)
    ]  # fmt: skip
    more = {"before": np.where(n > 0, before, np.nan), "after": np.where(n > 0, after, np.nan), "changed_at": changed}
    left_out = votes.n_votes - len(order)
    notes = (f"{left_out} votes without a time were left out",) if left_out else ()
    return report(
        "drift", votes, score=statistic, p_value=p_value, q_value=q_value, flag=flag, reason=reason, more=more, notes=notes
    )


def _expected(result: Result, votes: Annotations, order: Array) -> Floats:
    """Expected agreement of each vote with the consensus, sum_kl q_nk pi_akl q_nl, [len(order)]."""
    q, who, expected = result.model_posterior[votes.item[order]], votes.annotator[order], np.zeros(len(order))
    for k in range(votes.n_classes):
        expected += q[:, k] * np.einsum("el,el->e", result.confusion[who, k], q)
    return expected


def _largest_by(who: Array, walk: Floats, n_annotators: int) -> tuple[Floats, Integers]:
    """Largest entry of every annotator's run and its (first) position, [A] each."""
    largest = np.zeros(n_annotators)
    np.maximum.at(largest, who, walk)
    place = np.full(n_annotators, -1)
    hits = np.flatnonzero(walk == largest[who])[::-1]
    place[who[hits]] = hits
    return largest, place
