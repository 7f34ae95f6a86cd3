"""Group-aware vote: one voice for every group of dependent annotators.

Inside a group on an item, the most voted class wins (ties split the voice); across groups, every
voice counts the same. Annotators without a group speak for themselves, so without groups this is
`majority`.

Notes
-----
With `history`, a vote weighs as much as its annotator was right before, and a group's voice as
much as the mean of the members who voted; annotators without a record weigh as the typical one.
``groups="auto"`` is found as in `group-dawid-skene`. Cost: O(E log E) beside that.

References
----------
ICASSP 2025 tutorial on learning from crowdsourced labels, "Group-aware MV".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from crowdwise.engines.independence import LEVEL
from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.history import right_and_wrong_in_all
from crowdwise.kernels.numerics import clamp, ratio
from crowdwise.methods.labels.grouping import ABOUT_GROUPS, ABOUT_LEVEL, groups_of
from crowdwise.parts.annotators.group_votes import GroupVotes

__all__ = ["GroupVote"]


@dataclass(eq=False, repr=False, kw_only=True)
class GroupVote(Aggregator):
    """A vote inside groups of dependent annotators, then a vote of the groups.

    Examples
    --------
    >>> votes = {"item": [1] * 5, "annotator": list("vwxyz"), "label": ["cat", "cat", "cat", "dog", "dog"]}
    >>> GroupVote(groups={"v": "team", "w": "team", "x": "team"}).fit(votes).labels_.tolist()
    ['dog']
    """

    groups: Any = setting("auto", ABOUT_GROUPS, choices=("auto",), free=True)
    level: float = setting(LEVEL, ABOUT_LEVEL, above=0)

    name: ClassVar[str] = "group-vote"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        right, wrong = right_and_wrong_in_all(problem.history, votes.n_annotators, votes.n_classes)
        total = right + wrong
        typical = float(right.sum() / total.sum()) if total.sum() > 0 else 1.0
        weight = ratio(right, total, typical)
        model = GroupVotes.start(groups_of(votes, self.groups, self.level), weight, typical)
        prior = problem.marginals()
        voices = model.voices(votes)
        shares = model.shares(votes, prior.probability, voices)
        clamp(shares, problem.known)
        prior = prior.update(shares[voices.sum(axis=1) > 0])
        shares = model.shares(votes, prior.probability, voices)
        clamp(shares, problem.known)
        return Fit(shares, prior, model, trace={}, n_iter=1, converged=True)
