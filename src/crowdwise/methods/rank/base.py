"""The face of every ranking method: settings in, `fit(comparisons)`, fitted names that end in an underscore."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from crowdwise.errors import ConvergenceWarning, SettingError
from crowdwise.estimator.configured import FitAccount
from crowdwise.estimator.settings import check_settings, setting
from crowdwise.methods.rank.games import Floats, Games, as_comparisons, check_connected
from crowdwise.methods.rank.laplacian import rank_interval, spread_of
from crowdwise.methods.rank.result import Ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

    from crowdwise.data.comparisons import Comparisons

__all__ = ["Ranker", "ScoreRanker", "centred"]


@dataclass(repr=False)
class Ranker(FitAccount):
    """What every fitted ranking method can be asked."""

    name: ClassVar[str]

    @property
    def scores_(self) -> Floats:
        """Score of every item, [N], in the order of the comparisons' vocabulary."""
        return self._ranking.score

    @property
    def items_(self) -> pl.DataFrame:
        """The ranking, best first."""
        return self._ranking.frame()

    @property
    def annotators_(self) -> pl.DataFrame:
        """One row per annotator."""
        return self._ranking.annotators_frame()

    @property
    def _ranking(self) -> Ranking:
        found: Ranking = self._kept("result_")
        return found


@dataclass(repr=False)
class ScoreRanker(Ranker):
    """Base of methods with a free score per item, which have standard errors; each supplies `_fit`."""

    prior: float = setting(0.1, "weight of a virtual tie of every item with an item of score 0", low=0)
    level: float = setting(0.95, "probability of the intervals of scores and ranks", above=0)
    draws: int = setting(400, "draws of all scores, for intervals of ranks; at most 32 above 1,500 items", low=2, whole=True)
    tol: float = setting(1e-5, "stop when no score moves by more", above=0)
    random_state: int = setting(0, "seed of the draws", low=0, whole=True)

    def fit(self, comparisons: Any) -> Self:
        """Fit to `Comparisons`, or to a frame with the columns item_a, item_b, annotator and winner."""
        self._check()
        votes = as_comparisons(comparisons)
        games = Games.of(votes)
        check_connected(games, votes.items, self.prior)
        self.result_ = self._fit(votes, games)
        if not self.result_.converged:
            warnings.warn(
                f"{self.name} stopped after {self.result_.n_iter:,} iterations before it settled; raise max_iter or prior",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _check(self) -> None:
        check_settings(self)
        if self.level >= 1:
            raise SettingError(f"{type(self).__name__}: level must be below 1; got {self.level!r}")

    def _fit(self, votes: Comparisons, games: Games) -> Ranking:
        raise NotImplementedError

    def _uncertain(self, games: Games, score: Floats, weight: Floats, diagonal: Floats) -> dict[str, Any]:
        """Standard errors and ranges of ranks, by the names of a `Ranking`."""
        spread = spread_of(games, weight, diagonal, self.draws, np.random.default_rng(self.random_state))
        lower, upper = rank_interval(score, spread, self.level, games.component)
        # An item that was never compared can stand anywhere.
        unknown = np.isnan(spread.standard_error)
        lower, upper = np.where(unknown, 1, lower), np.where(unknown, len(score), upper)
        return {"standard_error": spread.standard_error, "rank_lower": lower, "rank_upper": upper}


def centred(score: Floats, component: NDArray[np.int64]) -> Floats:
    """Scores minus the mean of their component, [N]."""
    mean = np.bincount(component, score) / np.bincount(component)
    found: Floats = score - mean[component]
    return found
