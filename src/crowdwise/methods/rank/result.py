"""What a ranking method returns: scores with standard errors, ranks with intervals, annotators, and how the fit went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtri

from crowdwise.data.comparisons import Comparisons
from crowdwise.data.encode import codes_of, series_of, tidy
from crowdwise.data.storable import storable, within
from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Outcome
from crowdwise.kernels.ties import TIES, outcome_probabilities
from crowdwise.methods.rank.games import Floats
from crowdwise.methods.rank.laplacian import ranks_within

__all__ = ["Ranking"]


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ranking(Outcome):
    """A fitted ranking; see also `Outcome`.

    Attributes
    ----------
    votes : Comparisons
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
    columns : mapping
        Columns about annotators, [A] each.
    line : [2, A] or None
        How annotators answer: P(first) = intercept + gain s(lead), s the logistic function; None where all answer alike.
    ties, tie
        How ties are modelled, and their parameter, if any.
    """

    votes: Comparisons
    may_be_infinite: ClassVar[tuple[str, ...]] = ("standard_error", "score")
    score: Floats
    standard_error: Floats
    rank_lower: NDArray[np.int64]
    rank_upper: NDArray[np.int64]
    component: NDArray[np.int64]
    level: float
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    line: Floats | None = None
    ties: str = "half"
    tie: float | None = None

    def sound(self) -> bool:
        """Whether the arrays of a saved ranking agree with each other."""
        parts = self.score, self.standard_error, self.rank_lower, self.rank_upper, self.component
        people = self.votes.n_annotators
        return (
            all(part.shape == (self.votes.n_items,) for part in parts)
            and within(self.component, 0, max(self.votes.n_items, 1))
            and all(part.shape == (people,) for part in self.columns.values())
            and (self.line is None or self.line.shape == (2, people))
            and (self.ties == "half" or self.ties in TIES)
        )

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """Rank of every item among those of its component, 1 the best, [N]; equal scores share the better rank."""
        return ranks_within(self.score, self.component)

    def interval(self) -> tuple[Floats, Floats]:
        """Lower and upper ends of the scores' intervals, [N] each."""
        half = float(ndtri((1 + self.level) / 2)) * self.standard_error
        return self.score - half, self.score + half

    def items_frame(self) -> pl.DataFrame:
        """One row per item: score, its standard error and interval, rank within its component, and the range of ranks.

        Items without comparisons have no rank.
        """
        lower, upper = self.interval()
        both = np.concatenate([self.votes.first, self.votes.second])
        n_votes = np.bincount(both, minlength=self.votes.n_items)
        alone = (n_votes == 0) & (np.bincount(self.component)[self.component] == 1)
        columns = {
            "item": series_of(self.votes.items),
            "score": self.score,
            "standard_error": self.standard_error,
            "lower": lower,
            "upper": upper,
            "rank": pl.Series(self.rank).set(pl.Series(alone), None),
            "rank_lower": self.rank_lower,
            "rank_upper": self.rank_upper,
            "n_votes": n_votes,
            "component": self.component,
        }
        return pl.DataFrame(columns).fill_nan(None)

    def by_rank(self) -> pl.DataFrame:
        """`items_frame`, best first, with the rank in the first column; where comparisons fall into parts, part by part."""
        frame = self.items_frame().sort("component", "rank", nulls_last=True, maintain_order=True)
        return frame.select("rank", pl.exclude("rank"))

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator: votes, agreement with the order of the scores, and what the method estimates of them."""
        votes = self.votes
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
        return pl.DataFrame({**columns, **self.columns}).fill_nan(None)

    def probability(self, first: Any, second: Any) -> Floats:
        """Probability that a reliable annotator prefers each of `first` to the item beside it in `second`.

        With a model of ties, a tie counts half.
        """
        lead = self.score[self._codes(first)] - self.score[self._codes(second)]
        win, _, tie = outcome_probabilities(self.ties, self.tie, lead)
        return win + tie / 2

    def _codes(self, items: Any) -> NDArray[np.int32]:
        asked = tidy(series_of([items] if isinstance(items, str) or np.isscalar(items) else items))
        codes = codes_of(asked, tidy(series_of(self.votes.items)))
        if (codes < 0).any():
            raise InputError(f"no item {asked[int(np.flatnonzero(codes < 0)[0])]!r} in this ranking")
        return codes
