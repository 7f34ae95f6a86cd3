"""The shell of clustering methods: check, choose the number of clusters if asked, fit, order the clusters by size."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.similarities import Similarities
from crowdwise.engines.loop import warn_unless_converged
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.estimator.estimator import Estimator, random_state_setting, seed_of, setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.clusters.block import BlockFit, log_likelihood
from crowdwise.methods.clusters.pairs import Pairs
from crowdwise.methods.clusters.result import ClusterResult

if TYPE_CHECKING:
    from typing_extensions import Self

    from crowdwise.engines.loop import Progress

__all__ = ["Clustering", "as_similarities"]


# Share of the pairs that is held out to choose the number of clusters.
_HELD_OUT = 0.2
# Log-probability per answer that another cluster must gain: superfluous clusters stay empty and differ by next to nothing.
_GAIN = 1e-3


@dataclass(eq=False, repr=False, kw_only=True)
class Clustering(Estimator):
    """Base of clustering by answers on pairs; a method supplies `name` and `_fit`.

    Fitted attributes beside those of every estimator: `clusters_` [N] (counted from 1), `membership_` [N, K].
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
    random_state: int | None = random_state_setting("Seed of random starts.")

    def _fit(
        self, pairs: Pairs, n_clusters: int, features: Any, rng: np.random.Generator, progress: Progress | None = None
    ) -> BlockFit:
        raise NotImplementedError

    def _cluster(self, votes: Similarities, features: Any, progress: Progress | None) -> Self:
        """Choose the number of clusters if asked, fit, and order the clusters by size."""
        pairs, seed = Pairs.of(votes), seed_of(self.random_state)
        held_out: dict[int, float] = {}
        n_clusters = self.clusters
        if n_clusters is None:
            held_out, n_clusters = self._choose(pairs, features, seed)
        if n_clusters > votes.n_items:
            raise SettingError(f"{n_clusters} clusters of {votes.n_items} items; ask for fewer")
        fit = warn_unless_converged(self._fit(pairs, n_clusters, features, np.random.default_rng(seed), progress), stacklevel=4)
        occupied = len(np.unique(fit.membership.argmax(axis=1)))
        if occupied < n_clusters:
            warnings.warn(
                f"only {occupied} of {n_clusters} clusters have items: these answers do not tell so many apart; "
                "ask for fewer clusters, or for more answers per item",
                DataWarning,
                stacklevel=3,
            )
        self._order = _by_size(fit.membership)
        self.result_ = ClusterResult(
            method=self.name,
            settings=self.get_params(),
            votes=votes,
            membership=fit.membership[:, self._order],
            hit=fit.rates.hit,
            false_alarm=fit.rates.false_alarm,
            held_out=held_out,
            trace={"objective": fit.trace},
            n_iter=fit.n_iter,
            converged=fit.converged,
        )
        return self

    def _choose(self, pairs: Pairs, features: Any, seed: int) -> tuple[dict[int, float], int]:
        """The fewest clusters whose held-out answers are predicted within a standard error as well as by the best."""
        rng = np.random.default_rng(seed)
        held = rng.random(len(pairs)) < _HELD_OUT
        if held.all() or not held.any():
            raise SettingError(f"{len(pairs)} pairs are too few to choose the number of clusters; give it (--clusters K)")
        rest, kept = pairs.take(~held), pairs.take(held)
        total = kept.weight.sum()
        each: dict[int, Floats] = {}
        for size in range(2, min(self.max_clusters, pairs.n_items) + 1):
            fit = self._fit(rest, size, features, np.random.default_rng(seed))
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


def _by_size(membership: Floats) -> NDArray[np.intp]:
    """The largest cluster first, whatever the start called it; of equal ones, that of the first item, as rounding must not."""
    chosen = membership.argmax(axis=1)
    first = [np.flatnonzero(np.append(chosen, k) == k)[0] for k in range(membership.shape[1])]
    return np.lexsort((first, -np.round(membership.sum(axis=0), 9)))


def as_similarities(data: Any) -> Similarities:
    """Answers on pairs, or a frame of them, in an order of their own; refused where there are none."""
    votes = data if isinstance(data, Similarities) else Similarities.from_frame(data)
    if votes.n_votes == 0:
        raise InputError("no answers to cluster by; give at least one row with item_a, item_b, annotator and same")
    return votes.in_order()
