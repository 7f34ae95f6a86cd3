"""The tables of a comparison: values, intervals, paired differences to one method, and how far methods agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.kernels.types import Floats
from crowdwise.trust.compare.fitting import Outcome
from crowdwise.trust.compare.resample import ItemScores
from crowdwise.trust.metrics import accuracy, auc, ece, interval_of, log_loss, macro_f1

__all__ = [
    "AGAINST_TRUTH",
    "DEBIASED",
    "HELD_OUT",
    "MEASURES",
    "Comparison",
    "Scored",
    "agreement_of",
    "best_of",
    "intervals_of",
    "matrix_of",
    "row_of",
]


MEASURES = (accuracy, macro_f1, auc, log_loss, ece)
AGAINST_TRUTH = tuple(measure.__name__ for measure in MEASURES)
# Without an interval: in items that are drawn again, there is chance of a second kind.
DEBIASED = "ece_debiased"
HELD_OUT = "held_out"
_INTERVALS = ("low", "high", "difference", "difference_low", "difference_high")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side.

    Attributes
    ----------
    table : frame
        A row per method: its measures, `seconds`, `memory_mb`, `n_iter`, `converged` and `error`.
    intervals : frame
        A row per method and measure: `value` with the bounds `low` and `high`, and `difference`, the value minus that of the
        reference, with its own bounds. Items are resampled, the same ones for all methods.
    agreement : frame
        Share of items on which two methods give the same label, a row and a column per method.
    reference : str or None
        The method that differences are taken to: the best unless another was named.
    facts : dict
        Sizes, folds, seed and level.
    """

    table: pl.DataFrame
    intervals: pl.DataFrame
    agreement: pl.DataFrame
    reference: str | None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def measures(self) -> list[str]:
        """Names of the measures that have intervals."""
        return [name for name in (*AGAINST_TRUTH, HELD_OUT) if name in self.table.columns]

    def wide(self) -> pl.DataFrame:
        """The table with the intervals of every measure in columns beside it."""
        wide = self.table
        for measure in self.measures:
            part = self.intervals.filter(pl.col("measure") == measure).select(
                "method", *(pl.col(name).alias(f"{measure}_{name}") for name in _INTERVALS)
            )
            wide = wide.join(part, on="method", how="left", maintain_order="left")
        order = [column for name in self.table.columns for column in wide.columns if column == name or _belongs(column, name)]
        return wide.select(order)


def _belongs(column: str, measure: str) -> bool:
    return any(column == f"{measure}_{name}" for name in _INTERVALS)


@dataclass(eq=False)
class Scored:
    """An outcome without its posterior, which may be large."""

    outcome: Outcome
    values: dict[str, float | None]
    codes: NDArray[np.int16] | None = None
    scores: ItemScores | None = None
    held_out: Floats | None = None


def row_of(scored: Scored, agreement: dict[tuple[str, str], float]) -> dict[str, Any]:
    """A method's row of the table."""
    outcome = scored.outcome
    others = [share for (one, other), share in agreement.items() if one == outcome.method != other]
    notes = {name: getattr(outcome, name) for name in ("seconds", "memory_mb", "n_iter", "converged", "error")}
    return {"method": outcome.method, **scored.values, "agreement": float(np.mean(others)) if others else None, **notes}


def agreement_of(rows: Sequence[Scored]) -> dict[tuple[str, str], float]:
    """Share of equal labels of two methods, both ways round."""
    labelled = [(scored.outcome.method, scored.codes) for scored in rows if scored.codes is not None and len(scored.codes)]
    return {(one, other): float((a == b).mean()) for one, a in labelled for other, b in labelled}


def matrix_of(rows: Sequence[Scored], agreement: dict[tuple[str, str], float]) -> pl.DataFrame:
    """The same shares as a table."""
    names = [scored.outcome.method for scored in rows if (scored.outcome.method,) * 2 in agreement]
    shares = {other: pl.Series([agreement[one, other] for one in names], dtype=pl.Float64) for other in names}
    return pl.DataFrame({"method": pl.Series(names, dtype=pl.String)} | shares)


def best_of(table: pl.DataFrame, against: Sequence[str]) -> str | None:
    """The most accurate, by log loss where several are; without truth, the one that predicts held-out votes best."""
    keys = ["accuracy", "log_loss"] if against else [HELD_OUT]
    able = table.drop_nulls(keys).filter(~pl.any_horizontal(pl.col(keys).is_nan()))
    order = able.sort(keys, descending=[name != "log_loss" for name in keys], maintain_order=True)
    return None if order.is_empty() else str(order["method"][0])


def intervals_of(
    rows: Sequence[Scored], draws: dict[tuple[str, str], Floats], reference: str | None, level: float
) -> pl.DataFrame:
    """Intervals from resampled values, by method and measure, and of their differences to the reference."""
    values = {scored.outcome.method: scored.values for scored in rows}
    table = []
    for (method, measure), drawn in draws.items():
        value, base = values[method][measure], values.get(reference or "", {}).get(measure)
        low, high = interval_of(drawn, level)
        row: dict[str, Any] = {"method": method, "measure": measure, "value": value, "low": low, "high": high}
        if value is not None and base is not None and method != reference:
            other = interval_of(drawn - draws[reference or "", measure], level)
            row |= {"difference": value - base, "difference_low": other[0], "difference_high": other[1]}
        table.append(row)
    schema: dict[str, Any] = {"method": pl.String, "measure": pl.String}
    return pl.DataFrame(table, schema=schema | dict.fromkeys(("value", *_INTERVALS), pl.Float64))
