"""`Outcome`: what every fit leaves behind, whichever method made it and whatever it estimates."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.frozen import ReadOnly
from crowdwise.errors import InputError
from crowdwise.estimator.storage import FILE_NAME, load, save
from crowdwise.kernels.types import Floats

if TYPE_CHECKING:
    from os import PathLike

    import polars as pl
    from typing_extensions import Self

__all__ = ["Outcome"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Outcome(ReadOnly):
    """A fit over one set of answers; frozen, with read-only arrays.

    Attributes
    ----------
    method, settings
        What was run.
    votes : Answers
        What it was fitted to, with the vocabularies.
    trace : mapping
        The objective per iteration, by named terms; empty for methods without one.
    n_iter, converged
        Iterations run, and whether the stopping rule was met.
    """

    method: str
    settings: dict[str, Any]
    votes: Any
    trace: dict[str, Floats]
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        # Also those of its parts (prior, annotators, ...), from which posteriors of other votes are computed.
        for part in vars(self).values():
            for value in vars(part).values() if is_dataclass(part) else ():
                if isinstance(value, np.ndarray):
                    value.setflags(write=False)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        sizes = f"{self.votes.n_items} items, {self.votes.n_annotators} annotators"
        return f"{type(self).__name__}({self.method}: {sizes}, {state})"

    def _repr_html_(self) -> str:
        from crowdwise.data.notebook import outcome_html

        return outcome_html(self)

    @property
    def bound(self) -> dict[str, float]:
        """Last value of the objective, by named terms; empty for methods without one."""
        return {name: float(values[-1]) for name, values in self.trace.items() if len(values)}

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator, in the order of the votes' vocabulary; the first column is `annotator`."""
        raise NotImplementedError

    def save(self, folder: str | PathLike[str]) -> None:
        """Write arrays and JSON (no pickle) into `folder`, whole or not at all."""
        save(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read what `save` wrote; runs no code from the file."""
        found = load(folder)
        if not isinstance(found, cls):
            raise InputError(f"{folder}/{FILE_NAME}: holds a {type(found).__name__}, not a {cls.__name__}")
        return found
