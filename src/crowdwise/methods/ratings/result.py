"""What a fit to values returns: an estimate with an interval for every item, and a picture of every annotator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import series_of
from crowdwise.data.frozen import ReadOnly
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.data.ratings import Ratings

__all__ = ["Estimates"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(ReadOnly):
    """Estimated values of items, each with Student's t around it.

    Attributes
    ----------
    values : Ratings
    method : str
    estimate : [N, D]
        NaN where a method says nothing of items without answers.
    scale, freedom : [N, D]
        Scale and degrees of freedom of the t distribution; the scale is 0 where the value is known.
    bias, noise : [A, D]
        An annotator's mean error, and standard deviation of the rest.
    weight : [A]
        Share of an annotator in all estimates, by precision; sums to one.
    reliability : [A]
        Squared correlation of an annotator's answers with the true values, as the fit has it.
    more : mapping
        Further columns of the table of annotators, [A] or [A, D] each.
    """

    values: Ratings
    method: str
    estimate: Floats
    scale: Floats
    freedom: Floats
    bias: Floats
    noise: Floats
    weight: Floats
    reliability: Floats
    more: Mapping[str, Floats] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Estimates({self.method}: {self.values!r})"

    @property
    def sd(self) -> Floats:
        """Standard deviation of every estimate, [N, D]."""
        # With two degrees of freedom or fewer there is none; three are the fewest that give a useful number.
        freedom = np.maximum(self.freedom, 3.0)
        spread: Floats = self.scale * np.sqrt(freedom / (freedom - 2))
        return spread

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Central interval of every estimate at this level: low and high, [N, D] each."""
        from scipy.stats import t

        if not 0 < level < 1:
            raise SettingError(f"level must lie between 0 and 1; got {level!r}")
        half = t.ppf((1 + level) / 2, self.freedom) * self.scale
        return self.estimate - half, self.estimate + half

    def items_frame(self, level: float = 0.95) -> pl.DataFrame:
        """One row per item: estimate, sd, low, high and the number of answers; a name before each where values have several."""
        low, high = self.interval(level)
        columns: dict[str, Any] = {"item": series_of(self.values.items)}
        parts = {"estimate": self.estimate, "sd": self.sd, "low": low, "high": high}
        for k, name in enumerate(self.values.names):
            for part, array in parts.items():
                plain = len(self.values.names) == 1
                columns[part if plain else name if part == "estimate" else f"{name}_{part}"] = array[:, k]
        return pl.DataFrame(columns).with_columns(pl.Series("n_values", self.values.votes_per_item)).fill_nan(None)

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator, most weight first: n_values, bias, noise, weight and reliability."""
        columns: dict[str, Any] = {
            "annotator": series_of(self.values.annotators),
            "n_values": self.values.votes_per_annotator,
        }
        for part, array in {"bias": self.bias, "noise": self.noise, **self.more}.items():
            wide = array[:, None] if array.ndim == 1 else array
            names = [part] if wide.shape[1] == 1 else [f"{part}_{name}" for name in self.values.names]
            columns |= {name: wide[:, k] for k, name in enumerate(names)}
        frame = pl.DataFrame(columns | {"weight": self.weight, "reliability": self.reliability}).fill_nan(None)
        return frame.sort("weight", descending=True, maintain_order=True)
