"""What every detector returns: one row per annotator, with a reason in words.

A flag is a list entry, never an action: nothing is dropped unless the caller asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = ["Report", "benjamini_hochberg", "check_level", "report", "votes_of"]


@dataclass(frozen=True, eq=False)
class Report:
    """Findings of one detector.

    Attributes
    ----------
    detector : str
    frame : frame
        annotator, score, p_value, q_value (false-discovery rate), flag, reason; more columns where a
        detector has more to say.
    notes : tuple of str
        What the reader must know about the whole, such as assumptions that do not hold.
    pairs : frame or None
        Pairs of annotators, for detectors of pairs.
    """

    detector: str
    frame: pl.DataFrame
    notes: tuple[str, ...] = ()
    pairs: pl.DataFrame | None = None

    @property
    def flagged(self) -> list[Any]:
        """The annotators with a flag, in the order of the votes' vocabulary."""
        return self.frame.filter(pl.col("flag"))["annotator"].to_list()

    @property
    def codes(self) -> Integers:
        """Positions of the flagged annotators."""
        return np.flatnonzero(self.frame["flag"].to_numpy())


def report(
    detector: str,
    votes: Annotations,
    *,
    score: Floats,
    p_value: Floats,
    q_value: Floats,
    flag: Flags,
    reason: Sequence[str],
    more: dict[str, Any] | None = None,
    notes: tuple[str, ...] = (),
    pairs: pl.DataFrame | None = None,
) -> Report:
    """Build a report from arrays over annotators, [A] each; NaN (cannot be said) becomes null."""
    numbers = {"score": score, "p_value": p_value, "q_value": q_value}
    columns: dict[str, Any] = {"annotator": series_of(votes.annotators)}
    columns |= {name: pl.Series(np.asarray(values, float)).fill_nan(None) for name, values in numbers.items()}
    columns |= {"flag": flag, "reason": pl.Series(list(reason), dtype=pl.String)}
    return Report(detector, pl.DataFrame(columns | (more or {})), notes, pairs)


def benjamini_hochberg(p_value: Floats) -> Floats:
    """Smallest false-discovery rate at which each hypothesis is rejected, shape of `p_value`; NaN stays NaN.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.5])).round(4).tolist()
    [0.04, 0.0533, 0.0533, 0.5]
    """
    p_value = np.asarray(p_value, float)
    q_value = np.full(p_value.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p_value))
    order = tested[np.argsort(p_value[tested], kind="stable")]
    scaled = p_value[order] * len(order) / np.arange(1, len(order) + 1)
    q_value[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return q_value


def check_level(fdr: float) -> None:
    """Refuse a false-discovery rate outside (0, 1)."""
    if not 0 < fdr < 1:
        raise SettingError(f"fdr must lie strictly between 0 and 1; got {fdr!r}")


def votes_of(result: Result, votes: Annotations | None) -> Annotations:
    """The votes to examine: those of the fit, or others over the same items, annotators and classes."""
    own = result.votes
    if votes is None or votes is own:
        return own
    for name in ("items", "annotators", "classes"):
        if not np.array_equal(getattr(votes, name), getattr(own, name)):
            raise InputError(f"these votes have other {name} than the result; fit the method to them first")
    return votes
