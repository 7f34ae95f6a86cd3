"""`draw`: which items to check, and the table in which a person writes their true labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.data.gold import TRUE_LABEL
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Integers
from crowdwise.trust.audit.checks import checks_of
from crowdwise.trust.audit.plan import DESIGN, DRAW, Plan, plan_of

__all__ = ["Draw", "draw"]


@dataclass(frozen=True, eq=False)
class Draw:
    """The first items of a plan, with the true labels that are known already.

    Attributes
    ----------
    item : [T]
        Codes of the drawn items, in order.
    known : [T]
        What a person wrote so far, as text; None where nothing is known yet.
    """

    result: Result
    plan: Plan
    item: Integers
    known: list[str | None]

    def frame(self, labels: bool = False) -> pl.DataFrame:
        """One row per drawn item: item, an empty column "true label", draw, stratum, weight and design.

        Parameters
        ----------
        labels : bool
            Show the proposed label and its confidence too. People tend to agree with what they see, and then the errors
            found are too few; off by default for that reason.
        """
        votes, strata, place = self.result.votes, self.plan.strata, self.plan.order[: len(self.item)]
        columns: dict[str, Any] = {"item": series_of(votes.items)[self.item]}
        if labels:
            columns["label"] = series_of(votes.classes)[self.result.codes[self.item]]
            columns["confidence"] = self.result.confidence[self.item]
        stratum = strata.stratum[place]
        return pl.DataFrame(
            columns
            | {
                TRUE_LABEL: pl.Series(self.known, dtype=pl.String),
                DRAW: np.arange(1, len(self.item) + 1),
                "stratum": stratum + 1,
                # 1 is what every item would have if all were drawn alike.
                "weight": self.plan.weight[stratum] * strata.n_items,
                DESIGN: [self.plan.design] * len(self.item),
            }
        )


def draw(result: Result, n: int = 60, *, error: float = 0.05, seed: int = 0, more: Any = None) -> Draw:
    """Draw items whose labels a person should check, so that they say most about what can be accepted.

    Parameters
    ----------
    result : Result
        Any fit. Items without votes and those of known label are never drawn.
    n : int
        How many; with fewer items, all.
    error : float
        Share of wrong labels that is to be certified later.
    seed : int
        Draws are random, and the same for the same seed.
    more : frame, path or `Checks`, optional
        An earlier table: its rows are kept and n further items drawn with its seed and error. What is shown stays valid
        however often more is drawn.

    Examples
    --------
    >>> from crowdwise.data.datasets import demo
    >>> from crowdwise.estimator.registry import make
    >>> found = draw(make("dawid-skene").fit(demo().votes).result_, 40)
    >>> found.frame().columns
    ['item', 'true label', 'draw', 'stratum', 'weight', 'design']
    """
    if n < 1:
        raise SettingError(f"the number of items to check must be at least 1; got {n}")
    earlier = None if more is None else checks_of(result, more)
    plan = plan_of(result, error, seed) if earlier is None else earlier.plan
    if plan.strata.n_items == 0:
        raise InputError("there is nothing to check: no item has votes and a label that is not known yet")
    known: list[str | None] = [] if earlier is None else earlier.texts
    if len(known) >= plan.strata.n_items:
        raise InputError(f"all {plan.strata.n_items:,} items that can be checked are drawn already")
    last = min(len(known) + n, plan.strata.n_items)
    known = known + [None] * (last - len(known))
    return Draw(result, plan, plan.strata.item[plan.order[:last]], known)
