"""Clusters from answers alone: a mixed-membership block model with a spectral start.

Maximises the likelihood of `crowdwise.methods.clusters.block`, a symmetric non-negative factorisation F F^T of the links on the
pairs that were asked about, together with the annotators' rates; then, unless ``members="mixed"``, some rounds of mean field in
which an item is in one cluster. The objective of the first part never falls. Cost per iteration: O(pairs x K + answers).

References
----------
Airoldi, Blei, Fienberg and Xing (2008): Mixed membership stochastic blockmodels, JMLR 9.
Gomes, Welinder, Krause and Perona (2011): Crowdclustering, NIPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.estimator.estimator import setting
from crowdwise.methods.clusters.base import Clustering, as_similarities
from crowdwise.methods.clusters.block import BlockFit, fit_blocks, one_cluster_each
from crowdwise.methods.clusters.pairs import Pairs, Rates
from crowdwise.methods.clusters.start import spectral_start

if TYPE_CHECKING:
    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress

__all__ = ["SimilarityNMF"]

# Rounds after which memberships of one cluster each have long settled.
_FINISH = 60


@dataclass(eq=False, repr=False, kw_only=True)
class SimilarityNMF(Clustering):
    """Clusters from "same or different" answers without features, and the annotators' hit and false-alarm rates.

    Examples
    --------
    >>> from crowdwise.data.similarities import Similarities
    >>> first, second, same = "aaabbc", "bcdcdd", [1, 0, 0, 0, 0, 1]
    >>> votes = Similarities.from_arrays([*first, *first], [*second, *second], ["x"] * 6 + ["y"] * 6, same + same)
    >>> SimilarityNMF(clusters=2).fit(votes).clusters_.tolist()
    [1, 1, 2, 2]
    """

    members: str = setting("one", "In the end an item is in one cluster, or its membership is mixed.", choices=("one", "mixed"))
    spread: float = setting(0.5, "Pseudo-pairs per item, shared among the clusters: keeps memberships off 0 and 1.", low=0)
    max_iter: int = setting(500, "Most iterations.", low=1, whole=True)
    tol: float = setting(1e-5, "Stop when the objective changes by less than this share.", low=0)

    name: ClassVar[str] = "similarity-nmf"

    def fit(
        self,
        data: Any,
        gold: Any = None,
        *,
        history: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Fit to answers on pairs.

        Parameters
        ----------
        data : Similarities or frame
            A frame has the columns item_a, item_b, annotator, same.
        gold, history, engine
            No method of similarities takes these yet.
        progress : callable, optional
            Called after every iteration with (iteration, objective, change).
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        return self._cluster(as_similarities(data), None, progress)

    def _fit(
        self, pairs: Pairs, n_clusters: int, features: Any, rng: np.random.Generator, progress: Progress | None = None
    ) -> BlockFit:
        fit = fit_blocks(
            pairs,
            spectral_start(pairs, n_clusters, rng),
            Rates.start(pairs.n_annotators, self.right, self.wrong),
            spread=self.spread,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        return fit if self.members == "mixed" else one_cluster_each(pairs, fit, max_iter=_FINISH, tol=1e-3)
