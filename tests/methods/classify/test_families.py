"""Papers that differ in one term are one class: the term is a setting, and the name in the registry follows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tests.methods.classify.crowds import clouds, vote

from crowdwise.errors import SettingError
from crowdwise.estimator.registry import METHODS, make
from crowdwise.methods.classify.ccem import CCEM
from crowdwise.methods.classify.crowd_layer import CrowdLayer
from crowdwise.methods.classify.fourier_gp import FourierGP
from crowdwise.parts.heads.confusion import identity_confusion
from crowdwise.parts.heads.penalties import ConfusionVolume, PredictionVolume, Trace

FAMILIES = {
    "crowd-layer-mw": CrowdLayer(kind="matrix"),
    "crowd-layer-vw": CrowdLayer(kind="vector"),
    "crowd-layer-vwb": CrowdLayer(kind="vector-bias"),
    "ccem": CCEM(),
    "trace-reg": CCEM(penalty="trace"),
    "geocrowdnet-f": CCEM(penalty="volume-f"),
    "geocrowdnet-w": CCEM(penalty="volume-w"),
    "rff": FourierGP(),
    "vff": FourierGP(learned=True),
}
# Weight, first epoch and rise of the penalties as each was published here as a method of its own.
PENALTIES = {"trace": Trace(1e-3, 10), "volume-f": PredictionVolume(0.1, 5, 5), "volume-w": ConfusionVolume(1e-2, 5, 5)}

FEATURES, TRUTH = clouds(0, 60, 3)
VOTES = vote(1, TRUTH, np.stack([(1 - right) / 2 + (1.5 * right - 0.5) * np.eye(3) for right in (0.9, 0.7, 0.6)]))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_name_is_a_class_with_a_setting(name: str) -> None:
    made, written = make(name), FAMILIES[name]
    assert type(made) is type(written)
    assert made.get_params() == written.get_params()
    assert made.name == written.name == clone(made).name == name


def test_classes_that_serve_several_names_are_these() -> None:
    paths = [method.path for method in METHODS.values() if ".classify." in method.path]
    assert {name for name, method in METHODS.items() if paths.count(method.path) > 1} == set(FAMILIES)


def test_the_name_follows_the_setting() -> None:
    model = make("crowd-layer-mw").set_params(kind="vector")
    assert model.name == "crowd-layer-vw"
    model.set_params(epochs=1, init="identity").fit(FEATURES, VOTES)
    assert model.result_.method == "crowd-layer-vw"


def penalties_of(**settings: Any) -> Any:
    """What a network's head adds to its loss."""
    from crowdwise.methods.classify.runs import Start

    posterior = torch.full((60, 3), 1 / 3, dtype=torch.float64)
    start = Start(posterior, identity_confusion(3, 3, torch.float64), True, torch.float64)
    return CCEM(**settings)._head(VOTES, start).penalties


@pytest.mark.parametrize("penalty", PENALTIES)
def test_every_penalty_keeps_its_own_weight_and_start(penalty: str) -> None:
    assert penalties_of(penalty=penalty) == (PENALTIES[penalty],)
    changed = penalties_of(penalty=penalty, strength=0.0, penalty_from=0, rise=3)
    assert changed == (type(PENALTIES[penalty])(0.0, 0, 3),)


def test_only_the_volume_of_predictions_can_be_unbalanced() -> None:
    assert penalties_of(penalty="volume-f", balanced=False) == (PredictionVolume(0.1, 5, 5, balanced=False),)


@pytest.mark.parametrize("setting", ["strength", "penalty_from", "rise"])
def test_what_belongs_to_a_penalty_is_refused_without_one(setting: str) -> None:
    with pytest.raises(SettingError, match="belong to a penalty; set penalty to trace, volume-f or volume-w"):
        CCEM(**{setting: 1}).fit(FEATURES, VOTES)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (CCEM(penalty="volume"), "penalty must be one of trace, volume-f, volume-w; got 'volume'"),
        (CCEM(penalty=1), "penalty must be one of"),
        (CrowdLayer(kind="mw"), "kind must be one of matrix, vector, vector-bias; got 'mw'"),
        (CrowdLayer(kind=None), "kind must be one of"),
        (FourierGP(learned="yes"), "learned must be true or false"),
    ],
)
def test_other_values_are_refused(model: Any, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        model.fit(FEATURES, VOTES)


def test_a_penalty_counts() -> None:
    plain, strong = (
        CCEM(penalty="volume-f", strength=strength, penalty_from=0, epochs=4, init="identity").fit(FEATURES, VOTES)
        for strength in (0.0, 1.0)
    )
    none = CCEM(epochs=4, init="identity").fit(FEATURES, VOTES)
    np.testing.assert_array_equal(plain.posterior_, none.posterior_)
    assert not np.allclose(plain.posterior_, strong.posterior_, atol=1e-4)
