"""How items are drawn: the whole order, made again from the same result, error and seed, and the line that names it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np

from crowdwise.errors import check_share
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.audit.strata import Strata, drawing_order, drawing_weights, strata_of

__all__ = ["DESIGN", "DRAW", "Plan", "parse_design", "plan_of"]

# Columns of a table of drawn items.
DRAW, DESIGN = "draw", "design"


@dataclass(frozen=True, eq=False)
class Plan:
    """How the items of a result are drawn: strata, weights and the whole order.

    Attributes
    ----------
    strata : Strata
    weight : [H]
        Weight of an item of each stratum.
    order : [P]
        Positions in `strata.item`, in the order in which they are drawn.
    error, seed
        What the plan was made for.
    key : str
        Changes with any label, stratum or option: a table of another plan is recognised.
    """

    strata: Strata
    weight: Floats
    order: Integers
    error: float
    seed: int
    key: str

    @property
    def design(self) -> str:
        """The plan in a line, from which and the same result it can be made again."""
        return f"seed {self.seed}, error {self.error:g}, key {self.key}"


def plan_of(result: Result, error: float = 0.05, seed: int = 0) -> Plan:
    """Make the plan of drawing for a result; the same result, error and seed make the same plan."""
    check_share("error", error)
    strata = strata_of(result)
    weight = drawing_weights(strata, error)
    order = drawing_order(strata, weight, seed)
    parts = (strata.item, strata.stratum, result.codes[strata.item], order)
    key = hashlib.sha256(b"".join(np.asarray(part, "<i8").tobytes() for part in parts)).hexdigest()[:8]
    return Plan(strata, weight, order, error, seed, key)


def parse_design(text: str) -> tuple[int, float] | None:
    """Seed and error of a plan's line; None where it is none."""
    found = re.match(r"seed (\d+), error ([0-9.e-]+), key [0-9a-f]{8}$", text.strip())
    return (int(found[1]), float(found[2])) if found else None
