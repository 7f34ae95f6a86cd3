"""Votes that the promises of label-only methods share."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contract.labels import EASY, EASY_TRUTH

from crowdwise.data.annotations import Annotations


@pytest.fixture
def easy() -> Annotations:
    return EASY


@pytest.fixture
def easy_truth() -> np.ndarray:
    return EASY_TRUTH
