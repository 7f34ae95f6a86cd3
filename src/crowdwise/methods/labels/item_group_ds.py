"""Dawid-Skene whose annotators may err differently on different groups of items; variational Bayes.

Model      s_n the group of item n, known;  z_n ~ d[s_n];  vote of a on n ~ pi[a, s_n, z_n]
           pi[a, s, k] ~ Dir(kappa * pooled_a[k] + beta0_k)
Stage 1    pooled_a : [K, L], the matrix of a over all groups, by `bayes-gc`
Stage 2    alternate as in `bayes-gc` with a table per (annotator, group); then once more from its own pooled matrices
Bound      that of the last stage: sum_n logsumexp_k(...) - KL(d) - KL(pi)

Notes
-----
`kappa` says how much an annotator is believed to be the same on all groups: a row of the pooled matrix counts as `kappa`
votes in every group. 0 fits groups on their own; large values are `bayes-gc` with class shares per group. The pooled
matrix is an estimate that is then held fixed (empirical Bayes).

Groups have class shares of their own. ``class_shares="shared"`` says that classes are as frequent in all groups, which
pulls labels towards parity: an assumption about the world, not a finding.

A bias that all annotators have alike cannot be seen in votes: any model reads it as truth. Only gold labels, given as
`gold`, or an annotator known to be fair can tell. Cost per iteration: O(E K); memory: pairs of annotator and group that
occur.

References
----------
The hierarchy is that of Bayesian Dawid-Skene with a parent per annotator: Kim and Ghahramani (2012), Carpenter (2008).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of, translate
from crowdwise.engines.loop import ABOUT_TOL, Fit, LabelPrior, alternate, warn_unless_converged
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import Aggregator, as_annotations
from crowdwise.estimator.carry import positions
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.numerics import expected_log
from crowdwise.kernels.types import Array, Floats
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.parts.annotators.item_groups import ItemGroupConfusion
from crowdwise.parts.annotators.model import counts_of
from crowdwise.parts.priors.group_marginals import GroupMarginals
from crowdwise.parts.priors.marginals import DirichletMarginals

if TYPE_CHECKING:
    from typing_extensions import Self

    from crowdwise.data.annotations import Annotations
    from crowdwise.data.groups import Groups
    from crowdwise.engines.loop import Progress
    from crowdwise.estimator.aggregator import Problem
    from crowdwise.estimator.outcome import Result

__all__ = ["ItemGroupDS"]


# Fits of stage 2: the pooled matrices of the first still rest on labels that ignored the groups.
_STAGES = 2


@dataclass(eq=False, repr=False, kw_only=True)
class ItemGroupDS(Aggregator):
    """Bayesian Dawid-Skene with a confusion matrix per annotator and group of items, shrunk to the annotator's own.

    Examples
    --------
    >>> from crowdwise import Annotations
    >>> votes = Annotations.from_arrays([1, 1, 1, 2, 2, 2], ["x", "y", "z"] * 2, ["a", "a", "a", "b", "b", "a"])
    >>> ItemGroupDS().fit(votes.with_groups({1: "men", 2: "women"})).labels_.tolist()
    ['a', 'b']
    """

    kappa: float = setting(10.0, "Votes that the annotator's pooled matrix counts for in every row of every group.", low=0)
    class_shares: str = setting(
        "by-group",
        "by-group: every group has its own class shares; shared: the same in all, which imposes parity on the labels.",
        choices=("by-group", "shared"),
    )
    alpha0: float = setting(1.1, "Dirichlet parameter of every class share.", above=0)
    diagonal: float = setting(5.0, "Dirichlet parameter of a right answer.", above=0)
    off_diagonal: float | None = setting(
        None, "Dirichlet parameter of each wrong answer; by default 2 / (K - 1).", above=0, optional=True
    )
    max_iter: int = setting(1000, "Most iterations of one stage.", low=1, whole=True)
    tol: float = setting(1e-6, ABOUT_TOL, above=0)

    name: ClassVar[str] = "item-group-ds"

    def _fit(self, problem: Problem) -> Fit:
        votes, groups = problem.votes, _groups_of(problem.votes)
        names = ("alpha0", "diagonal", "off_diagonal", "max_iter", "tol")
        pooled = BayesGC(**{name: getattr(self, name) for name in names})
        base_lk = pooled.row_prior(votes.n_classes)
        posterior = pooled.solve(replace(problem, progress=None)).posterior
        prior = self._class_shares(problem, groups)
        for _ in range(_STAGES):
            own_alk = base_lk + counts_of(votes, posterior)
            if problem.history is not None:
                own_alk = own_alk + problem.history
            parent = self.kappa * own_alk / own_alk.sum(axis=1, keepdims=True) + base_lk
            model = ItemGroupConfusion.start(votes, groups.codes, groups.n_groups, parent, base_lk)
            options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "progress": problem.progress}
            done = alternate(votes, prior, model, start=posterior, known=problem.known, **options)
            posterior = done.posterior
        return warn_unless_converged(done)

    def _class_shares(self, problem: Problem, groups: Groups) -> LabelPrior:
        """Class shares of every group, of all, or the given ones."""
        if problem.class_prior is not None or problem.anchor is not None:
            return problem.marginals()
        alpha0 = np.full(problem.crowd.n_classes, self.alpha0)
        if self.class_shares == "by-group":
            return GroupMarginals.start(alpha0, groups.codes, groups.n_groups)
        return DirichletMarginals(alpha0, alpha0)

    def _run(self, votes: Annotations, history: Floats | None, earlier: Result | None, progress: Progress | None) -> Self:
        # Stage 1 is the start, also of an update.
        return super()._run(votes, history, None, progress)

    def _infer(self, votes: Any, predict: bool = False) -> tuple[Floats, float, float]:
        """As in every method. The groups are those of the votes; without any, and in groups that the fit did not have,
        annotators have their pooled matrices and classes their overall shares.
        """
        result = self._fitted()
        votes = as_annotations(votes).with_classes(result.votes.classes.tolist())
        group_n = np.full(votes.n_items, -1)
        if votes.groups is not None:
            group_n = translate(votes.groups.names, _groups_of(result.votes).names)[votes.groups.codes]
        model = result.annotators.aligned(positions(votes.annotators, result.votes.annotators), group_n * 0 - 1)
        model = replace(model, group_n=group_n)
        posterior = np.zeros((votes.n_items, votes.n_classes))
        log_prior = np.log(result.class_prior)[None]
        if isinstance(result.prior, GroupMarginals):
            log_prior = np.concatenate([expected_log(result.prior.alpha, 1), log_prior])[group_n]
        evidence, _ = model.infer(votes, log_prior, np.empty(0, np.int16), posterior)
        return posterior, evidence, votes.total_weight

    def class_shares_frame(self) -> pl.DataFrame:
        """Estimated share of every class in every group: group, n_items, class, share."""
        result = self._fitted()
        groups = _groups_of(result.votes)
        prior = result.prior
        shares = prior.shares if isinstance(prior, GroupMarginals) else np.tile(prior.probability, (groups.n_groups, 1))
        g, k = (index.ravel() for index in np.indices(shares.shape))
        return pl.DataFrame(
            {
                "group": series_of(groups.names)[g],
                "n_items": groups.sizes[g],
                "class": series_of(result.votes.classes)[k],
                "share": shares.ravel(),
            }
        )

    def confusion_frame(self, level: float = 0.95) -> pl.DataFrame:
        """Every entry of every pair's matrix: annotator, group, n_votes, true, observed, probability, low, high.

        Only pairs of an annotator and a group with votes; ends of the interval are those of the Dirichlet posterior.
        """
        from scipy.special import betaincinv

        result = self._fitted()
        groups = _groups_of(result.votes)
        if not 0 < level < 1:
            raise SettingError(f"level must be between 0 and 1; got {level!r}")
        model, classes = result.annotators, series_of(result.votes.classes)
        beta = model.beta_plk.transpose(0, 2, 1)
        total = beta.sum(axis=2, keepdims=True)
        low, high = (
            (betaincinv(beta, total - beta, (1 + sign * level) / 2) for sign in (-1, 1))
            if beta.shape[1] > 1
            else (beta / total,) * 2
        )
        n_votes = (model.beta_plk - model.parent_alk[model.pair_a]).sum(axis=(1, 2))
        p, k, observed = (index.ravel() for index in np.indices(beta.shape))
        return pl.DataFrame(
            {
                "annotator": series_of(result.votes.annotators)[model.pair_a[p]],
                "group": series_of(groups.names)[model.pair_s[p]],
                "n_votes": n_votes.round(6)[p],
                "true": classes[k],
                "observed": classes[observed],
                "probability": (beta / total).ravel(),
                "low": low.ravel(),
                "high": high.ravel(),
            }
        )

    @property
    def group_names_(self) -> Array:
        """The groups, [G]."""
        return _groups_of(self._fitted().votes).names


def _groups_of(votes: Annotations) -> Groups:
    if votes.groups is None:
        raise SettingError("item-group-ds needs the group of every item: fit(votes.with_groups({item: group}))")
    return votes.groups
