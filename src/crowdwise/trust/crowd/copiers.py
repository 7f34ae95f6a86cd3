"""Copiers: pairs of annotators who agree more than independent annotators of their skill would, whatever the labels are.

Null           a and b agree on a common item with probability e_ab = p_a . p_b + scale u_a u_b + least: by their own label
               shares p, and by their skill u as their agreement with everybody else shows it (`crowdwise.engines.independence`)
Test           the larger of two p-values, so that neither few meetings nor a crowd that the null does not fit makes a
               copier: binomial, of so many agreements in n_ab meetings; and normal, with the misfit tau^2 of pairs
               added to the variance. Benjamini-Hochberg over pairs
Given labels   of what is left, at least a tenth of the possible excess must remain given what all others answered on the
               item, the items on which they are divided being a stratum of their own (`confirmed_excess`)

Notes
-----
No fitted label takes part: a fit that follows a faction makes people who agree on the truth look like copiers. Pairs inside
the groups that were found (`crowdwise.trust.crowd.dependence`) are left out of the null, and tested like all others. `least`
is there because items of unequal difficulty make everybody agree a little more than skill says: with thousands of common items
such small excesses are certain and harmless.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.data.meetings import label_counts
from crowdwise.engines.independence import Background, Dependence, find
from crowdwise.engines.shared_errors import confirmed_excess
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.trust.crowd.pairs import Met, of_pairs, sampling_notes
from crowdwise.trust.crowd.report import Report, benjamini_hochberg, check_level, report, votes_of

__all__ = ["score"]

# Fewer common items than this prove nothing.
_FEWEST = 5
# What must remain of the possible excess given what others answered: as for groups.
_CONFIRMED = 0.1


def score(
    result: Result,
    votes: Annotations | None = None,
    *,
    fdr: float = 0.05,
    least: float = 0.05,
    met: Met | None = None,
    found: Dependence | None = None,
) -> Report:
    """Flag annotators in a pair of significant excess agreement; `score` is the largest standardised excess.

    The report's `pairs` lists flagged pairs: first, second, n_items, agreement, expected, z, p_value, q_value.
    `met` is `crowdwise.trust.crowd.pairs.of_pairs` and `found` is `crowdwise.trust.crowd.dependence.find`, where they are
    available; `found` may be settled by known labels or a trusted annotator.
    """
    check_level(fdr)
    votes = votes_of(result, votes)
    met = of_pairs(votes) if met is None else met
    pairs = met.pairs
    if len(pairs.first) == 0 or pairs.scale <= 0:
        # Nobody met, or there is one label to agree on.
        nothing = np.full(votes.n_annotators, np.nan)
        flag = np.zeros(votes.n_annotators, bool)
        return report("copiers", votes, score=nothing, p_value=nothing, q_value=nothing, flag=flag, reason=[""] * len(flag))
    background = _null(met, find(votes) if found is None else found)
    expected = np.clip(pairs.chance + pairs.scale * background.explained, 0.02, 0.98)
    z = (pairs.beyond - background.explained - least / pairs.scale) / np.sqrt(background.variance)
    p_value = _p_values(z, pairs.agree, pairs.n, np.minimum(expected + least, 0.98))
    q_value = benjamini_hochberg(p_value)
    hit = _confirmed(np.nan_to_num(q_value, nan=1.0) <= fdr, met, votes)
    order = np.flatnonzero(hit)[np.argsort(-z[hit], kind="stable")]
    names = series_of(votes.annotators)
    columns = {"n_items": pairs.n, "agreement": pairs.agree / pairs.n, "expected": expected, "z": z}
    columns |= {"p_value": p_value, "q_value": q_value}
    table = pl.DataFrame(
        {"first": names[pairs.first[order]], "second": names[pairs.second[order]]}
        | {name: values[order] for name, values in columns.items()}
    )
    flag = np.zeros(votes.n_annotators, bool)
    flag[pairs.first[hit]] = flag[pairs.second[hit]] = True
    top, lowest_p, lowest_q = _by_annotator(met, votes.n_annotators, z, p_value, q_value)
    return report(
        "copiers",
        votes,
        score=top,
        p_value=lowest_p,
        q_value=lowest_q,
        flag=flag,
        reason=_reasons(votes, table, pairs.first[order], pairs.second[order]),
        notes=sampling_notes(met),
        pairs=table,
    )


def _null(met: Met, found: Dependence) -> Background:
    """What skill explains, by the pairs that are not inside a group."""
    pairs = met.pairs
    inside = np.zeros(len(pairs.first), bool)
    if found:
        code = found.readings[0].code
        together = (code[pairs.first] == code[pairs.second]) & (code[pairs.first] >= 0)
        # Where everybody is in one group nothing is left to compare with.
        inside = together if not together.all() else inside
    typical = max(pairs.level(0.5, ~inside), 0.0)
    return pairs.explained_by_skill(pairs.unit_variance(typical), inside, typical)


def _p_values(z: Floats, agree: Floats, n: Floats, expected: Floats) -> Floats:
    """The chance of so much agreement, [P]; NaN for pairs that met too rarely."""
    from scipy.special import betainc, ndtr

    # P(X >= k) of a binomial as an incomplete beta function, which repeated votes with broken k need.
    binomial = np.where(agree > 0, betainc(np.maximum(agree, 1e-9), n - agree + 1, expected), 1.0)
    return np.where(n >= _FEWEST, np.maximum(binomial, ndtr(-z)), np.nan)


def _confirmed(hit: Flags, met: Met, votes: Annotations) -> Flags:
    """The pairs whose excess remains given what others answered."""
    if not hit.any():
        return hit
    counts_nl = label_counts(met.answers, votes.n_items)
    kept = hit.copy()
    for p in np.flatnonzero(hit).tolist():
        members = np.array([met.pairs.first[p], met.pairs.second[p]])
        kept[p] = confirmed_excess(met.answers, counts_nl, members) >= _CONFIRMED
    return kept


def _by_annotator(met: Met, n_annotators: int, z: Floats, p_value: Floats, q_value: Floats) -> list[Floats]:
    """The strongest tie of every annotator; NaN for those who were not tested."""
    top, lowest_p, lowest_q = (np.full(n_annotators, start) for start in (-np.inf, np.inf, np.inf))
    tested = ~np.isnan(p_value)
    for side in (met.pairs.first[tested], met.pairs.second[tested]):
        np.maximum.at(top, side, z[tested])
        np.minimum.at(lowest_p, side, p_value[tested])
        np.minimum.at(lowest_q, side, q_value[tested])
    known = np.isfinite(lowest_p)
    return [np.where(known, values, np.nan) for values in (top, lowest_p, lowest_q)]


def _reasons(votes: Annotations, table: pl.DataFrame, first: Integers, second: Integers) -> list[str]:
    """The closest partner of every flagged annotator in words, and how many more there are."""
    partners = np.bincount(np.concatenate([first, second]), minlength=votes.n_annotators)
    reason = [""] * votes.n_annotators
    # Pairs are in order of strength, so the first that names an annotator is its closest.
    for row in reversed(range(table.height)):
        observed, expected = table["agreement"][row], table["expected"][row]
        for one, other in ((int(first[row]), int(second[row])), (int(second[row]), int(first[row]))):
            more = f" and {partners[one] - 1} more" if partners[one] > 1 else ""
            reason[one] = f"agrees with {votes.annotators[other]} on {observed:.0%} of items, expected {expected:.0%}{more}"
    return reason
