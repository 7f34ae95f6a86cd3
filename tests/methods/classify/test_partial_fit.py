"""`partial_fit`: a pass from the fitted state, with classes that are fixed and annotators that come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.gradient.helpers import blobs, even, quiet, votes_on

from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.loading import load
from crowdwise.estimator.registry import classifiers, make
from crowdwise.methods.classify.ccem import CCEM
from crowdwise.methods.classify.neural import NeuralClassifier

FEATURES, TRUTH = blobs(0, 120, 3, gap=6.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.8))
FAST: dict[str, Any] = {"batch_size": 16, "init": "majority", "learning_rate": 0.02}
NETWORKS = [name for name, method in classifiers().items() if issubclass(method.cls, NeuralClassifier)]


def network_bits(model: Any) -> bytes:
    return b"".join(value.numpy().tobytes() for value in model.network_.state_dict().values())


def test_the_first_call_is_a_fit_of_one_epoch() -> None:
    with quiet():
        first = CCEM(**FAST).partial_fit(FEATURES, VOTES)
        once = CCEM(epochs=1, validation=0, warmup=0, **FAST).fit(FEATURES, VOTES)
    assert network_bits(first) == network_bits(once)
    np.testing.assert_array_equal(first.confusion_, once.confusion_)
    assert first.get_params()["epochs"] is None


@pytest.mark.parametrize("name", NETWORKS)
def test_passes_teach_and_a_fit_goes_on(name: str) -> None:
    with quiet():
        model = make(name, **FAST)
        for start in (0, 40, 0, 40, 0, 40):
            model.partial_fit(FEATURES[start : start + 40], VOTES[start : start + 40])
    assert (model.predict(FEATURES[80:]) == TRUTH[80:]).mean() > 0.8
    assert model.result_.votes.n_items == 40
    assert len(model.history_["loss"]) == 6


def test_a_pass_that_learns_nothing_leaves_network_and_annotators_as_they_are() -> None:
    """With rates of next to nothing: what is known goes on, also of annotators without a vote in the call."""
    still = {"learning_rate": 1e-30, "head_learning_rate": 1e-30}
    others = VOTES.take_votes(VOTES.annotator != 0)
    with quiet():
        model = CCEM(epochs=5, **FAST).fit(FEATURES, VOTES)
        network, confusion = network_bits(model), model.confusion_
        model.set_params(**still).partial_fit(FEATURES[:30], others[:30])
    assert network_bits(model) == network
    assert model.annotators_.tolist() == VOTES.annotators.tolist()
    np.testing.assert_allclose(model.confusion_, confusion, atol=1e-3)
    # Votes of earlier calls cannot be counted again: votes on new rows are judged by what was trained.
    on_new = model._annotators_on(FEATURES[:1], np.arange(VOTES.n_annotators))
    np.testing.assert_array_equal(on_new.confusion(), model.confusion_)


def test_new_annotators_appear_and_the_old_stay() -> None:
    with quiet():
        model = CCEM(**FAST).partial_fit(FEATURES, VOTES)
        model.partial_fit(FEATURES[:30], replace(VOTES, annotators=np.arange(2, 6))[:30])
    assert model.annotators_.tolist() == [0, 1, 2, 3, 4, 5]
    assert model.confusion_.shape == (6, 3, 3)
    # One label per row is a voter of another kind of name.
    with quiet():
        model.partial_fit(FEATURES, TRUTH)
    assert len(model.annotators_) == 7


def test_classes_are_fixed_by_the_first_call() -> None:
    with quiet():
        model = CCEM(**FAST).partial_fit(FEATURES[TRUTH < 2], TRUTH[TRUTH < 2], classes=[0, 1, 2])
        model.partial_fit(FEATURES[TRUTH == 2], TRUTH[TRUTH == 2])
        assert model.classes_.tolist() == [0, 1, 2]
        with pytest.raises(InputError, match="not among the classes"):
            model.partial_fit(FEATURES, TRUTH + 1)
        with pytest.raises(SettingError, match="fixed by the first call"):
            model.partial_fit(FEATURES, TRUTH, classes=[0, 1])


def test_an_ensemble_is_refused() -> None:
    with pytest.raises(SettingError, match="members=1"):
        CCEM(members=2).partial_fit(FEATURES, VOTES)


def test_calls_repeat_to_the_bit_and_go_on_after_loading(tmp_path: Path) -> None:
    with quiet():
        first, second = (CCEM(epochs=2, **FAST).fit(FEATURES, VOTES) for _ in range(2))
        first.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        for model in (first, second, loaded):
            model.partial_fit(FEATURES[:40], VOTES[:40])
    assert network_bits(first) == network_bits(second) == network_bits(loaded)
