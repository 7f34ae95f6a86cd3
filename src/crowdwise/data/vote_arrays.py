"""Arrays of numbers that hold one-hot labels or probabilities of classes instead of votes: which they are, and their votes.

=============  ======================================================================================================
shape          read as
=============  ======================================================================================================
``[N, K]``     probabilities of K classes by one annotator, if rows sum to one; one-hot labels, if every row has a single
               1 (of whole numbers from `_ENOUGH` rows on, for fewer may be votes)
``[N, A]``     votes of A annotators, if the numbers are whole and not one-hot: left to `Annotations.from_matrix`
``[N, A, K]``  probabilities of K classes by A annotators
=============  ======================================================================================================

A row of NaN is no vote; so is a row of zeros, where it cannot be votes for class 0. Anything else is refused: also whole
numbers that may be votes counted per class (`seem_counts`) or percentages, and one-hot labels of which a few rows are odd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.columns import plays_role
from crowdwise.data.encode import to_polars
from crowdwise.data.matrices import seem_counts
from crowdwise.data.probabilities import TOLERANCE
from crowdwise.errors import InputError

__all__ = ["FORMS", "ONLY_ANNOTATOR", "array_votes", "is_nested"]

# Name of the annotator whose votes are a plain `y`.
ONLY_ANNOTATOR = "y"
# What `y` may be.
FORMS = (
    "y is one label per row [N], votes of annotators [N, A] (names or whole numbers), probabilities of classes that sum to one "
    "[N, K], those of several annotators [N, A, K], or Annotations; features come before it: fit(X, y)"
)
_SHARES = "give their shares, y / y.sum(axis=-1, keepdims=True)"
# Rows from which a single 1 in every row cannot be chance: independent annotators of two classes give exactly one 1 with a
# probability of at most a half per row (two annotators who each say 1 half of the time), so below 1e-6 in 20 rows.
_ENOUGH = 20
# The largest share of odd rows among one-hot labels. Of 20 rows whose chance of a single 1 is a half, 18 have one in 2 of
# 10,000 cases.
_ODD = 0.1


def array_votes(
    y: Any, *, classes: Sequence[Any] | None = None, certain: bool = False, several: bool = False
) -> Annotations | None:
    """Votes of an array of one-hot labels or probabilities; None where it is no such array, but votes or labels.

    Parameters
    ----------
    y : array, tensor, sparse matrix, nested list, or frame with a column per class
    classes : sequence, optional
        Names of the K classes where the array has none; by default the names of the columns, or 0 to K - 1.
    certain : bool
        A single 1 in every row is one-hot, however few rows there are.
    several : bool
        Votes of several annotators are expected: where few rows can be read in both ways, they are votes.
    """
    found = _numbers(y)
    if found is None:
        return None
    values, names = found
    if values.ndim > 3:
        raise InputError(f"y of shape {values.shape} has too many axes; {FORMS}")
    if values.ndim == 3:
        _check_distributions(values)
    elif not _holds_classes(values, certain or names is not None, several):
        return None
    known = list(classes) if classes is not None and len(classes) == values.shape[-1] else names
    return _votes(values, range(values.shape[-1]) if known is None else known)


def is_nested(y: Any) -> bool:
    """Whether a sequence holds a sequence per row: a list of lists, arrays or tensors, or a series of lists."""
    if isinstance(y, list | tuple):
        first = y[0] if y else None
    elif getattr(y, "ndim", 1) == 1 and str(getattr(y, "dtype", "")).startswith(("object", "List", "Array")) and len(y):
        first = next(iter(y))
    else:
        return False
    return not isinstance(first, str | bytes) and getattr(first, "ndim", 1) > 0 and hasattr(first, "__len__")


def _numbers(y: Any) -> tuple[NDArray[np.float64], list[Any] | None] | None:
    """Two or more axes of numbers, and the names of the columns where there are any; None where it is nothing like it.

    Whole numbers come back as such, so that they are told from probabilities that happen to be 0 and 1.
    """
    if isinstance(y, Annotations | dict | np.ma.MaskedArray):
        return None
    names = None
    if hasattr(y, "columns") or hasattr(y, "column_names"):
        frame = to_polars(y)
        if any(plays_role(frame.columns, role) for role in ("item", "annotator", "label")) or frame.width < 2:
            return None
        if not all(kind.is_numeric() or kind == pl.Boolean for kind in frame.dtypes):
            return None
        # The names that the frame itself has: polars turns numbers into text.
        names = list(y.columns) if hasattr(y, "columns") else frame.columns
        names = [name.item() if isinstance(name, np.generic) else name for name in names]
        y = frame.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    elif hasattr(y, "toarray"):
        y = y.toarray()
    elif is_nested(y):
        y = _stacked(y)
    if hasattr(y, "detach"):
        y = y.detach().cpu()
        # numpy has no bfloat16.
        y = (y.double() if y.is_floating_point() else y).numpy()
    if not isinstance(y, np.ndarray) or y.ndim < 2 or y.dtype.kind not in "fiub" or y.size == 0:
        return None
    return None if y.ndim == 2 and y.shape[1] == 1 else (y, names)


def _stacked(y: Any) -> Any:
    """One array of a sequence of rows; None where they are of different lengths or no numbers."""
    rows = [row.detach().cpu().double().numpy() if hasattr(row, "detach") else row for row in y]
    try:
        return np.asarray(rows)
    except ValueError:
        return None


def _holds_classes(values: NDArray[Any], certain: bool, several: bool) -> bool:
    """Whether a matrix holds one-hot labels or probabilities rather than votes; refuses what is neither, or may be both."""
    number = ~np.isnan(values)
    given = values[number]
    if not given.size:
        return False
    if np.isinf(given).any() or (given != np.round(given)).any():
        _check_distributions(values)
        return True
    rows = values[np.asarray(number.any(axis=1))]
    votes = f"votes of {values.shape[1]} annotators (then give crowdwise.Annotations.from_matrix(y))"
    # In fewer rows, annotators of the same items may differ so by chance.
    seen = _seen_of_counts(values) if len(values) >= _ENOUGH else ""
    if seen:
        way = 'read them from a file, crowdwise.read(..., format="counts")' if several else _SHARES
        raise InputError(f"y of shape {values.shape} may hold {seen} (then {way}), or {votes}")
    if np.isnan(rows).any() or (given < 0).any() or (given > 1).any():
        return False
    ones = rows.sum(axis=1)
    n_single = int((ones == 1).sum())
    what = f"y of shape {values.shape} has a single 1 in every row"
    if n_single < len(ones):
        _check_few_odd(rows, ones, what, votes, several)
        return False
    if certain or values.dtype.kind == "f" or len(ones) >= _ENOUGH:
        return True
    if several:
        return False
    raise InputError(f"{what}, and in {len(ones)} rows that may be one-hot labels (then give y.argmax(axis=1)) or {votes}")


def _seen_of_counts(values: NDArray[Any]) -> str:
    """What whole numbers may be if not votes, and how that shows; empty where they look like votes."""
    total = values.sum(axis=1)
    if (values >= 0).all() and (total == total[0]).all() and total[0] > 1 and (values != values[0]).any():
        return f"percentages, votes counted per class, or several labels per row, for every row sums to {total[0]:.0f}"
    if seem_counts(values):
        return "votes counted per class, for some numbers are 0, and where one is large the others are small"
    return ""


def _check_few_odd(rows: NDArray[Any], ones: NDArray[Any], what: str, votes: str, several: bool) -> None:
    """Refuse what would be one-hot but for rows of zeros, or for a few rows with several ones, and may be votes."""
    odd = np.flatnonzero(ones > 1)
    n_single, n_odd = int((ones == 1).sum()), int((ones != 1).sum())
    if n_single < _ENOUGH or (n_odd > _ODD * len(ones) if len(odd) else several):
        return
    shown = "zeros" if not len(odd) else ", ".join(f"{value:.0f}" for value in rows[odd[0]][:6])
    wrong, such = ("wrong", ", such as ") if len(odd) else ("missing", " of ")
    raise InputError(
        f"{what}, but for {n_odd:,} {'row' if n_odd == 1 else 'rows'}{such}{shown}: one-hot labels, some of them {wrong} (then "
        f"put NaN there), or {votes}"
    )


def _check_distributions(values: NDArray[Any]) -> None:
    """Refuse numbers that are no probabilities of the classes on the last axis, naming the first row."""
    cells = values.reshape(-1, values.shape[-1]).astype(np.float64)
    blank = np.isnan(cells).all(axis=1)
    total = cells.sum(axis=1)
    near = (np.abs(total - 1) <= TOLERANCE) | (total == 0)
    wrong = np.flatnonzero(~blank & ~(near & (cells >= 0).all(axis=1)))
    if not len(wrong):
        return
    row = int(wrong[0])
    way = "of scores, take the softmax"
    if not (cells < 0).any():
        way = f"of counts and rounded shares, {_SHARES}; {way}"
    numbers = ", ".join(f"{value:.4g}" for value in cells[row][:4]) + (", ..." if cells.shape[1] > 4 else "")
    where = f"row {row}" if values.ndim == 2 else "row {}, annotator {}".format(*divmod(row, values.shape[1]))
    raise InputError(
        f"y of shape {values.shape} holds neither votes nor probabilities: {where} (counted from 0) has {numbers}, which sum "
        f"to {total[row]:.4g} and not to 1 ({way}); {FORMS}"
    )


def _votes(values: NDArray[Any], classes: Sequence[Any]) -> Annotations:
    """Soft votes; hard ones where every distribution is certain, so that one-hot labels are those labels."""
    n_rows, n_annotators = len(values), 1 if values.ndim == 2 else values.shape[1]
    cells = values.reshape(-1, values.shape[-1]).astype(np.float64)
    cells[(cells == 0).all(axis=1)] = np.nan
    votes = Annotations.from_probabilities(
        np.repeat(np.arange(n_rows), n_annotators),
        [ONLY_ANNOTATOR] * n_rows if values.ndim == 2 else np.tile(np.arange(n_annotators), n_rows),
        cells,
        classes=list(classes),
    )
    return votes.hardened() if (votes.weights == 1).all() else votes
