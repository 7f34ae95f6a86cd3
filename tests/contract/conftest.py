"""Votes that the promises of label-only methods share."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd

from crowdwise.data.annotations import Annotations


@pytest.fixture(scope="session")
def easy() -> Annotations:
    """Thirty items, five annotators right in 85 % of cases, three classes: nothing is in doubt."""
    return crowd(7, 30, diagonal_crowd(5, 3, 0.85))[0]


@pytest.fixture(scope="session")
def easy_truth() -> np.ndarray:
    return crowd(7, 30, diagonal_crowd(5, 3, 0.85))[1]
