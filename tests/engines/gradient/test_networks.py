"""The built-in networks: which one, its sizes, and standardisation that survives any scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import even, quiet, votes_on
from torch import nn

from crowdwise.engines.gradient import networks
from crowdwise.engines.gradient.networks import Standardise, build_network, default_spec
from crowdwise.engines.gradient.rows import rows_of
from crowdwise.methods.classify.ccem import CCEM

RNG = np.random.default_rng(0)


def network_for(features: Any, kind: str = "auto", n_classes: int = 3, dtype: torch.dtype = torch.float64) -> nn.Module:
    rows = rows_of(features, dtype)
    return build_network(default_spec(kind, rows, n_classes, None), rows).to(dtype)


def has(network: nn.Module, kind: type[nn.Module]) -> bool:
    return any(isinstance(module, kind) for module in network.modules())


@pytest.mark.parametrize(
    ("shape", "convolutional"),
    [((6,), False), ((1,), False), ((5, 7), False), ((3, 8, 8), True), ((1, 28, 28), True), ((3, 32, 48), True)],
)
def test_images_get_convolutions_and_everything_else_layers(shape: tuple[int, ...], convolutional: bool) -> None:
    features = RNG.normal(size=(4, *shape))
    network = network_for(features)
    assert has(network, nn.Conv2d) == convolutional
    network.eval()
    assert network(torch.tensor(features)).shape == (4, 3)


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (4, 4), (8, 8), (9, 17), (2, 40), (64, 64)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_of_any_size_train(size: tuple[int, int], channels: int) -> None:
    images = torch.rand(4, channels, *size, dtype=torch.float64)
    network = network_for(images)
    network.train()
    output = network(images)
    assert output.shape == (4, 3)
    output.sum().backward()


@pytest.mark.parametrize("kind", ["linear", "mlp", "cnn"])
def test_a_network_is_what_was_asked_for(kind: str) -> None:
    network = network_for(torch.rand(10, 3, 8, 8, dtype=torch.float64), kind)
    assert has(network, nn.Conv2d) == (kind == "cnn")
    assert sum(isinstance(module, nn.Linear) for module in network.modules()) == (2 if kind == "mlp" else 1)
    assert has(network, nn.Dropout) == (kind != "linear")


def test_the_width_grows_with_the_root_of_the_rows() -> None:
    """64 up to 4,000 rows or so, 256 at 65,536, never above 512."""
    widths = [default_spec("mlp", _Sized(n), 3, None)["width"] for n in (1, 100, 4096, 65_536, 10**7)]
    assert widths == [64, 64, 64, 256, 512]


class _Sized:
    run, shape = 1, (4,)

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def take(self, index: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(index), 4)


def test_a_spec_is_plain_values_and_rebuilds_the_network() -> None:
    import json

    rows = rows_of(RNG.normal(size=(50, 3, 9, 9)).astype(np.float32), torch.float32)
    spec = json.loads(json.dumps(default_spec("auto", rows, 4, 0.1)))
    first = build_network(spec, rows).to(torch.float32)
    second = build_network(spec).to(torch.float32)
    second.load_state_dict(first.state_dict())
    first.eval(), second.eval()
    images = rows.take(torch.arange(5))
    np.testing.assert_array_equal(first(images).detach(), second(images).detach())


def test_dropout_is_the_users() -> None:
    rows = rows_of(np.zeros((5, 4)), torch.float64)
    chosen = [
        module.p
        for module in build_network(default_spec("mlp", rows, 3, 0.0), rows).modules()
        if isinstance(module, nn.Dropout)
    ]
    assert chosen == [0.0]


# -- standardisation ------------------------------------------------------------------------------


def standardised(features: np.ndarray, dtype: torch.dtype = torch.float64) -> np.ndarray:
    network: Any = network_for(features, "linear" if features.ndim == 2 else "cnn", dtype=dtype)
    layer = next(module for module in network.modules() if isinstance(module, Standardise))
    return layer(torch.tensor(features, dtype=dtype)).numpy()


@pytest.mark.parametrize("chunk", [1, 40, 2**22])
def test_columns_get_mean_zero_and_spread_one_however_the_sample_is_cut(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_CHUNK", chunk)
    got = standardised(RNG.normal(5, [1.0, 100.0, 1e-3, 1e-9], size=(301, 4)))
    # A spread of 1e-9 around 5 leaves six digits of a double.
    np.testing.assert_allclose(got.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(got.std(axis=0), 1, rtol=1e-5)


def test_channels_of_images_are_standardised_over_items_and_pixels() -> None:
    got = standardised(RNG.normal([[[5]], [[-2]]], [[[3]], [[0.1]]], size=(40, 2, 6, 7)))
    np.testing.assert_allclose(got.mean(axis=(0, 2, 3)), 0, atol=1e-9)
    np.testing.assert_allclose(got.std(axis=(0, 2, 3)), 1, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-120, 1e-30, 1e-13, 1.0, 1e15, 1e30, 1e120])
def test_features_of_any_scale_become_ordinary_numbers(scale: float) -> None:
    plain = RNG.normal(size=(50, 2))
    np.testing.assert_allclose(standardised(plain * scale), (plain - plain.mean(0)) / plain.std(0), rtol=1e-6, atol=1e-9)


def test_large_offsets_do_not_swallow_the_spread_in_double_precision() -> None:
    """Dates in seconds: 1.7e9 with a spread of a tenth; single precision would see 128-second steps."""
    plain = RNG.normal(size=(50, 1))
    np.testing.assert_allclose(standardised(1.7e9 + 0.1 * plain), (plain - plain.mean(0)) / plain.std(0), atol=1e-4)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -3e7, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_column_becomes_zero(value: float, dtype: torch.dtype) -> None:
    features = np.column_stack([np.full(101, value), RNG.normal(size=101)])
    got = standardised(features, dtype)
    np.testing.assert_allclose(got[:, 0], 0, atol=abs(value) * 1e-6)
    assert np.isfinite(got).all()


def test_rounding_noise_beside_real_columns_stays_small() -> None:
    """Principal components beyond the rank of the data are some 1e-16 in size and must not be blown up to one."""
    got = standardised(np.column_stack([RNG.normal(size=80), 1e-16 * RNG.normal(size=80)]))
    np.testing.assert_allclose(got[:, 0].std(), 1, rtol=1e-9)
    np.testing.assert_allclose(got[:, 1], 0, atol=1e-12)


def test_units_may_differ_by_any_factor() -> None:
    got = standardised(np.column_stack([1e20 * RNG.normal(size=80), RNG.normal(size=80), 1e-6 * RNG.normal(size=80)]))
    np.testing.assert_allclose(got.std(axis=0), 1, rtol=1e-9)


def test_a_network_that_brings_its_own_weights_needs_no_rows() -> None:
    spec = {"kind": "linear", "shape": [4], "n_classes": 3, "width": 64, "dropout": None}
    assert build_network(spec)(torch.zeros(2, 4)).shape == (2, 3)


# -- whole fits at the edges ----------------------------------------------------------------------


def fitted(features: Any, truth: np.ndarray, n_classes: int, **settings: Any) -> CCEM:
    votes = votes_on(truth, even(3, n_classes, 0.9), 1)
    with quiet():
        return CCEM(**({"epochs": 3, "warmup": 1, "init": "majority"} | settings)).fit(features, votes)


@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 3, 3), (8, 8, 1), (8, 8)])
def test_tiny_byte_images_are_fitted(shape: tuple[int, ...]) -> None:
    truth = np.arange(40) % 2
    model = fitted((RNG.random((40, *shape)) * 100 + 100 * truth.reshape(-1, *[1] * len(shape))).astype(np.uint8), truth, 2)
    assert has(model.network_, nn.AdaptiveAvgPool2d)
    assert np.isfinite(model.posterior_).all()


def test_one_feature_is_enough() -> None:
    truth = np.arange(60) % 2
    model = fitted(RNG.normal(6.0 * truth[:, None], 1), truth, 2, epochs=30, learning_rate=0.01)
    assert (model.labels_ == truth).mean() > 0.9


def test_constant_features_give_the_same_answer_everywhere() -> None:
    model = fitted(np.full((40, 3), 7.0), np.arange(40) % 2, 2)
    assert np.ptp(model.predict_proba(np.full((5, 3), 7.0)), axis=0).max() == 0


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_features_of_a_huge_scale_are_learned(precision: str) -> None:
    truth = np.arange(90) % 3
    features = 1e20 * (np.eye(3)[truth] * 8 + RNG.normal(size=(90, 3)))
    model = fitted(features, truth, 3, epochs=40, learning_rate=0.01, precision=precision)
    assert (model.predict(features) == truth).mean() > 0.95


@pytest.mark.slow
def test_a_hundred_classes_are_learned() -> None:
    truth = np.arange(1500) % 100
    features = 6 * np.random.default_rng(1).normal(size=(100, 20))[truth] + RNG.normal(size=(1500, 20))
    model = fitted(features, truth, 100, epochs=40, warmup=5, learning_rate=0.01)
    assert (model.labels_ == truth).mean() > 0.9
    assert math.isclose(model.confusion_.sum(), 300, rel_tol=1e-6)
