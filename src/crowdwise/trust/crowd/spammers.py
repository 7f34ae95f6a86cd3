"""Spammers by two detectors that err differently, each at half the false-discovery rate.

`crowdwise.trust.crowd.covariance` looks at the votes alone and needs no fitted confusion matrix;
`crowdwise.trust.crowd.raykar_yu` looks at the fitted matrix with its uncertainty and sees more in few votes. An
annotator is flagged if either says so; by the union bound the false-discovery rate stays below `fdr`.
"""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.outcome import Result
from crowdwise.trust.crowd import covariance, raykar_yu
from crowdwise.trust.crowd.report import Report, report, votes_of

__all__ = ["score"]


def score(
    result: Result, votes: Annotations | None = None, *, rule: str = "fdr", fdr: float = 0.05, random_state: int | None = 0
) -> Report:
    """Flag spammers; `score` is the lower of both scores, each the share of a perfect annotator's information.

    `rule` is "fdr", or "k-means" for the covariance detector's clusters alone, as in the tutorial.
    """
    if rule == "k-means":
        return covariance.score(result, votes, rule=rule, fdr=fdr)
    votes = votes_of(result, votes)
    first = covariance.score(result, votes, rule=rule, fdr=fdr / 2)
    second = raykar_yu.score(result, votes, fdr=fdr / 2, random_state=random_state)
    columns = {
        name: np.stack([found.frame[name].cast(float).fill_null(np.nan).to_numpy() for found in (first, second)])
        for name in ("score", "p_value", "q_value")
    }
    # Two looks at one annotator: the smaller of two numbers, doubled where it is a probability.
    lowest = {name: np.fmin(*values) for name, values in columns.items()}
    flags = [found.frame["flag"].to_numpy() for found in (first, second)]
    reason = [a if f else b for f, a, b in zip(flags[0].tolist(), first.frame["reason"], second.frame["reason"], strict=True)]
    return report(
        "spammers",
        votes,
        score=lowest["score"],
        p_value=np.minimum(2 * lowest["p_value"], 1.0),
        q_value=np.minimum(2 * lowest["q_value"], 1.0),
        flag=flags[0] | flags[1],
        reason=reason,
        more={"by_covariance": flags[0], "by_confusion": flags[1]},
    )
