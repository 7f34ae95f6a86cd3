"""Objects and arrays that cannot be written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.kernels.types import Array

__all__ = ["ReadOnly", "frozen"]


class ReadOnly:
    """Base of frozen dataclasses whose arrays, also those in mappings, are made read-only."""

    def __post_init__(self) -> None:
        for value in list(vars(self).values()):
            for part in value.values() if isinstance(value, Mapping) else (value,):
                if isinstance(part, np.ndarray):
                    part.setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickling forgets that arrays are read-only.
        vars(self).update(state)
        self.__post_init__()


def frozen(array: Array) -> Array:
    """Return the array itself, read-only from now on."""
    array.setflags(write=False)
    return array
