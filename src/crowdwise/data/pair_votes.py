"""Votes on pairs of items: the base of `Comparisons` (which is better) and `Similarities` (whether both are the same)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.answers import Answers, frozen
from crowdwise.data.columns import columns_by_role
from crowdwise.data.encode import Where, as_text, checked_weights, id_codes, missing_mask, series_of, tidy, to_polars
from crowdwise.data.storable import within
from crowdwise.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["PairVotes"]


@dataclass(frozen=True, eq=False, repr=False)
class PairVotes(Answers):
    """Votes on pairs; see `Comparisons` and `Similarities`.

    Attributes
    ----------
    first, second : [E]
        Codes of the two items.
    annotator : [E]
        Code of who voted.
    outcome : [E]
        1 for the first item (or "same"), -1 for the second (or "different"), 0 for a tie.
    items, annotators
        Vocabularies, sorted unless the caller gave an order.
    weight : [E] or None
        Weight of each vote; None means one each.
    n_missing
        Rows dropped on entry because the answer was missing.
    degree : [E] or None
        Probability with which each vote is for the side that `outcome` names, from 0.5 to 1; None means 1 each. The rest of
        a vote is for the other side.
    """

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    annotator: NDArray[np.int32]
    outcome: NDArray[np.int8]
    items: NDArray[Any]
    annotators: NDArray[Any]
    weight: NDArray[np.float64] | None = None
    n_missing: int = 0
    degree: NDArray[np.float64] | None = None

    #: Role of the answer's column.
    role: ClassVar[str]

    def sound(self) -> bool:
        """Whether the arrays of saved votes agree with each other."""
        return (
            self.first.shape == self.second.shape == self.annotator.shape == self.outcome.shape
            and within(self.first, 0, self.n_items)
            and within(self.second, 0, self.n_items)
            and within(self.annotator, 0, self.n_annotators)
            and within(self.outcome, -1, 2)
            and (self.weight is None or self.weight.shape == self.outcome.shape)
            and (
                self.degree is None
                or (self.degree.shape == self.outcome.shape and bool((abs(self.degree - 0.75) <= 0.25).all()))
            )
        )

    @cached_property
    def votes_per_item(self) -> NDArray[np.int64]:
        """Votes in which each item stands, [N]."""
        counts = [np.bincount(side, minlength=self.n_items) for side in (self.first, self.second)]
        return frozen(counts[0] + counts[1])

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Probability with which each vote is for its side, [E]; a half for ties."""
        return np.where(self.outcome == 0, 0.5, 1.0) if self.degree is None else self.degree

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        first: str | None = None,
        second: str | None = None,
        annotator: str | None = None,
        answer: str | None = None,
        weight: str | None = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
    ) -> Self:
        """Build from a long pandas, polars or Arrow frame with one row per vote.

        Columns not named are found among the usual names (item_a, item_b, annotator, winner, ...). `answer` names the
        column of the winner, or of "same".
        """
        roles = {"first": first, "second": second, "annotator": annotator, cls.role: answer}
        return cls.from_columns(*columns_by_role(frame, roles, {"weight": weight}), items, annotators)

    @classmethod
    def from_arrays(
        cls,
        first: Any,
        second: Any,
        annotator: Any,
        answer: Any,
        *,
        weight: Any = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
    ) -> Self:
        """Build from columns of equal length; `answer` is a winner (or "same") per row.

        `items` and `annotators` fix the vocabularies and their order; they may contain entries without votes.
        """
        columns = {"first": first, "second": second, "annotator": annotator, cls.role: answer}
        if weight is not None:
            columns["weight"] = weight
        return cls.from_columns(to_polars(columns), Where(f"the {cls.noun}"), items, annotators)

    @classmethod
    def from_columns(
        cls,
        table: pl.DataFrame,
        where: Where,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
    ) -> Self:
        """Build from columns that are called by their roles; errors name the rows of `where`."""
        answer = tidy(table[cls.role])
        absent = missing_mask(answer, ()).to_numpy()
        graded = cls._grades(table[cls.role], table["first"], table["second"], absent)
        first, second, item_ids = _pair_codes(table["first"], table["second"], items, where)
        annotator, annotator_ids = id_codes(table["annotator"], annotators, "annotator", where)
        alone = np.flatnonzero((first == second) & ~absent)
        if len(alone):
            row = int(alone[0])
            raise InputError(f"{where.row(row)}: item {item_ids[first[row]]!r} is paired with itself; remove the row")
        weight = None if "weight" not in table.columns else checked_weights(table["weight"], where)
        if graded is None:
            outcome, degree = cls._outcomes(answer, first, second, item_ids, absent, where), None
        else:
            outcome, degree = np.sign(0.5 - graded).astype(np.int8), np.maximum(graded, 1 - graded)
        every = cls(first, second, annotator, outcome, item_ids, annotator_ids, weight, int(absent.sum()), degree)
        return every.take_votes(~absent).in_order()

    @classmethod
    def _grades(
        cls, answer: pl.Series, first: pl.Series, second: pl.Series, absent: NDArray[np.bool_]
    ) -> NDArray[np.float64] | None:
        """The probability that every row is for the second item, [E], where answers are such; else None."""
        return None

    @classmethod
    @abstractmethod
    def _outcomes(
        cls,
        answer: pl.Series,
        first: NDArray[np.int32],
        second: NDArray[np.int32],
        items: NDArray[Any],
        absent: NDArray[np.bool_],
        where: Where,
    ) -> NDArray[np.int8]:
        """The outcome of every row, [E]; an answer that cannot be understood is an error that names its row."""

    # -- parts, together, and as a table -------------------------------------------------------

    def __getitem__(self, positions: Any) -> Self:
        """Return the votes at these positions (an index array, mask or slice); vocabularies stay."""
        return self.take_votes(np.atleast_1d(np.arange(self.n_votes)[positions]))

    def in_order(self) -> Self:
        """The votes in an order of their own, so that sums over them do not depend on that of the file's rows."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        more: list[NDArray[Any]] = [array for array in (self.degree, self.weight) if array is not None]
        order = np.lexsort((self.first, *more, self.outcome, self.annotator, high, low))
        return self if np.array_equal(order, np.arange(self.n_votes)) else self.take_votes(order)

    def take_votes(self, keep: NDArray[Any]) -> Self:
        """Return the votes at these positions (a mask or an index array), in this order; vocabularies stay."""
        return replace(
            self,
            first=self.first[keep],
            second=self.second[keep],
            annotator=self.annotator[keep],
            outcome=self.outcome[keep],
            weight=None if self.weight is None else self.weight[keep],
            degree=None if self.degree is None else self.degree[keep],
        )

    def take_items(self, keep: NDArray[Any]) -> Self:
        """Return the items at these positions, each once, with the votes between them; annotators stay."""
        new = np.full(self.n_items, -1, np.int32)
        new[keep] = np.arange(len(self.items[keep]), dtype=np.int32)
        votes = self.take_votes((new[self.first] >= 0) & (new[self.second] >= 0))
        return replace(votes, first=new[votes.first], second=new[votes.second], items=self.items[keep])

    def concat(self, *others: Self) -> Self:
        """Append the votes of others; vocabularies become sorted unions."""
        parts = (self, *others)
        items, item_codes = self._union(parts, "items")
        annotators, annotator_codes = self._union(parts, "annotators")
        columns = [
            (item[part.first], item[part.second], who[part.annotator], part.outcome)
            for item, who, part in zip(item_codes, annotator_codes, parts, strict=True)
        ]
        first, second, annotator, outcome = (np.concatenate(column) for column in zip(*columns, strict=True))
        dropped = sum(part.n_missing for part in parts)
        weight = self._joined_weights(parts)
        degree = None
        if any(part.degree is not None for part in parts):
            degree = np.concatenate([part.degrees for part in parts])
        every = type(self)(first, second, annotator, outcome, items, annotators, weight, dropped, degree)
        return every.in_order()

    def to_frame(self) -> pl.DataFrame:
        """One row per vote: first, second, annotator, outcome, and weight where votes have one."""
        ids, who = series_of(self.items), series_of(self.annotators)
        columns = {"first": ids[self.first], "second": ids[self.second], "annotator": who[self.annotator]}
        frame = pl.DataFrame({**columns, "outcome": self.outcome})
        frame = frame if self.degree is None else frame.with_columns(degree=self.degree)
        return frame if self.weight is None else frame.with_columns(weight=self.weight)


def _pair_codes(
    first: pl.Series, second: pl.Series, items: Sequence[Any] | None, where: Where
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]:
    """Codes of two columns of items in one vocabulary: the given one, or the sorted ids of both."""
    first, second = tidy(first), tidy(second)
    if first.dtype != second.dtype:
        first, second = as_text(first), as_text(second)
    codes, ids = id_codes(pl.concat([first, second]), items, "item", where, n_rows=len(first))
    return np.ascontiguousarray(codes[: len(first)]), np.ascontiguousarray(codes[len(first) :]), ids
