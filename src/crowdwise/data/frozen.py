"""What data and results have in common: arrays that cannot be written to, and the sizes of their vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answers", "ReadOnly"]


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


class Answers(ReadOnly):
    """Base of data: answers as codes, with the vocabularies of items and annotators."""

    items: NDArray[Any]
    annotators: NDArray[Any]

    @property
    def n_items(self) -> int:
        """Number of items, N, with or without answers."""
        return len(self.items)

    @property
    def n_annotators(self) -> int:
        """Number of annotators, A, with or without answers."""
        return len(self.annotators)
