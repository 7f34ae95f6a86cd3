"""The check of the command line in one call."""

from __future__ import annotations

import numpy as np
import pytest

import crowdwise
from crowdwise.errors import DataWarning
from crowdwise.trust.crowd import cautious, dependence


def judges(n_copies: int) -> crowdwise.Annotations:
    """Three who answer what one hidden model saw, or one of them, beside four people."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)

    def answer(right: float, seen: np.ndarray) -> np.ndarray:
        return np.where(rng.random(300) < right, seen, (seen + rng.integers(1, 3, size=300)) % 3)

    shared = answer(0.75, truth)
    labels = [answer(0.97, shared) for _ in range(n_copies)] + [answer(0.8, truth) for _ in range(4)]
    return crowdwise.Annotations.from_matrix(np.column_stack(labels), annotators=list("abcwxyz"[3 - n_copies :]))


def test_shared_errors_lower_the_confidence_with_a_warning() -> None:
    model = crowdwise.DawidSkene().fit(judges(3))
    with pytest.warns(DataWarning, match=r"share errors: a, b, c \(43% of the votes\), and the votes can also be read"):
        found = crowdwise.crowd.check(model)
    np.testing.assert_array_equal(found.labels, model.result_.labels)
    assert (found.confidence <= model.result_.confidence + 1e-12).all()
    expected = cautious.cautious(model.result_, dependence.find(model.result_.votes))
    np.testing.assert_array_equal(found.posterior, expected)
    # Who is trusted leaves one reading.
    with pytest.warns(DataWarning, match="a, b, c") as caught:
        crowdwise.crowd.check(model.result_, trusted=["w"])
    assert "also be read" not in str(caught[0].message)


def test_independent_annotators_leave_the_result_as_it_is() -> None:
    result = crowdwise.DawidSkene().fit(judges(1)).result_
    assert crowdwise.crowd.check(result) is result


@pytest.mark.slow
def test_of_a_classifier_there_is_a_warning_alone() -> None:
    features = np.random.default_rng(1).normal(size=(300, 2))
    result = crowdwise.Raykar().fit(features, judges(3)).result_
    with pytest.warns(DataWarning, match=r"a, b, c .*Labels are as fitted, and so is the confidence"):
        assert crowdwise.crowd.check(result) is result
