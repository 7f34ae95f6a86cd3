"""Covariance functions of Gaussian processes, by name or from GPyTorch.

    "rbf"      variance exp(-r^2 / 2)                        r: distance in units of the length scale(s)
    "matern"   variance (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)
    "linear"   variance (1 + x . x' / lengthscale^2)
    "rbf+linear", "rbf*linear"    sums and products, products first

A covariance answers ``forward(left, right)`` with [N, M] and ``diagonal(rows)`` with [N]; one with a kernel for every class
(`PerClass`) with [K, N, M] and [K, N].
"""

from __future__ import annotations

import copy
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from crowdwise.errors import SettingError

__all__ = ["COVARIANCES", "Combined", "FromGPyTorch", "PerClass", "Scaled", "Stationary", "covariance"]

COVARIANCES = ("rbf", "matern", "linear")


class Scaled(nn.Module):
    """A variance and one length scale, or one per column."""

    kind: str

    def __init__(self, n_columns: int, lengthscale: float, variance: float, ard: bool) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(torch.tensor(variance).log())
        self.log_lengthscale = nn.Parameter(torch.full((n_columns if ard else 1,), lengthscale).log())

    def _weight(self, rows: Tensor) -> Tensor:
        """One over the squared length scale of every column, [D]."""
        return (-2 * self.log_lengthscale).exp().expand(rows.shape[1])


class Stationary(Scaled):
    """A function of the distance."""

    def __init__(self, kind: str, n_columns: int, lengthscale: float, variance: float, ard: bool) -> None:
        super().__init__(n_columns, lengthscale, variance, ard)
        self.kind = kind

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """[N, M]."""
        # Only the right side is scaled: it is the inducing points', few beside the rows of a batch.
        weight = self._weight(right)
        scaled = right * weight
        size_left, size_right = left.square() @ weight, (right * scaled).sum(1)
        square = torch.addmm(size_left[:, None] + size_right, left, scaled.T, alpha=-2).clamp(min=0)
        if self.kind == "rbf":
            return (self.log_variance - square / 2).exp()
        # The root has no gradient at zero, where the function itself is flat.
        r = (5 * square + 1e-12).sqrt()
        return self.log_variance.exp() * (1 + r + r.square() / 3) * (-r).exp()

    def diagonal(self, rows: Tensor) -> Tensor:
        """[N]."""
        return self.log_variance.exp().expand(len(rows))


class _Linear(Scaled):
    kind = "linear"

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """[N, M]."""
        return self.log_variance.exp() * (1 + left @ (right * self._weight(right)).T)

    def diagonal(self, rows: Tensor) -> Tensor:
        """[N]."""
        return self.log_variance.exp() * (1 + rows.square() @ self._weight(rows))


class Combined(nn.Module):
    """A sum or a product."""

    def __init__(self, parts: list[nn.Module], product: bool) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.product = product

    def _joined(self, values: list[Tensor]) -> Tensor:
        return reduce(torch.mul if self.product else torch.add, values)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """[N, M]."""
        return self._joined([part(left, right) for part in self.parts])

    def diagonal(self, rows: Tensor) -> Tensor:
        """[N]."""
        return self._joined([part.diagonal(rows) for part in self.parts])  # type: ignore[operator]


class FromGPyTorch(nn.Module):
    """A kernel of GPyTorch's."""

    def __init__(self, kernel: nn.Module) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """[N, M]."""
        answer: Tensor = self.kernel(left, right).to_dense()
        return answer

    def diagonal(self, rows: Tensor) -> Tensor:
        """[N]."""
        answer: Tensor = self.kernel(rows, diag=True)
        return answer


class PerClass(nn.Module):
    """A kernel of its own for every class; all start as the one that is given.

    While they are not `apart`, the first stands for all, and answers are those of a single kernel: [N, M] and [N].
    """

    apart: Tensor

    def __init__(self, kernel: nn.Module, n_classes: int) -> None:
        super().__init__()
        self.of_class = nn.ModuleList(copy.deepcopy(kernel) for _ in range(n_classes))
        self.register_buffer("apart", torch.tensor(True))

    @property
    def kernels(self) -> list[nn.Module]:
        """Those of the classes."""
        return list(self.of_class) if bool(self.apart) else [self.of_class[0]] * len(self.of_class)

    def part(self, apart: bool) -> None:
        """Let kernels go their own ways, from where the first of them is, or hold them together."""
        first, *others = self.of_class
        for other in others:
            if apart and not bool(self.apart):
                other.load_state_dict(first.state_dict())
            other.requires_grad_(apart)
        self.apart.fill_(apart)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """[K, N, M]."""
        if not bool(self.apart):
            return self.of_class[0](left, right)  # type: ignore[no-any-return]
        return torch.stack([kernel(left, right) for kernel in self.of_class])

    def diagonal(self, rows: Tensor) -> Tensor:
        """[K, N]."""
        if not bool(self.apart):
            return self.of_class[0].diagonal(rows)  # type: ignore[no-any-return, operator]
        return torch.stack([kernel.diagonal(rows) for kernel in self.of_class])  # type: ignore[operator]


def covariance(choice: Any, n_columns: int, *, lengthscale: float, variance: float = 1.0, ard: bool = False) -> nn.Module:
    """Make a covariance function by name, or wrap a GPyTorch kernel (a copy of which is trained)."""
    if isinstance(choice, nn.Module):
        return FromGPyTorch(copy.deepcopy(choice))

    def single(name: str) -> nn.Module:
        name = name.strip()
        if name not in COVARIANCES:
            raise SettingError(
                f"kernel must be made of {', '.join(COVARIANCES)} with + and *, or be a GPyTorch kernel; got {choice!r}"
            )
        if name == "linear":
            return _Linear(n_columns, lengthscale, variance, ard)
        return Stationary(name, n_columns, lengthscale, variance, ard)

    def product(text: str) -> nn.Module:
        parts = [single(name) for name in text.split("*")]
        return parts[0] if len(parts) == 1 else Combined(parts, product=True)

    if not isinstance(choice, str):
        raise SettingError(f"kernel must be a name or a GPyTorch kernel; got {choice!r}")
    parts = [product(text) for text in choice.split("+")]
    return parts[0] if len(parts) == 1 else Combined(parts, product=False)
