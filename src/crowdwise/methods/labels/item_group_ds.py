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

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import series_of, translate
from crowdwise.data.groups import Groups, groups_of
from crowdwise.engines.alternate import alternate
from crowdwise.engines.loop import ABOUT_TOL
from crowdwise.errors import ConvergenceWarning, SettingError
from crowdwise.estimator.base import as_annotations
from crowdwise.estimator.carry import positions
from crowdwise.estimator.result import Result
from crowdwise.estimator.settings import check_settings, setting
from crowdwise.estimator.views import ResultViews
from crowdwise.kernels.numerics import expected_log
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.parts.annotators.item_groups import ItemGroupConfusion
from crowdwise.parts.annotators.protocol import counts_of
from crowdwise.parts.priors.group_marginals import GroupMarginals
from crowdwise.parts.priors.marginals import DirichletMarginals

if TYPE_CHECKING:
    from typing_extensions import Self

    from crowdwise.engines.loop import Progress

__all__ = ["ItemGroupDS"]

Floats = NDArray[np.float64]

# Fits of stage 2: the pooled matrices of the first still rest on labels that ignored the groups.
_STAGES = 2


@dataclass(eq=False, repr=False, kw_only=True)
class ItemGroupDS(ResultViews):
    """Bayesian Dawid-Skene with a confusion matrix per annotator and group of items, shrunk to the annotator's own.

    Examples
    --------
    >>> votes = {"item": [1, 1, 1, 2, 2, 2], "annotator": ["x", "y", "z"] * 2, "label": ["a", "a", "a", "b", "b", "a"]}
    >>> ItemGroupDS().fit(votes, groups={1: "men", 2: "women"}).labels_.tolist()
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

    def fit(self, votes: Any, gold: Any = None, *, groups: Any = None, progress: Progress | None = None) -> Self:
        """Fit to votes and the groups of their items.

        Parameters
        ----------
        votes : Annotations, frame or matrix
        gold : mapping, frame, Series or sequence, optional
            Known labels of some items; they alone can show a bias that all annotators share.
        groups : mapping, frame, Series or sequence
            The group of every item: see `crowdwise.data.groups.groups_of`.
        progress : callable, optional
            Called after every iteration with (iteration, bound, largest change).
        """
        check_settings(self)
        votes = as_annotations(votes)
        if gold is not None:
            votes = votes.with_gold(gold)
        if groups is None:
            raise SettingError("item-group-ds needs the group of every item: fit(votes, groups={item: group})")
        found = groups_of(votes, groups)
        names = ("alpha0", "diagonal", "off_diagonal", "max_iter", "tol")
        pooled = BayesGC(**{name: getattr(self, name) for name in names})
        base_lk = pooled.row_prior(votes.n_classes)
        posterior = pooled.fit(votes).posterior_
        known = np.empty(0, np.int16) if votes.gold is None else votes.gold
        alpha0 = np.full(votes.n_classes, self.alpha0)
        shares: DirichletMarginals | GroupMarginals = DirichletMarginals(alpha0, alpha0)
        if self.class_shares == "by-group":
            shares = GroupMarginals.start(alpha0, found.codes, found.n_groups)
        for _ in range(_STAGES):
            own_alk = base_lk + counts_of(votes, posterior)
            parent = self.kappa * own_alk / own_alk.sum(axis=1, keepdims=True) + base_lk
            model = ItemGroupConfusion.start(votes, found.codes, found.n_groups, parent, base_lk)
            done = alternate(
                votes, shares, model, start=posterior, known=known, max_iter=self.max_iter, tol=self.tol, progress=progress
            )
            posterior = done.posterior
        if not done.converged:
            warnings.warn(
                f"stopped after {done.n_iter} iterations before the stopping rule was met; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.groups_ = found
        self.result_ = Result(
            method=self.name,
            settings=self.get_params(),
            seed=None,
            votes=votes,
            posterior=done.posterior,
            prior=done.prior,
            annotators=done.annotators,
            history=None,
            trace=done.trace,
            n_iter=done.n_iter,
            converged=done.converged,
        )
        return self

    def predict_proba(self, votes: Any, groups: Any = None) -> Floats:
        """Posterior of the items in `votes` under the fitted model, [N, K]; nothing is refitted.

        Without `groups`, and in groups that the fit did not have, annotators have their pooled matrices and classes their
        overall shares.
        """
        result, fitted = self._fitted(), self._kept("groups_")
        votes = as_annotations(votes).with_classes(result.votes.classes.tolist())
        group_n = np.full(votes.n_items, -1)
        if groups is not None:
            given = groups_of(votes, groups)
            group_n = translate(given.names, fitted.names)[given.codes]
        model = result.annotators.aligned(positions(votes.annotators, result.votes.annotators), group_n * 0 - 1)
        model = type(model)(**(vars(model) | {"group_n": group_n}))
        posterior = np.zeros((votes.n_items, votes.n_classes))
        log_prior = np.log(result.class_prior)[None]
        if isinstance(result.prior, GroupMarginals):
            log_prior = np.concatenate([expected_log(result.prior.alpha, 1), log_prior])[group_n]
        model.infer(votes, log_prior, np.empty(0, np.int16), posterior)
        return posterior

    def class_shares_frame(self) -> pl.DataFrame:
        """Estimated share of every class in every group: group, n_items, class, share."""
        result, groups = self._fitted(), self._kept("groups_")
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

        result, groups = self._fitted(), self._kept("groups_")
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
    def classes_(self) -> NDArray[Any]:
        """The classes, [K]."""
        return self._fitted().votes.classes

    @property
    def group_names_(self) -> NDArray[Any]:
        """The groups, [G]."""
        groups: Groups = self._kept("groups_")
        return groups.names
