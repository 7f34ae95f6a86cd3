"""The shell of clustering methods: check, choose the number of clusters if asked, fit, order the clusters by size."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.similarities import Similarities
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError, SettingError
from crowdwise.estimator.configured import FitAccount
from crowdwise.estimator.settings import check_settings, setting
from crowdwise.methods.clusters.block import BlockFit, log_likelihood
from crowdwise.methods.clusters.pairs import Pairs
from crowdwise.methods.clusters.result import ClusterResult

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SimilarityMethod"]

Floats = NDArray[np.float64]

# Share of the pairs that is held out to choose the number of clusters.
_HELD_OUT = 0.2
# Log-probability per answer that another cluster must gain: superfluous clusters stay empty and differ by next to nothing.
_GAIN = 1e-3


@dataclass(eq=False, repr=False, kw_only=True)
class SimilarityMethod(FitAccount):
    """Base of clustering by answers on pairs; a method supplies `name` and `_fit`.

    Fitted attributes: `result_` (a `ClusterResult`), `clusters_` [N] (counted from 1), `membership_` [N, K], `items_` and
    `annotators_` (frames), `trace_`, `n_iter_`, `converged_`.
    """

    clusters: int | None = setting(
        None,
        "Number of clusters; by default held-out answers choose, up to max_clusters.",
        low=2,
        whole=True,
        optional=True,
    )
    max_clusters: int = setting(8, "Most clusters to try where their number is not given.", low=2, whole=True)
    right: float = setting(2.0, "Pseudo-answers that are right, for each of an annotator's two rates.", low=0)
    wrong: float = setting(1.0, "Pseudo-answers that are wrong.", low=0)
    random_state: int = setting(0, "Seed of random starts.", low=0, whole=True)

    name: ClassVar[str]
    needs_features: ClassVar[bool] = False

    def _fit(self, pairs: Pairs, n_clusters: int, features: Any, rng: np.random.Generator) -> BlockFit:
        raise NotImplementedError

    def fit(self, votes: Any, X: Any = None) -> Self:
        """Fit to answers, and to features where the method takes them.

        Parameters
        ----------
        votes : Similarities or frame
            A frame has the columns item_a, item_b, annotator, same.
        X : [N, D], optional
            Features of the items, in the order of ``votes.items``.
        """
        check_settings(self)
        if not isinstance(votes, Similarities):
            votes = Similarities.from_frame(votes)
        if votes.n_votes == 0:
            raise InputError("no answers to cluster by; give at least one row with item_a, item_b, annotator and same")
        votes = votes.in_order()
        features = self._checked(X, votes.n_items)
        pairs = Pairs.of(votes)
        held_out: dict[int, float] = {}
        n_clusters = self.clusters
        if n_clusters is None:
            held_out, n_clusters = self._choose(pairs, features)
        if n_clusters > votes.n_items:
            raise SettingError(f"{n_clusters} clusters of {votes.n_items} items; ask for fewer")
        fit = self._fit(pairs, n_clusters, features, np.random.default_rng(self.random_state))
        if not fit.converged:
            warnings.warn(
                f"stopped after {len(fit.trace)} iterations before the stopping rule was met; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        occupied = len(np.unique(fit.membership.argmax(axis=1)))
        if occupied < n_clusters:
            warnings.warn(
                f"only {occupied} of {n_clusters} clusters have items: these answers do not tell so many apart; "
                "ask for fewer clusters, or for more answers per item",
                DataWarning,
                stacklevel=2,
            )
        # The largest cluster is the first, whatever the start called it.
        self.order_ = np.argsort(-fit.membership.sum(axis=0), kind="stable")
        fit = replace(fit, membership=fit.membership[:, self.order_])
        self.result_ = ClusterResult(
            method=self.name,
            settings=self.get_params(),
            votes=votes,
            membership=fit.membership,
            hit=fit.rates.hit,
            false_alarm=fit.rates.false_alarm,
            held_out=held_out,
            trace=fit.trace,
            n_iter=len(fit.trace),
            converged=fit.converged,
        )
        return self

    def _checked(self, X: Any, n_items: int) -> Any:
        if not self.needs_features:
            if X is not None:
                raise InputError(f"{self.name} takes answers only; with features use crowd-clustering")
            return None
        if X is None:
            raise InputError(f"{self.name} needs features of the items; without any use similarity-nmf")
        features = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        if features.dtype.kind not in "fiub" or features.ndim < 2 or len(features) != n_items:
            raise InputError(f"features must be numbers, a row for each of the {n_items} items; got {features.shape}")
        features = features.reshape(n_items, -1).astype(np.float64)
        odd = np.flatnonzero(~np.isfinite(features).all(axis=1))
        if len(odd):
            raise InputError(f"X contains NaN or infinity in row {odd[0]} (counted from 0); fill it in or drop the item")
        return features

    def _choose(self, pairs: Pairs, features: Any) -> tuple[dict[int, float], int]:
        """The fewest clusters whose held-out answers are foretold within a standard error as well as by the best."""
        rng = np.random.default_rng(self.random_state)
        held = rng.random(len(pairs)) < _HELD_OUT
        if held.all() or not held.any():
            raise SettingError(f"{len(pairs)} pairs are too few to choose the number of clusters; give it (--clusters K)")
        rest, kept = pairs.take(~held), pairs.take(held)
        total = kept.weight.sum()
        each: dict[int, Floats] = {}
        for size in range(2, min(self.max_clusters, pairs.n_items) + 1):
            fit = self._fit(rest, size, features, np.random.default_rng(self.random_state))
            each[size] = log_likelihood(fit.membership, fit.rates, kept)
        best = max(each, key=lambda size: float(each[size].sum()))

        def close(size: int) -> bool:
            lost = each[best] - each[size]
            return bool(lost.sum() <= max(lost.std() * np.sqrt(len(kept)), _GAIN * total))

        chosen = next(size for size in each if close(size))
        return {size: float(values.sum() / total) for size, values in each.items()}, chosen

    # -- what was fitted -----------------------------------------------------------------------

    def _fitted(self) -> ClusterResult:
        result: ClusterResult = self._kept("result_")
        return result

    @property
    def clusters_(self) -> NDArray[np.int64]:
        """Cluster of every item, counted from 1, [N]."""
        return self._fitted().cluster

    @property
    def membership_(self) -> Floats:
        """Probability of every cluster, [N, K]."""
        return self._fitted().membership

    @property
    def items_(self) -> pl.DataFrame:
        """One row per item."""
        return self._fitted().item_frame()

    @property
    def annotators_(self) -> pl.DataFrame:
        """One row per annotator, best first."""
        return self._fitted().annotator_frame()
