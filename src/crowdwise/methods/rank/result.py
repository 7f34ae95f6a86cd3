"""What a ranking method returns: scores with standard errors, ranks with intervals, annotators, and how the fit went."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtri

from crowdwise.data.comparisons import Comparisons
from crowdwise.data.encode import codes_of, series_of, tidy
from crowdwise.data.frozen import ReadOnly
from crowdwise.errors import InputError
from crowdwise.kernels.ties import outcome_probabilities
from crowdwise.methods.rank.games import Floats
from crowdwise.methods.rank.laplacian import ranks_within

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Ranking"]


@dataclass(frozen=True, eq=False)
class Ranking(ReadOnly):
    """A fitted ranking.

    Attributes
    ----------
    method : str
        Name of the method.
    comparisons : Comparisons
        The votes.
    score : [N]
        Log-strength of every item; the mean is 0 within a component.
    standard_error : [N]
        Of the score relative to the mean of its component; NaN for items that were never compared, and for network scores.
    rank_lower, rank_upper : [N]
        Range of ranks within the component, 1 the best.
    component : [N]
        Part of the graph of comparisons that the item is in; the largest is 0.
    level : float
        Probability of the intervals.
    people : mapping
        Columns about annotators, [A] each.
    line : [2, A] or None
        How annotators answer: P(first) = intercept + gain s(lead), s the logistic function; None where all answer alike.
    ties, tie
        How ties are modelled, and their parameter, if any.
    trace : list of float
        The objective at each iteration.
    n_iter, converged
        How long the fit took, and whether it settled.
    """

    method: str
    comparisons: Comparisons
    score: Floats
    standard_error: Floats
    rank_lower: NDArray[np.int64]
    rank_upper: NDArray[np.int64]
    component: NDArray[np.int64]
    level: float
    people: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    line: Floats | None = None
    ties: str = "half"
    tie: float | None = None
    trace: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = True

    def __repr__(self) -> str:
        return f"Ranking({self.method}: {self.comparisons.n_items} items, {self.comparisons.n_votes} comparisons)"

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """Rank of every item among those of its component, 1 the best, [N]; equal scores share the better rank."""
        return ranks_within(self.score, self.component)

    def interval(self) -> tuple[Floats, Floats]:
        """Lower and upper ends of the scores' intervals, [N] each."""
        half = float(ndtri((1 + self.level) / 2)) * self.standard_error
        return self.score - half, self.score + half

    @cached_property
    def n_comparisons(self) -> NDArray[np.int64]:
        """Number of votes on each item, [N]."""
        both = np.concatenate([self.comparisons.first, self.comparisons.second])
        return np.bincount(both, minlength=self.comparisons.n_items)

    def frame(self) -> pl.DataFrame:
        """One row per item, best first; where comparisons fall into parts, part by part. Without comparisons, no rank."""
        lower, upper = self.interval()
        alone = (self.n_comparisons == 0) & (np.bincount(self.component)[self.component] == 1)
        columns = {
            "rank": pl.Series(self.rank).set(pl.Series(alone), None),
            "item": series_of(self.comparisons.items),
            "score": self.score,
            "standard_error": self.standard_error,
            "lower": lower,
            "upper": upper,
            "rank_lower": self.rank_lower,
            "rank_upper": self.rank_upper,
            "n_comparisons": self.n_comparisons,
            "component": self.component,
        }
        return pl.DataFrame(columns).fill_nan(None).sort("component", "rank", nulls_last=True, maintain_order=True)

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator: votes, agreement with the order of the scores, and what the method estimates of them."""
        votes = self.comparisons
        lead = self.score[votes.first] - self.score[votes.second]
        decided = (votes.outcome != 0) & (lead != 0)
        agreed = decided & (np.sign(lead) == votes.outcome)
        n_votes = np.bincount(votes.annotator, minlength=votes.n_annotators)
        n_decided = np.bincount(votes.annotator, decided, votes.n_annotators)
        share = np.divide(
            np.bincount(votes.annotator, agreed, votes.n_annotators),
            n_decided,
            out=np.full(votes.n_annotators, np.nan),
            where=n_decided > 0,
        )
        columns = {"annotator": series_of(votes.annotators), "n_votes": n_votes, "agreement": share}
        return pl.DataFrame({**columns, **self.people}).fill_nan(None)

    def probability(self, first: Any, second: Any) -> Floats:
        """Probability that a reliable annotator prefers each of `first` to the item beside it in `second`.

        With a model of ties, a tie counts half.
        """
        lead = self.score[self._codes(first)] - self.score[self._codes(second)]
        win, _, tie = outcome_probabilities(self.ties, self.tie, lead)
        return win + tie / 2

    def _codes(self, items: Any) -> NDArray[np.int32]:
        asked = tidy(series_of([items] if isinstance(items, str) or np.isscalar(items) else items))
        codes = codes_of(asked, tidy(series_of(self.comparisons.items)))
        if (codes < 0).any():
            raise InputError(f"no item {asked[int(np.flatnonzero(codes < 0)[0])]!r} in this ranking")
        return codes
