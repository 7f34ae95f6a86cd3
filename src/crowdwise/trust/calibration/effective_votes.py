"""Votes of annotators who share errors count for less: m of them for m / (1 + (m - 1) rho) independent ones.

rho is the excess agreement inside a group as a share of what is possible: for two classes and equal accuracies the correlation
of errors. m / (1 + (m - 1) rho) is then the number of independent errors with the variance of the mean of m correlated ones
(the design effect of cluster samples). The log-likelihood of each vote is multiplied by 1 / (1 + (m - 1) rho), m being the
number of the group's votes on the item, and labels are inferred again with the method's own annotators.

Notes
-----
Groups and rho come from the votes alone (`crowdwise.engines.readings`): a fit that was misled by a group explains part of its
agreement by the class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines.independence import LEVEL, find
from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.calibration.base import with_posterior

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import Result

__all__ = ["EffectiveVotes"]


@dataclass(frozen=True, eq=False)
class EffectiveVotes:
    """Group of every annotator, [A] (-1 for none), and the correlation of errors in every group, [J]."""

    group: Integers
    correlation: Floats

    @property
    def n_groups(self) -> int:
        """Groups found."""
        return len(self.correlation)

    @classmethod
    def fit(cls, result: Result, level: float = LEVEL) -> EffectiveVotes:
        """Find groups in the votes and how strongly their errors correlate; needs no true labels.

        `level` is the chance that any group of independent annotators is found.
        """
        if not 0 < level < 1:
            raise SettingError(f"level must be between 0 and 1; got {level!r}")
        found = find(result.votes, level=level)
        if not found:
            return cls(np.full(result.votes.n_annotators, -1), np.empty(0))
        return cls(found.readings[0].code, found.readings[0].correlation)

    def weight(self, votes: Annotations) -> Floats:
        """What every vote counts for, [E]: one for annotators who stand alone."""
        if len(self.group) != votes.n_annotators:
            raise SettingError(f"groups of {len(self.group)} annotators do not fit votes of {votes.n_annotators}")
        code = self.group[votes.annotator]
        inside = np.flatnonzero(code >= 0)
        weight = np.ones(votes.n_votes)
        if len(inside):
            key = votes.item[inside].astype(np.int64) * self.n_groups + code[inside]
            _, cell, size = np.unique(key, return_inverse=True, return_counts=True)
            weight[inside] = 1 / (1 + (size[cell] - 1) * self.correlation[code[inside]])
        return weight

    def discounted(self, votes: Annotations) -> Annotations:
        """The votes with what every one counts for on top of its weight."""
        return votes.weighed(self.weight(votes))

    def result(self, result: Result) -> Result:
        """Return `result` with labels inferred again from discounted votes; its annotators are kept as fitted."""
        if self.n_groups == 0:
            return result
        votes = self.discounted(result.votes)
        posterior = result.model_posterior.copy()
        result.annotators.infer(votes, result.prior.log_prob(), votes.known_codes, posterior)
        return with_posterior(replace(result, posterior=result.model_posterior, inferred=None), posterior, "model")
