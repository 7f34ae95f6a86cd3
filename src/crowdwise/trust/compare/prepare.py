"""What is settled before methods run, and how their warnings are reported."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from crowdwise import errors
from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.carry import positions
from crowdwise.kernels.types import Integers

__all__ = ["check_options", "rows_of", "warning_of"]


def check_options(jobs: int | None, time_limit: float | None, level: float, n_resamples: int) -> None:
    """Refuse what no comparison can be made with."""
    if jobs is not None and jobs < 1:
        raise SettingError(f"jobs must be at least 1; got {jobs!r}")
    if time_limit is not None and not time_limit > 0:
        raise SettingError(f"the time limit must be above 0 seconds; got {time_limit!r}")
    if not 0 < level < 1:
        raise SettingError(f"level must lie strictly between 0 and 1; got {level!r}")
    if n_resamples < 0:
        raise SettingError(f"n_resamples must be at least 0; got {n_resamples!r}")


def rows_of(votes: Annotations, features: Any, items: Any) -> Integers:
    """Row of every item in the features, [N]; -1 for an item without row, which can only be one without votes."""
    from crowdwise.methods.classify.align import aligned_votes

    aligned = aligned_votes(features, votes, items, None)
    return np.arange(votes.n_items) if items is None else positions(votes.items, aligned.items)


def warning_of(name: str) -> type[Warning]:
    """A warning's class by its name; those of other libraries become plain ones."""
    found = getattr(errors, name, getattr(builtins, name, None))
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning
