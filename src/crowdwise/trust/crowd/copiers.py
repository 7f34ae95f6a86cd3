"""Copiers: pairs of annotators who agree more than their confusion matrices explain.

Tests, for every pair that met, that the share of agreements exceeds its expectation under independence
given the class (see `crowdwise.engines.dependence`) by more than `least`; one-sided, with
Benjamini-Hochberg over all pairs.

Notes
-----
`least` is there because items of unequal difficulty make *everybody* agree a little more than
independence says: with thousands of common items such small excesses are certain and harmless.
Confusion matrices must come from a model (Dawid-Skene and its kin): those plugged in after a plain
vote are fitted to that vote and leave excess everywhere.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.engines.dependence import Residuals
from crowdwise.estimator.outcome import Result
from crowdwise.trust.crowd.pairs import of_pairs, sampling_notes
from crowdwise.trust.crowd.report import Report, benjamini_hochberg, check_level, report, votes_of

__all__ = ["score"]

# Fewer common items than this prove nothing, and the normal approximation fails.
_FEWEST = 5


def score(
    result: Result,
    votes: Annotations | None = None,
    *,
    fdr: float = 0.05,
    least: float = 0.05,
    found: Residuals | None = None,
) -> Report:
    """Flag annotators in a pair of significant excess agreement; `score` is the largest standardised excess.

    The report's `pairs` lists flagged pairs: first, second, n_items, agreement, expected, z, p_value, q_value.
    `found` is `crowdwise.trust.crowd.pairs.of_pairs`, where it is available.
    """
    from scipy.special import ndtr

    check_level(fdr)
    votes = votes_of(result, votes)
    found = of_pairs(result, votes) if found is None else found
    z = found.z(least)
    p_value = np.where(found.n_items >= _FEWEST, ndtr(-z), np.nan)
    q_value = benjamini_hochberg(p_value)
    hit = np.nan_to_num(q_value, nan=1.0) <= fdr
    score_a, p_a, q_a = (np.full(votes.n_annotators, start) for start in (-np.inf, np.inf, np.inf))
    for side in (found.first, found.second):
        np.maximum.at(score_a, side, np.where(np.isnan(p_value), -np.inf, z))
        np.minimum.at(p_a, side, np.nan_to_num(p_value, nan=np.inf))
        np.minimum.at(q_a, side, np.nan_to_num(q_value, nan=np.inf))
    met = np.isfinite(p_a)
    score_a, p_a, q_a = (np.where(met, values, np.nan) for values in (score_a, p_a, q_a))
    names = series_of(votes.annotators)
    order = np.flatnonzero(hit)[np.argsort(-z[hit], kind="stable")]
    pairs = pl.DataFrame(
        {
            "first": names[found.first[order]],
            "second": names[found.second[order]],
            "n_items": found.n_items[order],
            "agreement": found.agree[order] / found.n_items[order],
            "expected": found.expected[order] / found.n_items[order],
            "z": z[order],
            "p_value": p_value[order],
            "q_value": q_value[order],
        }
    )
    flag = np.zeros(votes.n_annotators, bool)
    flag[found.first[hit]] = flag[found.second[hit]] = True
    reason = [""] * votes.n_annotators
    partners = np.bincount(np.concatenate([found.first[hit], found.second[hit]]), minlength=votes.n_annotators)
    # Pairs are in order of strength, so the first that names an annotator is its closest.
    for row in reversed(range(len(order))):
        pair = order[row]
        a, b = int(found.first[pair]), int(found.second[pair])
        observed, expected = found.agree[pair] / found.n_items[pair], found.expected[pair] / found.n_items[pair]
        for one, other in ((a, b), (b, a)):
            more = f" and {partners[one] - 1} more" if partners[one] > 1 else ""
            reason[one] = f"agrees with {votes.annotators[other]} on {observed:.0%} of items, expected {expected:.0%}{more}"
    notes = sampling_notes(found)
    if 2 * int(flag.sum()) > votes.n_annotators:
        notes += ("more than half of the annotators are flagged as copiers: the fit itself may follow a colluding group",)
    return report("copiers", votes, score=score_a, p_value=p_a, q_value=q_a, flag=flag, reason=reason, notes=notes, pairs=pairs)
