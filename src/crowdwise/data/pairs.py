"""Votes on pairs of items: which of two is better (`Comparisons`), or whether two are the same (`Similarities`).

The counterpart of `Annotations`: an immutable list of votes as integer codes, with the vocabularies of items and annotators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.coding import checked_weights, id_codes
from crowdwise.data.encode import Where, as_text, codes_of, find_column, missing_mask, series_of, tidy, to_polars
from crowdwise.data.frozen import Answers
from crowdwise.data.storable import storable, within
from crowdwise.errors import InputError

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self

__all__ = ["Comparisons", "PairVotes", "Similarities"]

_FIRST = ("first", "a", "left", "1", "item_a", "model_a", "response_a", "option_a", "a>b")
_SECOND = ("second", "b", "right", "2", "item_b", "model_b", "response_b", "option_b", "b>a")
_TIE = ("tie", "equal", "draw", "both", "neither", "tie (bothbad)", "both_bad", "bothbad", "0.5", "a=b")
_SAME = ("1", "true", "yes", "same", "y", "similar", "match", "duplicate")
_DIFFERENT = ("0", "false", "no", "different", "n", "dissimilar", "distinct")


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
    """

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    annotator: NDArray[np.int32]
    outcome: NDArray[np.int8]
    items: NDArray[Any]
    annotators: NDArray[Any]
    weight: NDArray[np.float64] | None = None
    n_missing: int = 0

    #: Role of the answer's column.
    role: ClassVar[str]
    noun: ClassVar[str]

    def sound(self) -> bool:
        """Whether the arrays of saved votes agree with each other."""
        return (
            self.first.shape == self.second.shape == self.annotator.shape == self.outcome.shape
            and within(self.first, 0, self.n_items)
            and within(self.second, 0, self.n_items)
            and within(self.annotator, 0, self.n_annotators)
            and within(self.outcome, -1, 2)
            and (self.weight is None or self.weight.shape == self.outcome.shape)
        )

    @property
    def n_votes(self) -> int:
        """Number of votes, E."""
        return len(self.outcome)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weight of every vote, [E]: ones where none were given."""
        return np.ones(self.n_votes) if self.weight is None else self.weight

    def __len__(self) -> int:
        return self.n_votes

    def __getitem__(self, positions: Any) -> Self:
        """Return the votes at these positions (an index array, mask or slice); vocabularies stay."""
        keep = np.atleast_1d(np.arange(self.n_votes)[positions])
        return replace(
            self,
            first=self.first[keep],
            second=self.second[keep],
            annotator=self.annotator[keep],
            outcome=self.outcome[keep],
            weight=None if self.weight is None else self.weight[keep],
        )

    def in_order(self) -> Self:
        """The votes in an order of their own, so that sums over them do not depend on that of the file's rows."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        weight = () if self.weight is None else (self.weight,)
        order = np.lexsort((self.first, *weight, self.outcome, self.annotator, high, low))
        return self if np.array_equal(order, np.arange(self.n_votes)) else self[order]

    def __repr__(self) -> str:
        dropped = f"; {self.n_missing} missing answers dropped" if self.n_missing else ""
        return (
            f"{type(self).__name__}({self.n_votes} {self.noun}: {self.n_items} items, {self.n_annotators} annotators{dropped})"
        )

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        *,
        first: str | None = None,
        second: str | None = None,
        annotator: str | None = None,
        answer: str | None = None,
        weight: str | None = None,
        items: Sequence[Any] | None = None,
    ) -> Self:
        """Read a table (CSV, TSV, JSONL, Parquet, Arrow; gzip'd too) with one row per vote.

        Columns not named are found among the usual names (item_a, item_b, annotator, winner, ...). `answer` names the
        column of the winner, or of "same".
        """
        from crowdwise.io.roles import read_roles

        roles = {"first": first, "second": second, "annotator": annotator, cls.role: answer}
        table = read_roles(path, roles, {"weight": weight})
        return cls.from_columns(table.frame, table.where, items)

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
    ) -> Self:
        """Build from a long pandas, polars or Arrow frame with one row per vote; see `read`."""
        where, table = Where("the frame"), to_polars(frame)
        asked = {"first": first, "second": second, "annotator": annotator, cls.role: answer}
        names = {role: find_column(table, role, given, where) for role, given in asked.items()}
        if weight is not None:
            names["weight"] = find_column(table, "weight", weight, where)
        return cls.from_columns(pl.DataFrame({role: table[name] for role, name in names.items()}), where, items)

    @classmethod
    def from_arrays(
        cls, first: Any, second: Any, annotator: Any, answer: Any, *, weight: Any = None, items: Sequence[Any] | None = None
    ) -> Self:
        """Build from columns of equal length; `answer` is a winner (or "same") per row."""
        columns = {"first": first, "second": second, "annotator": annotator, cls.role: answer}
        if weight is not None:
            columns["weight"] = weight
        return cls.from_columns(to_polars(columns), Where(f"the {cls.noun}"), items)

    @classmethod
    def from_columns(cls, table: pl.DataFrame, where: Where, items: Sequence[Any] | None) -> Self:
        absent = missing_mask(tidy(table[cls.role]), ()).to_numpy()
        both = pl.concat([_like(table["first"], table["second"]), _like(table["second"], table["first"])])
        codes, item_ids = id_codes(both, items, "item", _Twice(where, len(table)))
        first, second = codes[: len(table)], codes[len(table) :]
        annotator, annotator_ids = id_codes(table["annotator"], None, "annotator", where)
        alone = np.flatnonzero((first == second) & ~absent)
        if len(alone):
            row = int(alone[0])
            raise InputError(f"{where.row(row)}: item {item_ids[first[row]]!r} is paired with itself; remove the row")
        weight = None if "weight" not in table.columns else checked_weights(table["weight"], where)
        outcome = cls._outcomes(tidy(table[cls.role]), first, second, item_ids, absent, where)
        keep = np.flatnonzero(~absent)
        return cls(
            np.ascontiguousarray(first[keep]),
            np.ascontiguousarray(second[keep]),
            annotator[keep],
            outcome[keep],
            item_ids,
            annotator_ids,
            None if weight is None else weight[keep],
            int(absent.sum()),
        )

    @classmethod
    def _outcomes(
        cls,
        answer: pl.Series,
        first: NDArray[np.int32],
        second: NDArray[np.int32],
        items: NDArray[Any],
        absent: NDArray[np.bool_],
        where: Where,
    ) -> NDArray[np.int8]:
        raise NotImplementedError

    # -- as a table ----------------------------------------------------------------------------

    def to_frame(self) -> pl.DataFrame:
        """One row per vote: first, second, annotator, outcome, and weight where votes have one."""
        ids, people = series_of(self.items), series_of(self.annotators)
        columns = {"first": ids[self.first], "second": ids[self.second], "annotator": people[self.annotator]}
        frame = pl.DataFrame({**columns, "outcome": self.outcome})
        return frame if self.weight is None else frame.with_columns(weight=self.weight)


@storable
class Comparisons(PairVotes):
    """Which of two items is better, said by many annotators; ties are allowed.

    The winner is named by its id, by the side (a / b, left / right, first / second, 1 / 2, item_a, model_a, ...), or as a tie
    (tie, equal, draw, both, neither).

    Examples
    --------
    >>> Comparisons.from_arrays(["x", "x", "y"], ["y", "z", "z"], ["ann", "ann", "bob"], ["x", "tie", "z"])
    Comparisons(3 comparisons: 3 items, 2 annotators)
    """

    role: ClassVar[str] = "winner"
    noun: ClassVar[str] = "comparisons"

    @classmethod
    def _outcomes(
        cls,
        answer: pl.Series,
        first: NDArray[np.int32],
        second: NDArray[np.int32],
        items: NDArray[Any],
        absent: NDArray[np.bool_],
        where: Where,
    ) -> NDArray[np.int8]:
        # An id comes before a word: items may be called "a" and "b", or 1 and 2.
        named = codes_of(answer, tidy(series_of(items)))
        words = as_text(answer).str.strip_chars().str.to_lowercase()
        outcome = np.zeros(len(answer), np.int8)
        outcome[(words.is_in(_FIRST).fill_null(False).to_numpy()) | (named == first)] = 1
        outcome[(words.is_in(_SECOND).fill_null(False).to_numpy() & (named != first)) | (named == second)] = -1
        cls._refuse_two_readings(words, named, first, second, items, where)
        tie = words.is_in(_TIE).fill_null(False).to_numpy() & (named != first) & (named != second)
        outcome[tie] = 0
        bad = np.flatnonzero((outcome == 0) & ~tie & ~absent)
        if len(bad):
            row = int(bad[0])
            if words[row] == "0":
                # Files write 0 for the first of two, for the second, and for a tie; a guess would be wrong in silence.
                raise InputError(
                    f"{where.row(row)}: the winner 0 could mean the first item, the second or a tie;"
                    " write left, right and tie instead of numbers from 0"
                )
            one, other = (items[side[row : row + 1]].tolist()[0] for side in (first, second))
            sides = f"neither {one!r} nor {other!r}"
            raise InputError(
                f"{where.row(row)}: the winner {str(answer[row])!r} is {sides};"
                " name the winner by its id, by the side (a or b, left or right, 1 or 2), or write tie"
            )
        return outcome

    @staticmethod
    def _refuse_two_readings(
        words: pl.Series,
        named: NDArray[np.int32],
        first: NDArray[np.int32],
        second: NDArray[np.int32],
        items: NDArray[Any],
        where: Where,
    ) -> None:
        """Refuse winners that can only be sides in some rows, and are read as ids against their side in others."""
        of_first, of_second = (words.is_in(side).fill_null(False).to_numpy() for side in (_FIRST, _SECOND))
        side_only = (of_first | of_second) & (named >= 0) & (named != first) & (named != second)
        turned = np.flatnonzero((of_first & (named == second)) | (of_second & (named == first)))
        if side_only.any() and len(turned):
            row, other = int(turned[0]), int(np.flatnonzero(side_only)[0])
            raise InputError(
                f"{where.row(row)}: the winner {words[row]!r} is the id of one item and means the other by its side, and in "
                f"{where.row(other)} it can only be a side; write left and right, or the winners' ids throughout"
            )


@storable
class Similarities(PairVotes):
    """Whether two items are the same, or of one kind, said by many annotators.

    The answer is 1 / 0, true / false, yes / no or same / different.

    Examples
    --------
    >>> Similarities.from_arrays(["x", "x"], ["y", "z"], ["ann", "bob"], [1, 0])
    Similarities(2 answers: 3 items, 2 annotators)
    """

    role: ClassVar[str] = "same"
    noun: ClassVar[str] = "answers"

    @classmethod
    def _outcomes(
        cls,
        answer: pl.Series,
        first: NDArray[np.int32],
        second: NDArray[np.int32],
        items: NDArray[Any],
        absent: NDArray[np.bool_],
        where: Where,
    ) -> NDArray[np.int8]:
        words = as_text(answer).str.strip_chars().str.to_lowercase()
        same = words.is_in(_SAME).fill_null(False).to_numpy()
        different = words.is_in(_DIFFERENT).fill_null(False).to_numpy()
        bad = np.flatnonzero(~same & ~different & ~absent)
        if len(bad):
            row = int(bad[0])
            raise InputError(f"{where.row(row)}: the answer {str(answer[row])!r} is none of 1, 0, yes, no, same, different")
        return np.where(same, 1, -1).astype(np.int8)


class _Twice(Where):
    """Rows of two columns, one below the other."""

    def __init__(self, where: Where, n_rows: int) -> None:
        super().__init__(where.source, where.first_row)
        vars(self).update(where=where, n_rows=n_rows)

    def row(self, index: int) -> str:
        """The row of the table."""
        found: str = vars(self)["where"].row(index % vars(self)["n_rows"])
        return found


def _like(column: pl.Series, other: pl.Series) -> pl.Series:
    """Ids of both columns in one type: text where they differ."""
    column, other = tidy(column), tidy(other)
    return column if column.dtype == other.dtype else as_text(column)
