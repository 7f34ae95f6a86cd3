"""Dependent annotators: groups that share errors, found in the votes before any fit.

The preferred reading of `crowdwise.trust.crowd.dependence`. Members of a group count almost as one annotator, so a fit that
takes them as independent is too sure of itself: refit with ``make("group-dawid-skene", groups=groups(result))``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.gold import encode_gold
from crowdwise.engines.independence import LEVEL, Dependence, find
from crowdwise.engines.readings import SharedErrors
from crowdwise.estimator.outcome import Result
from crowdwise.trust.crowd.report import Report, check_level, report, votes_of
from crowdwise.trust.metrics import accuracy, ece, ece_debiased

__all__ = ["groups", "overconfidence", "score"]


def score(result: Result, votes: Annotations | None = None, *, level: float = LEVEL, found: Dependence | None = None) -> Report:
    """Flag annotators who belong to a group; `score` is the group's excess agreement, as a share of what is possible.

    `p_value` and `q_value` are the chance of any such group among independent annotators. `found` is
    `crowdwise.trust.crowd.dependence.find`, where it is available, perhaps settled by known labels or a trusted annotator.
    """
    check_level(level)
    votes = votes_of(result, votes)
    found = find(votes, level=level) if found is None else found
    number = np.zeros(votes.n_annotators, np.int64)
    excess, p_value = np.full((2, votes.n_annotators), np.nan)
    reason = [""] * votes.n_annotators
    for j, group in enumerate(found.groups, start=1):
        number[group.members], excess[group.members], p_value[group.members] = j, group.excess, group.p_value
        for a in group.members.tolist():
            reason[a] = f"group {j}: {_reason(group)}"
    return report(
        "groups",
        votes,
        score=excess,
        p_value=p_value,
        q_value=p_value,
        flag=number > 0,
        reason=reason,
        more={"group": number},
        notes=_notes(found, votes),
    )


def groups(result: Result, votes: Annotations | None = None, *, level: float = LEVEL) -> dict[Any, int]:
    """Annotator -> group, for the setting `groups` of group-aware methods; those who stand alone are left out."""
    frame = score(result, votes, level=level).frame
    return {name: group for name, group in zip(frame["annotator"], frame["group"], strict=True) if group}


def overconfidence(result: Result, truth: Any) -> dict[str, float]:
    """Mean confidence beside accuracy where the truth is known, their gap, and the calibration error with and without chance.

    Parameters
    ----------
    truth : mapping, frame, Series or sequence
        True labels of all or some items, in any shape that ``fit(votes, gold)`` takes.
    """
    truth_n = encode_gold(result.votes, truth)
    known = truth_n >= 0
    confidence = float(result.confidence[known].mean()) if known.any() else float("nan")
    right = accuracy(result.posterior, truth_n)
    errors = {measure.__name__: measure(result.posterior, truth_n) for measure in (ece, ece_debiased)}
    return {"confidence": confidence, "accuracy": right, "gap": confidence - right, **errors}


def _reason(group: SharedErrors) -> str:
    others = "1 other" if len(group.members) == 2 else f"{len(group.members) - 1} others"
    low, high = group.interval
    return f"shares errors with {others} (excess agreement {group.excess:.2f}, {low:.2f} to {high:.2f})"


def _notes(found: Dependence, votes: Annotations) -> tuple[str, ...]:
    """That the votes can be read otherwise, where they can."""
    if len(found.readings) < 2:
        return ()
    who = "nobody shares errors"
    if groups := found.readings[1].groups:
        names = [str(name) for name in max(groups, key=lambda group: group.share).names(votes)]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        who = f"{', '.join(names[:5])}{more} share errors"
    return (
        f"the votes can also be read so that {who}; name an annotator to rely on (--trusted), or known labels (--gold), to "
        "choose",
    )
