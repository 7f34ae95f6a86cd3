"""A trained covariance function in numbers that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from crowdwise.parts.priors.covariance import Combined, FromGPyTorch, Scaled

__all__ = ["FittedKernel", "read_kernel"]


@dataclass(frozen=True)
class FittedKernel:
    """Variance and length scales of a trained kernel; of a sum or a product, its parts.

    Attributes
    ----------
    kind : str
        "rbf", "matern", "linear", "sum" or "product"; of a GPyTorch kernel the name of its class.
    variance : float or None
        None where there is no such parameter.
    lengthscale : float, mapping or None
        One for all features, or feature -> length scale (by name, or by position where features have no names).
        In units of standardised features.
    parts : tuple
        Of a sum or a product.
    """

    kind: str
    variance: float | None = None
    lengthscale: float | dict[Any, float] | None = None
    parts: tuple[FittedKernel, ...] = ()

    def __str__(self) -> str:
        front = "" if self.variance is None else f"{self.variance:.4g} * "
        if self.parts:
            joined = (" + " if self.kind == "sum" else " * ").join(map(str, self.parts))
            return f"{front}({joined})"
        if self.lengthscale is None:
            return f"{front}{self.kind}"
        one = isinstance(self.lengthscale, float)
        scales = f"{self.lengthscale:.4g}" if one else f"{len(self.lengthscale)} features"  # type: ignore[arg-type]
        return f"{front}{self.kind}(lengthscale={scales})"


def read_kernel(covariance: nn.Module, names: Sequence[Any]) -> FittedKernel:
    """The numbers of a covariance; `names` are those of its columns."""
    if isinstance(covariance, FromGPyTorch):
        return _read_gpytorch(covariance.kernel, names)
    if isinstance(covariance, Combined):
        kind = "product" if covariance.product else "sum"
        return FittedKernel(kind, parts=tuple(read_kernel(part, names) for part in covariance.parts))
    assert isinstance(covariance, Scaled)
    return FittedKernel(
        covariance.kind,
        float(covariance.log_variance.detach().exp()),
        _scales(covariance.log_lengthscale.detach().exp(), names),
    )


def _read_gpytorch(kernel: Any, names: Sequence[Any]) -> FittedKernel:
    active = getattr(kernel, "active_dims", None)
    own = names if active is None else [names[i] for i in active.tolist()]
    kind = type(kernel).__name__
    if kind == "ScaleKernel":
        # It takes over the columns of its base, which are chosen once.
        inner = _read_gpytorch(kernel.base_kernel, own if kernel.base_kernel.active_dims is None else names)
        scale = float(kernel.outputscale.detach())
        return replace(inner, variance=scale * (1.0 if inner.variance is None else inner.variance))
    if hasattr(kernel, "kernels"):
        kind = {"AdditiveKernel": "sum", "ProductKernel": "product"}.get(kind, kind)
        return FittedKernel(kind, parts=tuple(_read_gpytorch(part, own) for part in kernel.kernels))
    variance, scales = getattr(kernel, "variance", None), kernel.lengthscale if kernel.has_lengthscale else None
    return FittedKernel(
        kind,
        float(variance.detach()) if isinstance(variance, Tensor) and variance.numel() == 1 else None,
        None if scales is None else _scales(scales.detach(), own),
    )


def _scales(values: Tensor, names: Sequence[Any]) -> float | dict[Any, float]:
    found = values.reshape(-1).tolist()
    return float(found[0]) if len(found) == 1 else dict(zip(names, found, strict=True))
