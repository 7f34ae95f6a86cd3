from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet, random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make


def fit(votes: Any, **settings: Any) -> Any:
    with quiet():
        return make("group-vote", **settings).fit(votes)


def test_by_hand() -> None:
    # Team: cat, cat, dog -> cat. Team two: dog, fox -> half a voice each. One alone: dog.
    table = {"item": [1] * 6, "annotator": list("abcdef"), "label": ["cat", "cat", "dog", "dog", "fox", "dog"]}
    model = fit(table, groups={"a": 1, "b": 1, "c": 1, "d": 2, "e": 2})
    np.testing.assert_allclose(model.result_.model_posterior, [[1 / 3, 1.5 / 3, 0.5 / 3]])
    why = model.explain(1)
    assert why.unit == "share"
    parts = dict(zip(why.rows["source"], why.rows["contribution"], strict=True))
    # Dog against cat: both cat voters of the winning team share its voice; its dog voter says nothing.
    assert [parts[name] for name in "abcdef"] == pytest.approx([-1 / 6, -1 / 6, 0, 1 / 6, 0, 1 / 3])


def test_without_groups_it_is_the_majority() -> None:
    votes = random_votes(np.random.default_rng(0), 30, 5, 3, 120, weight=np.random.default_rng(1).random(120))
    one_each = Annotations.from_arrays(*crowd(0, 40, diagonal_crowd(5, 3, 0.7))[0].to_frame().get_columns())
    # A lone annotator with conflicting votes on an item still has one voice, for what it said most.
    np.testing.assert_allclose(
        fit(one_each, groups={}).result_.model_posterior, make("majority").fit(one_each).result_.model_posterior
    )
    assert np.isfinite(fit(votes, groups={}).result_.model_posterior).all()


def test_a_record_weighs_voices() -> None:
    table = {"item": [1, 1, 1], "annotator": ["x", "y", "z"], "label": ["a", "a", "b"]}
    with quiet():
        model = make("group-vote", groups={"x": 1, "y": 1}).fit(table, history={"x": (1, 9), "y": (3, 7), "z": (9, 1)})
    np.testing.assert_allclose(model.result_.model_posterior, [[0.2 / 1.1, 0.9 / 1.1]])
