"""Open a saved result as the fitted estimator that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.aggregate.registry import make
from crowdwise.result import Result

if TYPE_CHECKING:
    from os import PathLike

    from crowdwise.aggregate.base import Aggregator

__all__ = ["load"]


def load(folder: str | PathLike[str]) -> Aggregator:
    """Return the fitted estimator saved in `folder`: predict, explain or `update` with it."""
    result = Result.load(folder)
    estimator = make(result.method, **result.settings)
    vars(estimator)["result_"] = result
    return estimator
