"""What judges favour besides the better answer: the first place, and length."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdwise.trust.judges.position import position_bias
from crowdwise.trust.judges.verbosity import length_slopes

__all__ = ["with_biases"]


def with_biases(
    judges: pl.DataFrame,
    judge: Any,
    pair: Any,
    in_order: Any,
    chose_first: Any,
    *,
    doublings: Any = None,
    truth: Any = None,
) -> pl.DataFrame:
    """The table of `judges` with what each favours, by verdicts between two answers; rows without verdicts have nulls.

    One entry per verdict: who gave it, about which pair, whether the pair stood in its own order, and whether the first place
    won (a half for a tie). `doublings` is log2 of the first's length over the second's, `truth` whether the first is the better
    one; both NaN where nobody knows. What the columns hold is said by `position_bias` and `length_slopes`.
    """
    names, code = np.unique(np.asarray(judge).astype(str), return_inverse=True)
    pairs = np.unique(pair, return_inverse=True)[1]
    won = np.asarray(chose_first, np.float64)
    seen = position_bias(code, pairs, np.asarray(in_order, bool), won, len(names))
    columns: dict[str, Any] = {
        "first_share": seen.first_share,
        "n_swapped": seen.n_swapped,
        "consistency": seen.consistency,
        "first_advantage": seen.advantage,
        "position_p": seen.p_value,
    }
    if doublings is not None and np.nanmax(np.abs(doublings), initial=0.0) > 0:
        asked = code, pairs, np.asarray(doublings, np.float64), won, len(names)
        columns["length_slope"], columns["length_slope_se"] = length_slopes(*asked)
        if truth is not None:
            slopes = length_slopes(*asked, np.asarray(truth, np.float64))
            columns["length_slope_given_truth"], columns["length_slope_given_truth_se"] = slopes
    biases = pl.DataFrame({"annotator": names} | columns).with_columns(pl.col(pl.Float64).fill_nan(None))
    own = judges.with_columns(pl.col("annotator").cast(pl.String))
    return own.join(biases, on="annotator", how="left", maintain_order="left")
