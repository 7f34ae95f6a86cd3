"""Which of two items is better, said by many annotators (`Comparisons`)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import Where, as_text, codes_of, series_of, tidy
from crowdwise.data.pair_votes import PairVotes
from crowdwise.data.storable import storable
from crowdwise.errors import InputError

__all__ = ["Comparisons"]

_FIRST = ("first", "a", "left", "1", "item_a", "model_a", "response_a", "option_a", "a>b")
_SECOND = ("second", "b", "right", "2", "item_b", "model_b", "response_b", "option_b", "b>a")
_TIE = ("tie", "equal", "draw", "both", "neither", "tie (bothbad)", "both_bad", "bothbad", "0.5", "a=b")


@storable
class Comparisons(PairVotes):
    """Which of two items is better, said by many annotators; ties are allowed.

    The winner is named by its id, by the side (a / b, left / right, first / second, 1 / 2, item_a, model_a, ...), or as a tie
    (tie, equal, draw, both, neither). A column of numbers from 1 to 2, not all of them whole, says how far each vote goes: 1.3
    is for the first item with probability 0.7 and for the second with probability 0.3 (AlpacaEval's preferences).

    Examples
    --------
    >>> Comparisons.from_arrays(["x", "x", "y"], ["y", "z", "z"], ["ann", "ann", "bob"], ["x", "tie", "z"])
    Comparisons(3 comparisons: 3 items, 2 annotators)
    """

    role: ClassVar[str] = "winner"
    noun: ClassVar[str] = "comparisons"

    @classmethod
    def _grades(
        cls, answer: pl.Series, first: pl.Series, second: pl.Series, absent: NDArray[np.bool_]
    ) -> NDArray[np.float64] | None:
        if not (answer.dtype == pl.String or answer.dtype.is_float()):
            return None
        numbers = answer.cast(pl.Float64, strict=False).fill_nan(None)
        between = numbers.drop_nulls()
        if len(between) < (~absent).sum():
            return None
        whole = between == between.round(0)
        if whole.all() or not between.is_between(1, 2).all():
            return None
        # Versions such as 1.5 may be what is compared.
        ids = pl.concat([as_text(tidy(first)), as_text(tidy(second))]).cast(pl.Float64, strict=False).drop_nulls()
        if between.filter(~whole).is_in(ids.implode()).any():
            return None
        return numbers.fill_null(1.0).to_numpy() - 1

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
                " name the winner by its id, by the side (a or b, left or right, 1 or 2), write tie, or give "
                "degrees from 1 to 2 throughout"
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
