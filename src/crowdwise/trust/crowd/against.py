"""Colluders: groups that share errors and agree with everybody else no more than chance lets them.

Agreement of a group beyond what skill explains, pooled over all pairs that met (`crowdwise.trust.crowd.dependence`), shows
colluders in sparse votes too, where single pairs met on a few items; a family of judges that errs together agrees with the
others and is no such group. `crowdwise.trust.crowd.colluders` is the test by the rank of the agreement matrix.

Notes
-----
`score` is the group's agreement beyond chance with those outside; flagged is whoever is not above zero by more than chance.
With two classes, annotators who give the wrong one independently of each other are steady adversaries and share nothing that
a group could be found by.
"""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.independence import Dependence, find
from crowdwise.estimator.outcome import Result
from crowdwise.trust.crowd.report import Report, report, votes_of

__all__ = ["score"]


def score(result: Result, votes: Annotations | None = None, *, found: Dependence | None = None) -> Report:
    """Flag annotators of groups that work against the others; `p_value` and `q_value` are those of the group.

    `found` is `crowdwise.trust.crowd.dependence.find`, where it is available, perhaps settled by known labels or a trusted
    annotator.
    """
    votes = votes_of(result, votes)
    found = find(votes) if found is None else found
    outside, p_value = np.full((2, votes.n_annotators), np.nan)
    reason = [""] * votes.n_annotators
    for group in found.groups:
        outside[group.members], p_value[group.members] = group.outside, group.p_value
        if group.against:
            words = f"shares errors with {len(group.members) - 1} more, and agrees with all others no more than by chance"
            for a in group.members.tolist():
                reason[a] = words
    flag = np.array([bool(text) for text in reason], bool)
    return report("colluders", votes, score=outside, p_value=p_value, q_value=p_value, flag=flag, reason=reason)
