"""Columns of a file, and where their rows come from, so that an error can name one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from crowdwise.data.encode import Where

if TYPE_CHECKING:
    from crowdwise.kernels.types import Integers

__all__ = ["Places", "Table"]


@dataclass(frozen=True)
class Places(Where):
    """Where rows come from when they are not consecutive: the number of each, and what it counts."""

    rows: Integers | None = None
    unit: str = "row"

    def row(self, index: int) -> str:
        """Return, for example, "votes.csv row 17"."""
        number = index + self.first_row if self.rows is None else int(self.rows[index])
        return f"{self.source} {self.unit} {number}"


@dataclass(frozen=True)
class Table:
    """Columns with the places of their rows."""

    frame: pl.DataFrame
    where: Places
