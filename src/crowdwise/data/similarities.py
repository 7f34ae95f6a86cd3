"""Whether two items are the same, said by many annotators (`Similarities`)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import Where, as_text
from crowdwise.data.pair_votes import PairVotes
from crowdwise.data.storable import storable
from crowdwise.errors import InputError

__all__ = ["Similarities"]

_SAME = ("1", "true", "yes", "same", "y", "similar", "match", "duplicate")
_DIFFERENT = ("0", "false", "no", "different", "n", "dissimilar", "distinct")


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
