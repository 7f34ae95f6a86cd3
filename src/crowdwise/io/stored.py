"""Arrays in ``.npy`` files of a work folder, loaded by several threads."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np

__all__ = ["load_array", "map_array"]

# A header is parsed as Python. Up to Python 3.11 that fails with a SystemError, now and then, where a garbage collection
# inside one thread's parser lets another thread start its own.
_PARSING = Lock()


def map_array(path: Path, mode: Literal["r", "r+"] = "r") -> np.ndarray[Any, Any]:
    """An array that stays in its file."""
    with _PARSING:
        return np.lib.format.open_memmap(path, mode)


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """An array in memory."""
    return np.array(map_array(path), order="K", subok=False)
