"""Dependent annotators: groups that share errors beyond what the classes explain.

Residual agreement of all pairs that met, clustered (average linkage, Bonferroni cut; see
`crowdwise.engines.dependence`). Members of a group count almost as one annotator, so a fit that takes them as
independent is too sure of itself: refit with ``make("group-dawid-skene", groups=groups(result))``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.gold import encode_gold
from crowdwise.engines.dependence import Residuals, group_codes
from crowdwise.estimator.outcome import Result
from crowdwise.trust.crowd.pairs import of_pairs, sampling_notes
from crowdwise.trust.crowd.report import Report, check_level, report, votes_of
from crowdwise.trust.metrics import accuracy, ece

__all__ = ["groups", "overconfidence", "score"]


def score(
    result: Result,
    votes: Annotations | None = None,
    *,
    level: float = 0.05,
    least: float = 0.0,
    found: Residuals | None = None,
) -> Report:
    """Flag annotators who belong to a group; `score` is the mean standardised excess agreement with its members.

    `p_value` is that of the strongest tie inside the group and `q_value` its Bonferroni correction over
    all pairs, since the cut controls the chance of any false tie. `found` is `crowdwise.trust.crowd.pairs.of_pairs`, where
    it is available.
    """
    from scipy.special import ndtr

    check_level(level)
    votes = votes_of(result, votes)
    found = of_pairs(result, votes) if found is None else found
    code = group_codes(found, votes.n_annotators, level, least)
    z = found.z(least)
    inside = (code[found.first] == code[found.second]) & (code[found.first] >= 0)
    ends = np.concatenate([found.first[inside], found.second[inside]])
    count = np.bincount(ends, minlength=votes.n_annotators)
    total = np.bincount(ends, np.tile(z[inside], 2), minlength=votes.n_annotators)
    top = np.full(votes.n_annotators, -np.inf)
    for side in (found.first, found.second):
        np.maximum.at(top, side, z)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    p_value = np.where(np.isfinite(top), ndtr(-top), np.nan)
    q_value = np.minimum(p_value * max(len(z), 1), 1.0)
    size = np.bincount(code[code >= 0], minlength=1)
    others = ["1 other" if n == 2 else f"{n - 1} others" for n in size.tolist()]
    reason = [f"group {c + 1}: shares errors with {others[c]}" if c >= 0 else "" for c in code.tolist()]
    more = {"group": np.where(code >= 0, code + 1, 0)}
    numbers = {"score": mean, "p_value": p_value, "q_value": q_value}
    return report("groups", votes, **numbers, flag=code >= 0, reason=reason, more=more, notes=sampling_notes(found))


def groups(result: Result, votes: Annotations | None = None, *, level: float = 0.05) -> dict[Any, int]:
    """Annotator -> group, for the setting `groups` of group-aware methods; those who stand alone are left out."""
    frame = score(result, votes, level=level).frame
    return {name: group for name, group in zip(frame["annotator"], frame["group"], strict=True) if group}


def overconfidence(result: Result, truth: Any) -> dict[str, float]:
    """Mean confidence beside accuracy where the truth is known, their gap, and the calibration error (ECE).

    Parameters
    ----------
    truth : mapping, frame, Series or sequence
        True labels of all or some items, in any shape that ``fit(votes, gold)`` takes.
    """
    truth_n = encode_gold(result.votes, truth)
    known = truth_n >= 0
    confidence = float(result.confidence[known].mean()) if known.any() else float("nan")
    right = accuracy(result.posterior, truth_n)
    return {"confidence": confidence, "accuracy": right, "gap": confidence - right, "ece": ece(result.posterior, truth_n)}
