"""Networks where the user brings none: sized from the data, standardising their input themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from crowdwise.engines.gradient.rows import Rows, parts_of

__all__ = ["BUILDERS", "NETWORKS", "Standardise", "build_network", "builds", "default_spec"]

Build = TypeVar("Build", bound=Callable[..., nn.Module])

#: What makes a network from its spec, by the kind that the spec names: see `builds`.
BUILDERS: dict[str, Callable[..., nn.Module]] = {}
NETWORKS = ("auto", "linear", "mlp", "cnn")
# Rows from which the mean and spread of the features are estimated.
_SAMPLE = 20_000
# Entries of that sample that are in memory at once: 20,000 large images would not fit.
_CHUNK = 2**20


def builds(*kinds: str) -> Callable[[Build], Build]:
    """Register a function that makes an untrained network from a spec of these kinds; saved models are rebuilt by it."""

    def registered(build: Build) -> Build:
        BUILDERS.update(dict.fromkeys(kinds, build))
        return build

    return registered


class Standardise(nn.Module):
    """Subtract the mean and divide by the spread of the training features; constants become zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    mean: Tensor
    scale: Tensor

    def fit(self, parts: Iterable[Tensor]) -> None:
        """Take mean and spread (over all but the channel axis) from a sample of rows, part by part.

        Both are kept in double precision until the network gets its own: a date in seconds has ten digits.
        """
        mean, square, top = (torch.zeros(len(self.mean), dtype=torch.float64) for _ in range(3))
        count = 0
        for part in parts:
            values = part.double().movedim(1, -1).reshape(-1, part.shape[1])
            top = torch.maximum(top, values.abs().amax(0))
            merged, own = count + len(values), values.mean(0)
            # Chan, Golub and LeVeque (1979): merging deviations keeps the digits that sums of squares lose.
            square += (values - own).square_().sum(0) + (own - mean).square() * (count * len(values) / merged)
            mean += (own - mean) * (len(values) / merged)
            count = merged
        spread = (square / max(count, 1)).sqrt()
        # A constant column carries nothing; its spread is rounding noise, of its own numbers or of what it was computed from.
        noise = 1e-12 * torch.maximum(top, spread.max().clamp(max=1) if len(spread) else top)
        self.mean, self.scale = mean, torch.where(spread <= noise, torch.ones_like(spread), spread)

    def forward(self, rows: Tensor) -> Tensor:
        """[B, D] or [B, C, H, W]."""
        shape = (1, -1, *([1] * (rows.ndim - 2)))
        return (rows.to(self.mean.dtype) - self.mean.reshape(shape)) / self.scale.reshape(shape)


def default_spec(kind: str, rows: Rows, n_classes: int, dropout: float | None, hidden: int | None = None) -> dict[str, Any]:
    """Plain values from which `build_network` makes a network for these rows: what a saved model keeps."""
    if kind == "auto":
        kind = "cnn" if len(rows.shape) == 3 else "mlp"
    # A power of two near the root of the number of rows: enough to fit, too little to memorise at once.
    width = hidden or 2 ** min(9, max(6, round(math.log2(max(len(rows), 2)) / 2)))
    return {"kind": kind, "shape": list(rows.shape), "n_classes": n_classes, "width": width, "dropout": dropout}


@builds("linear", "mlp", "cnn")
def build_network(spec: dict[str, Any], rows: Rows | None = None) -> nn.Module:
    """Make the network of a `default_spec`; `rows` fit its standardisation (a saved model brings its own).

    Give it one precision with ``.to(dtype)`` before use.
    """
    kind, shape, n_classes, width = spec["kind"], spec["shape"], spec["n_classes"], spec["width"]
    standardise = Standardise(shape[0] if kind == "cnn" else math.prod(shape))
    if rows is not None and len(rows):
        some = torch.arange(0, len(rows), max(1, len(rows) // _SAMPLE))
        sample = parts_of(rows, some, max(1, _CHUNK // max(math.prod(shape), 1)))
        standardise.fit(rows.take(part) if kind == "cnn" else rows.take(part).flatten(1) for part in sample)
    if kind == "cnn":
        dropout = 0.25 if spec["dropout"] is None else spec["dropout"]
        layers, n_inputs = _convolutions(shape, dropout)
        return nn.Sequential(standardise, *layers, nn.Linear(n_inputs, n_classes))
    head: list[nn.Module] = [nn.Flatten(), standardise]
    n_inputs = math.prod(shape)
    if kind == "linear":
        return nn.Sequential(*head, nn.Linear(n_inputs, n_classes))
    dropout = 0.5 if spec["dropout"] is None else spec["dropout"]
    return nn.Sequential(*head, nn.Linear(n_inputs, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, n_classes))


def _convolutions(shape: list[int], dropout: float) -> tuple[list[nn.Module], int]:
    """Up to three blocks of 3x3 convolutions that halve the image, then pooling to 4 x 4; and the number of outputs."""
    layers: list[nn.Module] = []
    channels, size = shape[0], min(shape[1:])
    for width in (32, 64, 128):
        if size < 4:
            break
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels, size = width, size // 2
    side = 4 if size >= 4 else 1
    return [*layers, nn.AdaptiveAvgPool2d(side), nn.Flatten(), nn.Dropout(dropout)], channels * side**2
