"""The classifiers on tables are ordinary scikit-learn classifiers when given one label per row."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from crowdwise.methods.classify.raykar import Raykar
from crowdwise.methods.classify.two_stage import TwoStage
from crowdwise.methods.classify.yan import Yan


@pytest.mark.slow
@parametrize_with_checks([Raykar(), Raykar(classifier="gaussian"), Yan(), TwoStage()])
def test_scikit_learn_agrees_that_it_is_a_classifier(estimator: Any, check: Any) -> None:
    check(estimator)
