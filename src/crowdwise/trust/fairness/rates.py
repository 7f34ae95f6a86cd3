"""Rates of decisions by group, and how far they would move with other items or other annotators.

Every rate is a ratio of two sums over units (items, or annotators with all their votes):

    selection      sum p / n                  true positives   sum t p / sum t
    right          sum right / known          false positives  sum (1 - t) p / sum (1 - t)

p says whether a decision is the class in question, t whether the truth is; both may be probabilities. Resampling units
multiplies a matrix of counts with the sums of the units, so that no rate is ever computed vote by vote.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from crowdwise.kernels.types import Floats, Integers

__all__ = ["RATES", "Decisions", "Rates", "rates_of"]


RATES = ("selection", "true positives", "false positives", "right")
# Sums of a unit: its size, then what the rates are ratios of.
_ABOVE, _BELOW, _SUMS = (1, 4, 6, 7), (0, 3, 5, 2), 8
# Counts of resamples that are held at once.
_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class Decisions:
    """What was decided, what was true, and about whom; a row per item or per vote.

    Attributes
    ----------
    decided : [M, K]
        One where the class was chosen, or its probability.
    true : [M, K]
        The same of the truth; rows of zeros where it is unknown.
    group : [M]
        Group codes.
    n_groups : int
    unit : [M] or None
        What is drawn together in a resample, such as the annotator; None draws every row by itself.
    weight : [M] or None
    """

    decided: Floats
    true: Floats
    group: Integers
    n_groups: int
    unit: Integers | None = None
    weight: Floats | None = None


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of one class, in the order of `RATES`.

    Attributes
    ----------
    value : [G, 4]
        NaN where nothing is below the line.
    n : [G, 4]
        What the rate is a share of: items or votes.
    drawn : [B, G, 4]
        The rates of resamples.
    """

    value: Floats
    n: Floats
    drawn: Floats


def rates_of(decisions: Decisions, positive: int, n_resamples: int, rng: np.random.Generator) -> Rates:
    """Rates of class `positive` in each group, with those of resampled units."""
    n_groups = decisions.n_groups
    sums, times = _units(decisions, positive)
    whole = (times @ sums).reshape(n_groups, _SUMS)
    total, n_units = int(times.sum()), len(times)
    drawn = np.empty((n_resamples, n_groups, len(RATES)))
    step = max(1, _AT_ONCE // max(n_units, 1))
    for start in range(0, n_resamples if total else 0, step):
        size = min(step, n_resamples - start)
        if n_units == total:
            cell = rng.integers(n_units, size=(size, total)) + n_units * np.arange(size)[:, None]
            counts = np.bincount(cell.ravel(), minlength=size * n_units).reshape(size, n_units)
        else:
            counts = rng.multinomial(total, times / total, size=size)
        # From the left, so that the sparse side does the work.
        found = (sums.T @ counts.T.astype(float)).T
        drawn[start : start + size] = _ratios(np.asarray(found).reshape(size, n_groups, _SUMS))
    return Rates(_ratios(whole), whole[:, list(_BELOW)], drawn if total else np.full_like(drawn, np.nan))


def _ratios(sums: Floats) -> Floats:
    above, below = sums[..., list(_ABOVE)], sums[..., list(_BELOW)]
    return np.where(below > 1e-12, above / np.where(below > 1e-12, below, 1.0), np.nan)


def _units(decisions: Decisions, positive: int) -> tuple[csr_array, Integers]:
    """Sums of every unit, [U, G * 8] sparse, and how many units are exactly like it, [U]."""
    group, n_groups = np.asarray(decisions.group), decisions.n_groups
    p, t = decisions.decided[:, positive], decisions.true[:, positive]
    known = decisions.true.sum(axis=1)
    right = np.einsum("mk,mk->m", decisions.decided, decisions.true)
    columns = np.stack([np.ones(len(p)), p, known, t, t * p, known - t, (known - t) * p, right], axis=1)
    if decisions.weight is not None:
        columns = columns * decisions.weight[:, None]
    if decisions.unit is None:
        unit, times = np.arange(len(p)), np.ones(len(p), np.int64)
        bits = columns[:, [1, 2, 3, 7]]
        if decisions.weight is None and np.isin(bits, (0.0, 1.0)).all():
            # Hard labels are of a handful of kinds: rows that are alike are one unit, drawn many times.
            kind = group * 16 + (bits @ np.array([1, 2, 4, 8])).astype(np.int64)
            _, first, times = np.unique(kind, return_index=True, return_counts=True)
            group, columns, unit = group[first], columns[first], np.arange(len(first))
    else:
        # Annotators without votes are nobody to draw.
        found, unit = np.unique(decisions.unit, return_inverse=True)
        times = np.ones(len(found), np.int64)
    row = np.repeat(unit, _SUMS)
    column = (group[:, None] * _SUMS + np.arange(_SUMS)).ravel()
    return coo_array((columns.ravel(), (row, column)), shape=(len(times), n_groups * _SUMS)).tocsr(), times
