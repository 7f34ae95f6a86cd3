"""What a fit to values returns: an estimate with an interval for every item, and a picture of every annotator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.data.storable import storable
from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Outcome
from crowdwise.kernels.types import Array, Floats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.data.ratings import Ratings

__all__ = ["Estimates", "sd_of"]


def sd_of(scale: Floats, freedom: Floats) -> Floats:
    """Standard deviation of Student's t."""
    # With two degrees of freedom or fewer there is none; three are the fewest that give a useful number.
    enough = np.maximum(freedom, 3.0)
    sd: Floats = scale * np.sqrt(enough / (enough - 2))
    return sd


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Estimates(Outcome):
    """Estimated values of items, each with Student's t around it; see also `Outcome`.

    Attributes
    ----------
    votes : Ratings
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
    widened : [D] or None
        How many times wider intervals are than the model has them, because held-out annotators are further off (see
        `crowdwise.methods.ratings.coverage`); None where a method does not look.
    crowd_error : [D] or None
        Standard deviation of what the crowd as a whole gets wrong, by known values; None without any.
    more : mapping
        Further columns of the table of annotators, [A] or [A, D] each.
    pairs : mapping
        What is known of dependent pairs of annotators, where a method looks for them.
    """

    votes: Ratings
    estimate: Floats
    scale: Floats
    freedom: Floats
    bias: Floats
    noise: Floats
    weight: Floats
    reliability: Floats
    widened: Floats | None = None
    crowd_error: Floats | None = None
    more: Mapping[str, Floats] = field(default_factory=dict)
    pairs: Mapping[str, Array] = field(default_factory=dict)

    def sound(self) -> bool:
        """Whether the arrays of saved estimates agree with each other."""
        items = self.votes.n_items, self.votes.n_dimensions
        people = self.votes.n_annotators, self.votes.n_dimensions
        return (
            all(part.shape == items for part in (self.estimate, self.scale, self.freedom))
            and all(part.shape == people for part in (self.bias, self.noise))
            and all(part is None or part.shape == items[1:] for part in (self.widened, self.crowd_error))
            and all(len(part) == people[0] for part in (self.weight, self.reliability, *self.more.values()))
        )

    @property
    def sd(self) -> Floats:
        """Standard deviation of every estimate, [N, D]."""
        return sd_of(self.scale, self.freedom)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Central interval of every estimate at this level: low and high, [N, D] each."""
        from scipy.special import stdtrit

        if not 0 < level < 1:
            raise SettingError(f"level must lie between 0 and 1; got {level!r}")
        half = stdtrit(self.freedom, (1 + level) / 2) * self.scale
        return self.estimate - half, self.estimate + half

    def items_frame(self, level: float = 0.95) -> pl.DataFrame:
        """One row per item: estimate, sd, low, high, n_votes; a name before each where values have several dimensions."""
        low, high = self.interval(level)
        columns: dict[str, Any] = {"item": series_of(self.votes.items)}
        parts = {"estimate": self.estimate, "sd": self.sd, "low": low, "high": high}
        for k, name in enumerate(self.votes.names):
            for part, array in parts.items():
                plain = len(self.votes.names) == 1
                columns[part if plain else name if part == "estimate" else f"{name}_{part}"] = array[:, k]
        return pl.DataFrame(columns).with_columns(pl.Series("n_votes", self.votes.votes_per_item)).fill_nan(None)

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator: n_votes, bias, noise, weight and reliability."""
        columns: dict[str, Any] = {
            "annotator": series_of(self.votes.annotators),
            "n_votes": self.votes.votes_per_annotator,
        }
        for part, array in {"bias": self.bias, "noise": self.noise, **self.more}.items():
            wide = array[:, None] if array.ndim == 1 else array
            names = [part] if wide.shape[1] == 1 else [f"{part}_{name}" for name in self.votes.names]
            columns |= {name: wide[:, k] for k, name in enumerate(names)}
        return pl.DataFrame(columns | {"weight": self.weight, "reliability": self.reliability}).fill_nan(None)
