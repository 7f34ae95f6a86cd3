"""The types of arrays that nearly every module names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Flags", "Floats", "Integers"]

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[Any]  # of any width: codes are kept in the narrowest type that holds them
