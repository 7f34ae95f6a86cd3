"""The face of every ranking method: settings in, `fit(comparisons)`, fitted names that end in an underscore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines.loop import warn_unless_converged
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import Estimator, random_state_setting, seed_of, setting
from crowdwise.methods.rank.games import Floats, Games, as_comparisons, check_connected
from crowdwise.methods.rank.laplacian import rank_interval, spread_of
from crowdwise.methods.rank.result import Ranking

if TYPE_CHECKING:
    from typing_extensions import Never, Self

    from crowdwise.data.comparisons import Comparisons
    from crowdwise.engines.loop import Progress
    from crowdwise.kernels.types import Floats, Integers

__all__ = ["Ranker", "ScoreRanker", "centred"]


class Ranker(Estimator):
    """What every fitted ranking method can be asked."""

    def _fitted(self) -> Ranking:
        found: Ranking = super()._fitted()
        return found

    @property
    def scores_(self) -> Floats:
        """Score of every item, [N], in the order of `items_`."""
        return self._fitted().score


@dataclass(eq=False, repr=False, kw_only=True)
class ScoreRanker(Ranker):
    """Base of methods with a free score per item, which have standard errors; each supplies `_fit`."""

    prior: float = setting(0.1, "Weight of a virtual tie of every item with an item of score 0.", low=0)
    level: float = setting(0.95, "Probability of the intervals of scores and ranks.", above=0)
    draws: int = setting(400, "Draws of all scores, for intervals of ranks; at most 32 above 1,500 items.", low=2, whole=True)
    tol: float = setting(1e-5, "Stop when no score moves by more.", above=0)
    random_state: int | None = random_state_setting("Seed of the draws.")

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
        """Fit to comparisons.

        Parameters
        ----------
        data : Comparisons or frame
            A frame has the columns item_a, item_b, annotator and winner.
        gold, history, engine
            No method of comparisons takes these yet.
        progress : callable, optional
            Called after every iteration with (iteration, objective, largest change of a score).
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        self._check()
        votes = as_comparisons(data)
        games = Games.of(votes)
        check_connected(games, votes.items, self.prior)
        self.result_ = warn_unless_converged(self._fit(votes, games, progress), stacklevel=3)
        return self

    def _check(self) -> None:
        if self.level >= 1:
            raise SettingError(f"{type(self).__name__}: level must be below 1; got {self.level!r}")

    def _fit(self, votes: Comparisons, games: Games, progress: Progress | None) -> Ranking:
        raise NotImplementedError

    def _uncertain(self, games: Games, score: Floats, weight: Floats, diagonal: Floats) -> dict[str, Any]:
        """Standard errors and ranges of ranks, by the names of a `Ranking`."""
        spread = spread_of(games, weight, diagonal, self.draws, np.random.default_rng(seed_of(self.random_state)))
        lower, upper = rank_interval(score, spread, self.level, games.component)
        # An item that was never compared can stand anywhere.
        unknown = np.isnan(spread.standard_error)
        lower, upper = np.where(unknown, 1, lower), np.where(unknown, len(score), upper)
        return {
            "component": games.component,
            "level": self.level,
            "standard_error": spread.standard_error,
            "rank_lower": lower,
            "rank_upper": upper,
        }


def centred(score: Floats, component: Integers) -> Floats:
    """Scores minus the mean of their component, [N]."""
    mean = np.bincount(component, score) / np.bincount(component)
    found: Floats = score - mean[component]
    return found
