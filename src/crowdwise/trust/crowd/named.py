"""Detectors that are asked for by name, beside those that always look: each a published rule of its own.

spem          Dawid-Skene with a prior of spammers that prunes as it goes   (`crowdwise.trust.crowd.spem`)
ghosh         the first eigenvector of agreements                           (`crowdwise.trust.crowd.eigen_scores`)
eigen-ratio   the same, for annotators with few and with many votes
jaffe:N       clusters annotators of two classes into N groups              (`crowdwise.trust.crowd.jaffe`)
"""

from __future__ import annotations

import numpy as np

from crowdwise.errors import SettingError, did_you_mean
from crowdwise.estimator.outcome import Result
from crowdwise.trust.crowd import eigen_scores, jaffe, spem
from crowdwise.trust.crowd.report import Report, report

__all__ = ["NAMED", "check_named", "score"]

_JAFFE = "jaffe"
NAMED = ("spem", *eigen_scores.KINDS, f"{_JAFFE}:N")


def check_named(name: str) -> None:
    """Refuse a name that no detector has, before any work."""
    what, colon, number = name.partition(":")
    if what == _JAFFE:
        if not number.isdecimal() or int(number) < 2:
            raise SettingError("jaffe needs a number of groups, 2 or more, such as jaffe:3")
    elif name not in NAMED or colon:
        raise SettingError(f"no detector {name!r}{did_you_mean(name, list(NAMED))} (there are {', '.join(NAMED)})")


def score(result: Result, name: str, *, fdr: float = 0.05) -> Report:
    """What this detector says of every annotator; `score` of jaffe is the number of the group, and nobody is flagged."""
    check_named(name)
    if name == "spem":
        return spem.score(result)
    if name in eigen_scores.KINDS:
        return eigen_scores.score(result, kind=name, fdr=fdr)
    votes = result.votes
    found = jaffe.groups(votes, int(name.partition(":")[2]))
    group = np.array(list(found.values())) + 1.0
    unknown, nobody = np.full(votes.n_annotators, np.nan), np.zeros(votes.n_annotators, bool)
    reason = [""] * votes.n_annotators
    return report(_JAFFE, votes, score=group, p_value=unknown, q_value=unknown, flag=nobody, reason=reason)
