"""Votes of annotators who share errors count for less: m of them for m / (1 + (m - 1) rho) independent ones.

For two members a, b of a group, given the true class k,

    agree_k    = sum_c Xi[k, c] sum_l pi_a[c, l] pi_b[c, l]       what the group model expects
    expected_k = sum_l R_a[k, l] R_b[k, l],  R = Xi pi            what independence would give
    rho        = sum_k d_k (agree_k - expected_k) / sum_k d_k (1 - expected_k)

with sums over all pairs of the group. For two classes and equal accuracies rho is the correlation of their errors, and
m / (1 + (m - 1) rho) the number of independent errors with the variance of the mean of m correlated ones (the design effect
of cluster samples). The log-likelihood of each vote is multiplied by 1 / (1 + (m - 1) rho), m being the number of the
group's votes on the item, and labels are inferred again with the method's own annotators.

Notes
-----
Groups come from the agreement that a fit leaves unexplained (`crowdwise.engines.dependence`), Xi and pi from
`group-dawid-skene`. The same residual agreement is a second estimate of rho; a fit that was misled by the group explains
part of its agreement by the class, and a group of two does not identify Xi, so both tend to be too low: the larger is used.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines.dependence import Residuals, group_codes, residual_agreement
from crowdwise.errors import CrowdwiseWarning, SettingError
from crowdwise.estimator.registry import make
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.calibration.base import with_posterior

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import Result
    from crowdwise.parts.annotators.groups import GroupConfusion

__all__ = ["EffectiveVotes", "groups_in"]


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
    def fit(cls, result: Result, level: float = 0.05) -> EffectiveVotes:
        """Find groups in a fit and how strongly their errors correlate; needs no true labels.

        `level` is the chance (Bonferroni) that any two independent annotators are put together.
        """
        group, residuals = _found(result, level)
        n_groups = int(group.max(initial=-1)) + 1
        if n_groups == 0:
            return cls(group, np.empty(0))
        votes = result.votes
        teams = {name: int(code) for name, code in zip(votes.annotators.tolist(), group, strict=True) if code >= 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdwiseWarning)
            model = make("group-dawid-skene", groups=teams).fit(votes).result_
        modelled = _modelled(model.annotators, model.class_prior, group, n_groups)
        return cls(group, np.clip(np.maximum(modelled, _unexplained(residuals, group, n_groups)), 0.0, 1.0))

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

    def result(self, result: Result) -> Result:
        """Return `result` with labels inferred again from discounted votes; its annotators are kept as fitted."""
        if self.n_groups == 0:
            return result
        weight = self.weight(result.votes)
        votes = replace(result.votes, weight=weight if result.votes.weight is None else weight * result.votes.weight)
        posterior = result.model_posterior.copy()
        known = np.empty(0, np.int16) if votes.gold is None else votes.gold
        result.annotators.infer(votes, result.prior.log_prob(), known, posterior)
        return with_posterior(replace(result, inferred=None), posterior, "model")


def groups_in(result: Result, level: float = 0.05) -> Integers:
    """Group of every annotator, [A]; -1 for those who stand alone."""
    return _found(result, level)[0]


def _found(result: Result, level: float) -> tuple[Integers, Residuals]:
    if not 0 < level < 1:
        raise SettingError(f"level must be between 0 and 1; got {level!r}")
    residuals = residual_agreement(result.votes, result.model_posterior, result.confusion)
    if result.votes.n_classes < 2 or len(residuals.first) == 0:
        return np.full(result.votes.n_annotators, -1), residuals
    return group_codes(residuals, result.votes.n_annotators, level), residuals


def _modelled(model: GroupConfusion, class_prior: Floats, group: Integers, n_groups: int) -> Floats:
    """Correlation inside every group by the group model, [J]."""
    rho = np.zeros(n_groups)
    for j in range(n_groups):
        members = np.flatnonzero(group == j)
        xi_kc, pi_alc = model.xi_jkc[model.group_a[members[0]]], model.pi_alc[members]
        n_pairs = len(members) * (len(members) - 1)
        # Sums over ordered pairs of different members, as the square of the sum minus the sum of squares.
        agree_k = xi_kc @ (pi_alc.sum(axis=0) ** 2 - (pi_alc**2).sum(axis=0)).sum(axis=0)
        marginal_alk = np.einsum("alc,kc->alk", pi_alc, xi_kc)
        expected_k = (marginal_alk.sum(axis=0) ** 2 - (marginal_alk**2).sum(axis=0)).sum(axis=0)
        rho[j] = class_prior @ (agree_k - expected_k) / max(class_prior @ (n_pairs - expected_k), 1e-12)
    return rho


def _unexplained(residuals: Residuals, group: Integers, n_groups: int) -> Floats:
    """Correlation inside every group by the agreement that the fit leaves unexplained, [J]."""
    inside = (group[residuals.first] == group[residuals.second]) & (group[residuals.first] >= 0)
    code = group[residuals.first[inside]]
    excess = np.bincount(code, (residuals.agree - residuals.expected)[inside], n_groups)
    most = np.bincount(code, (residuals.n_items - residuals.expected)[inside], n_groups)
    return np.asarray(excess / np.maximum(most, 1e-12))
